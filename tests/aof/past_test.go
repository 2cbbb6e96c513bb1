package aof

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A moment is the state of a server at an offset of its history. If its second is not 0, it is the state at the end of
// that second.
type moment struct {
	offset int64
	second int64
	state  map[string]string
}

// held returns a digest of each key of the first four databases, and of the function libraries. Keys whose names begin
// with brief are left out, because they may expire.
func held(s *testkit.Server) map[string]string {
	state := map[string]string{"functions": s.Do("FUNCTION", "DUMP").Text}
	c := s.Dial()
	defer c.Close()
	for db := range 4 {
		c.Must("SELECT", db)
		for keys := range slices.Chunk(c.Must("KEYS", "*").Strings(), 500) {
			words := []any{"DEBUG", "DIGEST-VALUE"}
			for _, key := range keys {
				words = append(words, key)
			}
			for i, digest := range c.Must(words...).Elems {
				if !strings.HasPrefix(keys[i], "brief") {
					state[fmt.Sprintf("%d %s", db, keys[i])] = digest.Text
				}
			}
		}
	}
	return state
}

// change makes one random change: of any type, by a script, function or transaction, or of a deadline.
func change(s *testkit.Server, rng *rand.Rand, i int) {
	c := s.Dial()
	defer c.Close()
	do := func(args ...any) { _, _ = c.Do(args...) } // a key may be of another type, or missing
	do("SELECT", rng.IntN(4))
	key := func(kind string) string { return kind + strconv.Itoa(rng.IntN(8)) }
	value := func() string { return strings.Repeat(strconv.Itoa(i), 1+rng.IntN(30)) }
	switch rng.IntN(20) {
	case 0:
		do("SET", key("string"), value())
	case 1:
		do("APPEND", key("string"), value())
	case 2:
		do("RPUSH", key("list"), value(), value())
	case 3:
		do("LPOP", key("list"))
	case 4:
		do("SADD", key("set"), value(), value())
	case 5:
		do("SPOP", key("set"))
	case 6:
		do("HSET", key("hash"), rng.IntN(50), value())
	case 7:
		do("HEXPIRE", key("hash"), 100000, "FIELDS", 1, rng.IntN(50))
	case 8:
		do("ZADD", key("zset"), rng.IntN(100), value())
	case 9:
		do("ZPOPMIN", key("zset"))
	case 10:
		do("XADD", key("stream"), "*", "f", value())
	case 11:
		do("PFADD", key("hll"), value())
	case 12:
		do("BF.ADD", key("bloom"), value())
	case 13:
		do("SET", key("brief"), value(), "PX", 1+rng.IntN(300))
	case 14:
		do("EXPIRE", key("string"), 100000+rng.IntN(1000))
	case 15:
		do("DEL", key([]string{"string", "list", "set", "hash", "zset", "stream"}[rng.IntN(6)]))
	case 16:
		do("MULTI")
		for range 1 + rng.IntN(5) {
			do("INCR", key("counter"))
		}
		do("EXEC")
	case 17:
		do("EVAL", "for i = 1, ARGV[1] do redis.call('SET', KEYS[1] .. i, i) end", 1, key("script"), rng.IntN(5))
	case 18:
		do("FUNCTION", "LOAD", "REPLACE", fmt.Sprintf("#!lua name=lib%d\nredis.register_function('f%d', "+
			"function(keys) return redis.call('INCR', keys[1]) end)", rng.IntN(3), rng.IntN(3)))
	case 19:
		switch rng.IntN(10) {
		case 0:
			do("FLUSHDB")
		case 1:
			do("SWAPDB", rng.IntN(4), rng.IntN(4))
		default:
			do("RENAME", key("string"), key("string"))
		}
	}
}

// offset returns the server's offset in its history.
func offset(s *testkit.Server) int64 {
	n, err := strconv.ParseInt(s.Info("persistence")["aof_history_offset"], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// rewritten waits until no rewrite is under way or due.
func rewritten(t *testing.T, s *testkit.Server) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(20*time.Second), "rewrites are over", func() error {
		info := s.Info("persistence")
		return testkit.Equal(info["aof_rewrite_in_progress"]+info["aof_rewrite_scheduled"], "00")
	})
}

