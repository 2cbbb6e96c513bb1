package aof

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestSwitchesUnderLoad: while clients write, appendfsync changes, the log is switched off and on, and rewrites and
// saves run. Once the log is on again with appendfsync always, every answered step survives a SIGKILL.
func TestSwitchesUnderLoad(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	s := testkit.Start(t, "--appendonly", "yes", "--save", "", "--auto-aof-rewrite-percentage", "0")
	for i := range 300 {
		s.Do("SET", fmt.Sprint("other", i), "v") // so that a rewrite takes a moment
	}
	from := 0
	for round := range 3 * testkit.Scale() {
		s.Do("CONFIG", "SET", "rdb-key-save-delay", "100")
		w := write(s, from, 0)
		for range 20 {
			switch rng.IntN(5) {
			case 0:
				s.Do("CONFIG", "SET", "appendonly", []string{"yes", "no"}[rng.IntN(2)])
			case 1:
				s.Ask("BGREWRITEAOF")
			case 2:
				s.Ask("BGSAVE")
			case 3:
				s.Do("CONFIG", "SET", "no-appendfsync-on-rewrite", []string{"yes", "no"}[rng.IntN(2)])
			default:
				s.Do("CONFIG", "SET", "appendfsync", []string{"always", "everysec", "no"}[rng.IntN(3)])
			}
			testkit.Moment(rng, 30*time.Millisecond)
		}
		s.Do("CONFIG", "SET", "rdb-key-save-delay", "0", "no-appendfsync-on-rewrite", "no", "appendonly", "yes",
			"appendfsync", "always")
		testkit.Until(t, testkit.Slowly(20*time.Second), "the log", func() error {
			i := s.Info("persistence") // read once, because a scheduled rewrite may begin between two reads
			return testkit.Equal(i["aof_rewrite_in_progress"]+i["aof_rewrite_scheduled"], "00")
		})
		s.AwaitInfo(time.Second, "persistence", "aof_last_bgrewrite_status", "ok")
		testkit.Moment(rng, 50*time.Millisecond)
		killed := time.Now()
		s.Kill()
		answered, _, sent := w.end(killed)
		if w.bad != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, w.bad)
		}
		s.Restart()
		n := steps(t, s, fmt.Sprintf("seed %d, round %d", seed, round))
		if n < answered || n > sent {
			t.Fatalf("seed %d, round %d: %d steps are there, %d were answered, %d sent", seed, round, n, answered, sent)
		}
		from = n
	}
}

// TestOwnBaseHoldsAll: a base of commands also has the data that only spindle, or only Redis 7.4, can read. This data
// is deadlines of fields, Bloom filters, functions, and groups with pending entries of deleted messages. Fields that
// expire before the load do not come back.
func TestOwnBaseHoldsAll(t *testing.T) {
	for _, preamble := range []string{"yes", "no"} {
		t.Run("preamble="+preamble, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--appendonly", "yes", "--aof-use-rdb-preamble", preamble, "--save", "")
			fill(s, "k:")
			for _, line := range []string{
				"HSET h a 1 b 2 c 3", "HPEXPIRE h 100000000 FIELDS 2 a b", "HSET lapses a 1 b 2", "HPEXPIRE lapses 1000 FIELDS 1 a",
				"HSET gone a 1", "HPEXPIRE gone 1000 FIELDS 1 a", "BF.RESERVE small 0.01 10", "BF.ADD empty x",
				"XADD x 1-1 f v", "XADD x 2-1 f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c COUNT 2 STREAMS x >", "XDEL x 1-1",
			} {
				s.Do(words(line)...)
			}
			for i := range 50 {
				s.Do("BF.ADD", "small", fmt.Sprint("member ", i))
			}
			s.Do("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function(k, a) return 'called' end)")
			s.Do("BGREWRITEAOF")
			s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_in_progress", "0")
			s.AwaitInfo(time.Second, "persistence", "aof_last_bgrewrite_status", "ok")
			base, _ := filepath.Glob(s.File("appendonlydir/*.2.base.*"))
			if want := map[string]string{"yes": ".rdb", "no": ".aof"}[preamble]; len(base) != 1 || filepath.Ext(base[0]) !=
				want {
				t.Fatalf("the base is %v", base)
			}
			testkit.Until(t, testkit.Slowly(20*time.Second), "the deadline", func() error {
				return testkit.Equal(s.Do("EXISTS", "gone").Int, int64(0))
			})
			look := func() (all []string) {
				for _, ask := range [][]any{
					{"DEBUG", "DIGEST"}, {"HPEXPIRETIME", "h", "FIELDS", 3, "a", "b", "c"}, {"HGETALL", "lapses"}, {"EXISTS", "gone"},
					{"BF.INFO", "small"}, {"DUMP", "small"}, {"DUMP", "empty"}, {"XPENDING", "x", "g", "-", "+", 10, "c"},
					{"FUNCTION", "LIST", "WITHCODE"}, {"FCALL", "f", 0}, {"DBSIZE"},
				} {
					if v := s.Do(ask...); ask[0] == "XPENDING" {
						for _, e := range v.Elems {
							all = append(all, fmt.Sprint("pending ", e.Elems[0].Text, e.Elems[1].Text, e.Elems[3].Int))
						}
					} else {
						all = append(all, fmt.Sprintf("%v: %+v", ask, v))
					}
				}
				return all
			}
			want := look()
			s.Terminate()
			incr, err := os.ReadFile(s.File("appendonlydir/appendonly.aof.2.incr.aof"))
			if err != nil || strings.Contains(string(incr), "BF.") {
				t.Fatalf("the increment has %q, %v", incr, err)
			}
			s.Restart()
			if got := look(); !slices.Equal(got, want) {
				t.Errorf("loaded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