// TestAnyMoment: a server with all kinds of data rewrites its log, is killed, and has its log switched off and on. Each
// moment that was noted while the log was on can be restored, by its offset or its second. The restored data set equals
// the server's data set at that moment. A restore costs two processes, so a short run restores a random part of them.
func TestAnyMoment(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	args := []string{"--appendonly", "yes", "--aof-keep-history", "1h", "--appendfsync", "always",
		"--enable-debug-command", "yes"}
	s := testkit.Start(t, args...)
	s.Do("FUNCTION", "LOAD", "#!lua name=base\nredis.register_function('g', function() return 1 end)")
	rewritten(t, s)
	var moments []moment
	for i := range 900 * testkit.Scale() {
		change(s, rng, i)
		switch rng.IntN(60) {
		case 0:
			_, _ = s.Ask("BGREWRITEAOF") // a rewrite may be under way
			if rng.IntN(2) == 0 {
				rewritten(t, s)
			}
		case 1:
			if rng.IntN(3) == 0 {
				s.Kill()
				s.Restart(args...)
			}
		case 2:
			if rng.IntN(3) == 0 {
				s.Do("CONFIG", "SET", "appendonly", "no")
				for range rng.IntN(10) {
					change(s, rng, i)
				}
				s.Do("CONFIG", "SET", "appendonly", "yes")
				rewritten(t, s)
			}
		case 3, 4, 5, 6:
			before := offset(s)
			m := moment{offset: before, state: held(s)}
			if offset(s) == before { // no key has expired meanwhile
				moments = append(moments, m)
			}
		case 7:
			if rng.IntN(2) == 0 {
				now := time.Now()
				testkit.Lapse(time.Until(now.Truncate(time.Second).Add(time.Second + 20*time.Millisecond)))
				moments = append(moments, moment{second: now.Unix(), state: held(s)})
			}
		}
	}
	rewritten(t, s)
	if len(moments) < 20 {
		t.Fatalf("%d moments", len(moments))
	}
	out, code := testkit.Run(t, testkit.Slowly(30*time.Second), "", testkit.Spindle(t), "history", s.Dir)
	if code != 0 || strings.Count(out, "\nbase ") < 3 {
		t.Errorf("spindle history: %d\n%s", code, out)
	}
	t.Logf("%d moments, %d bases", len(moments), strings.Count(out, "\nbase "))
	rng.Shuffle(len(moments), func(i, j int) { moments[i], moments[j] = moments[j], moments[i] })
	if testkit.Scale() == 1 {
		moments = moments[:20]
	}
	for _, m := range moments {
		how := []string{"--to-offset", strconv.FormatInt(m.offset, 10)}
		if m.second != 0 {
			how = []string{"--to", strconv.FormatInt(m.second, 10)}
		}
		into := filepath.Join(t.TempDir(), "restored")
		text, code := testkit.Run(t, testkit.Slowly(30*time.Second), "", testkit.Spindle(t),
			append(append([]string{"restore"}, how...), "--into", into, s.Dir)...)
		if code != 0 {
			t.Errorf("restore %v: %d %s\n%s", how, code, text, out)
			continue
		}
		restored := testkit.Launch(t, testkit.Spec{Dir: into, Args: []string{"--appendonly", "yes", "--aof-load-truncated",
			"no", "--enable-debug-command", "yes"}})
		if is := held(restored); !maps.Equal(is, m.state) {
			t.Errorf("%v: %s", how, differences(m.state, is))
		}
		restored.Kill()
	}
}

// differences names the keys that differ.
func differences(want, got map[string]string) string {
	var all []string
	for key := range want {
		if got[key] != want[key] {
			all = append(all, fmt.Sprintf("%s: %.12q, want %.12q", key, got[key], want[key]))
		}
	}
	for key := range got {
		if _, is := want[key]; !is {
			all = append(all, key+" should not be there")
		}
	}
	slices.Sort(all)
	return strings.Join(all[:min(len(all), 10)], "\n  ")
}

// TestDryRun: a dry run of restore prints the state that the folder would have, and the last commands before the
// moment. Wrong arguments, a folder that is not empty, and a folder without a log are refused.
func TestDryRun(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes", "--aof-keep-history", "1gb", "--appendfsync", "always",
		"--appendfilename", "the log")
	s.Do("MSET", "a", 1, "b", 2, "c", 3)
	before := strconv.FormatInt(offset(s), 10)
	s.Do("FLUSHALL")
	s.Do("SET", "d", 4)
	restore := func(args ...string) (out string, code int) {
		return testkit.Run(t, testkit.Slowly(30*time.Second), "", testkit.Spindle(t), append([]string{"restore"}, args...)...)
	}
	out, code := restore("--to-offset", before, "--dry-run", s.Dir)
	for _, text := range []string{"is offset " + before, "db0: keys=3,expires=0", "bytes of memory: ",
		`"MSET" "a" "1" "b" "2" "c" "3"`} {
		if code != 0 || !strings.Contains(out, text) {
			t.Errorf("no %q: %d\n%s", text, code, out)
		}
	}
	if strings.Contains(out, "FLUSHALL") {
		t.Errorf("what came later is shown:\n%s", out)
	}
	into := t.TempDir()
	if out, code := restore("--to-offset", before, "--into", into, s.Dir); code != 0 ||
		!strings.Contains(out, "--appendonly yes --appendfilename") {
		t.Errorf("%d\n%s", code, out)
	}
	for _, c := range []struct{ args, want string }{
		{"--to-offset " + before + " --into " + into + " " + s.Dir, "is not empty"},
		{"--to-offset 99999999 --dry-run " + s.Dir, "the log ends at offset"},
		{"--to 1 --dry-run " + s.Dir, "The first moment is"},
		{"--to-offset 1 --dry-run " + t.TempDir(), "has no append-only file"},
		{"--to yesterday --dry-run " + s.Dir, "Usage:"},
		{"--to 100 --dry-run --into x " + s.Dir, "Usage:"},
		{"--to 100 " + s.Dir, "Usage:"},
		{"--dry-run " + s.Dir, "Usage:"},
	} {
		if out, code := restore(strings.Fields(c.args)...); code != 1 || !strings.Contains(out, c.want) {
			t.Errorf("%s: %d\n%s", c.args, code, out)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, "temp-*")); len(left) > 0 {
		t.Errorf("dry runs left %v", left)
	}
	if v, err := s.Ask("CONFIG", "SET", "aof-keep-history", "2 days"); err != nil ||
		!strings.Contains(v.Text, "argument must be no, or a time") {
		t.Error(v, err)
	}
}

// TestHistoryIsBounded: when the history exceeds its size limit, the oldest files are deleted. When the history is
// switched off, its files stay, and a later history does not overwrite them.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes", "--aof-keep-history", "300kb", "--auto-aof-rewrite-percentage", "0")
	names := func() (bases []string) {
		files, _ := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.base.rdb"))
		for _, f := range files {
			bases = append(bases, strings.Split(filepath.Base(f), ".")[2])
		}
		slices.Sort(bases)
		return bases
	}
	for i := range 8 {
		s.Do("SET", "k", strings.Repeat(strconv.Itoa(i), 100<<10))
		s.Do("BGREWRITEAOF")
		rewritten(t, s)
	}
	kept := names()
	if n := s.InfoInt("persistence", "aof_history_size"); n > 300<<10 || len(kept) < 2 || len(kept) > 5 ||
		!slices.Contains(kept, "9") {
		t.Errorf("%d bytes, bases %v", n, kept)
	}
	s.Do("CONFIG", "SET", "aof-keep-history", "no")
	s.Do("BGREWRITEAOF")
	rewritten(t, s)
	now := names()
	if !slices.Contains(now, "10") || slices.Contains(now, "9") || !slices.Contains(now, kept[0]) {
		t.Errorf("after the history was switched off: %v, before %v", now, kept)
	}
	s.Do("CONFIG", "SET", "aof-keep-history", "1gb")
	testkit.Until(t, testkit.Slowly(20*time.Second), "a rewrite begins the history", func() error {
		return testkit.Equal(slices.Contains(names(), "11"), true)
	})
	rewritten(t, s)
	out, _ := testkit.Run(t, testkit.Slowly(30*time.Second), "", testkit.Spindle(t), "history", s.Dir)
	if !strings.Contains(out, "-- the log was off here") || strings.Contains(out, "aof.10.base") {
		t.Errorf("history:\n%s", out)
	}
}
