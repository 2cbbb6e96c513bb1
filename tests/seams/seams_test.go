package seams

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Waiting(m) }

// recorded returns the names of Redis 7.4.1's commands.
func recorded(t *testing.T) map[string]bool {
	t.Helper()
	f, err := os.Open("../catalogue/testdata/command-7.4.1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var row struct{ Name string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		names[row.Name] = true
	}
	return names
}

// everywhere runs a test on spindle, and on each server that has some of the calls. has reports whether the server has
// a call.
func everywhere(t *testing.T, test func(t *testing.T, s *testkit.Server, has func(c *call) bool)) {
	for _, name := range []string{testkit.Ours, testkit.Redis8, testkit.Valkey9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Launch(t, testkit.Kind(t, name))
			test(t, s, func(c *call) bool {
				if name == testkit.Ours || c.newForm() {
					return name == testkit.Ours
				}
				s.Do("FLUSHALL")
				c.prepare(t, s, "{k}")
				v, err := s.Ask(words(filled(c.line, "{k}"))...)
				return err == nil && v.Err() == nil
			})
		})
	}
}

// TestFullMemory: with noeviction and full memory, a call that may add data is refused and changes nothing. Every other
// call runs.
func TestFullMemory(t *testing.T) {
	t.Parallel()
	everywhere(t, fullMemory)
}

func fullMemory(t *testing.T, s *testkit.Server, has func(c *call) bool) {
	s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	for i := range calls {
		c := &calls[i]
		if !has(c) {
			continue
		}
		s.Do("FLUSHALL")
		c.prepare(t, s, "{k}")
		before := s.Do("DEBUG", "DIGEST").Text
		s.Do("CONFIG", "SET", "maxmemory", 1)
		v, err := s.Ask(words(filled(c.line, "{k}"))...)
		s.Do("CONFIG", "SET", "maxmemory", 0)
		if err != nil {
			t.Fatal(err)
		}
		if refused := strings.HasPrefix(v.Text, "OOM "); refused != c.full {
			t.Errorf("%s: refused is %t: %v", c.line, refused, v)
		}
		if got := s.Do("DEBUG", "DIGEST").Text; c.full && got != before {
			t.Errorf("%s was refused, and changed the data", c.line)
		}
	}
}

// TestWatched: a transaction fails if a call touches its watched key, and after no other call.
func TestWatched(t *testing.T) {
	t.Parallel()
	everywhere(t, watched)
}

func watched(t *testing.T, s *testkit.Server, has func(c *call) bool) {
	cl := s.Dial()
	for i := range calls {
		c := &calls[i]
		if !has(c) {
			continue
		}
		for n := range c.keys() {
			key := "{k}" + strconv.Itoa(keyNumber(c, n))
			s.Do("FLUSHALL")
			c.prepare(t, s, "{k}")
			cl.Must("WATCH", key)
			s.Do(words(filled(c.line, "{k}"))...)
			cl.Must("MULTI")
			cl.Must("PING")
			failed := cl.Must("EXEC").Null
			if want := strings.Contains(c.touches, key[3:]); failed != want {
				t.Errorf("%s: a transaction that watches %s fails: %t", c.line, key, failed)
			}
		}
	}
}

// keyNumber returns the number of the nth key that c names. A call may name only $2, such as GEOSEARCH above.
func keyNumber(c *call, n int) int {
	for number := 1; ; number++ {
		if strings.Contains(c.line, fmt.Sprint("$", number)) {
			if n == 0 {
				return number
			}
			n--
		}
	}
}

// invalidated returns the numbers of the keys for which cl gets an invalidation before PING's reply.
func invalidated(t *testing.T, cl *respclient.Client) string {
	t.Helper()
	var keys []string
	cl.Send("PING")
	if err := cl.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		v, err := cl.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if v.Kind != '>' {
			break
		}
		for _, key := range v.Elems[1].Elems {
			keys = append(keys, strings.TrimPrefix(key.Text, "{k}"))
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, "")
}

// TestCached: clients that cache a key get an invalidation when a call touches the key. A call that reads lets its
// client cache the keys, and no other call does.
func TestCached(t *testing.T) {
	t.Parallel()
	everywhere(t, cached)
}

func cached(t *testing.T, s *testkit.Server, has func(c *call) bool) {
	for i := range calls {
		c := &calls[i]
		if !has(c) {
			continue
		}
		cl := s.Dial()
		cl.Must("HELLO", 3)
		s.Do("FLUSHALL")
		c.prepare(t, s, "{k}")
		cl.Must("CLIENT", "TRACKING", "ON")
		cl.Must("EXISTS", "{k}1", "{k}2", "{k}3")
		s.Do(words(filled(c.line, "{k}"))...)
		if got := invalidated(t, cl); got != c.touches {
			t.Errorf("%s: keys %q are invalid in caches, want %q", c.line, got, c.touches)
		}

		cl.Must("CLIENT", "TRACKING", "OFF")
		s.Do("FLUSHALL")
		c.prepare(t, s, "{k}")
		cl.Must("CLIENT", "TRACKING", "ON", "NOLOOP")
		cl.Must(words(filled(c.line, "{k}"))...)
		for _, key := range []string{"{k}1", "{k}2", "{k}3"} {
			s.Do("SET", key, "new")
		}
		if got := invalidated(t, cl); got != c.reads {
			t.Errorf("%s: its client may keep keys %q, want %q", c.line, got, c.reads)
		}
		cl.Close()
	}
}

// TestSlots: in a cluster, a call whose keys are in several slots is refused. A call whose slot no node serves is
// refused too.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)),
		"--cluster-require-full-coverage", "no")
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	s.AwaitInfo(testkit.Slowly(20*time.Second), "cluster", "cluster_enabled", "1")
	testkit.Until(t, testkit.Slowly(20*time.Second), "the cluster", func() error {
		v, err := s.Ask("SET", "up", 1)
		if err == nil {
			err = v.Err()
		}
		return err
	})
	for i := range calls {
		c := &calls[i]
		s.Do("FLUSHALL")
		c.prepare(t, s, "{k}")
		if v := s.Do(words(filled(c.line, "{k}"))...); v.Err() != nil {
			t.Errorf("%s in one slot: %v", c.line, v)
		}
		v, _ := s.Ask(words(filled(c.line, "k"))...)
		if crossed := strings.HasPrefix(v.Text, "CROSSSLOT "); crossed != (c.keys() > 1) {
			t.Errorf("%s in several slots: %v", c.line, v)
		}
	}
	s.Do("FLUSHALL")
	s.Do("CLUSTER", "DELSLOTS", s.Do("CLUSTER", "KEYSLOT", "{k}").Int)
	for i := range calls {
		if v, _ := s.Ask(words(filled(calls[i].line, "{k}"))...); v.Text != "CLUSTERDOWN Hash slot not served" {
			t.Errorf("%s in a slot of no node: %v", calls[i].line, v)
		}
	}
}

// milliseconds returns the server's time.
func milliseconds(s *testkit.Server) int {
	now := s.Do("TIME").Strings()
	seconds, _ := strconv.Atoi(now[0])
	micros, _ := strconv.Atoi(now[1])
	return seconds*1000 + micros/1000
}

// TestExpired: a call on keys past their deadline has the same effect as without these keys, alone and in a
// transaction.
func TestExpired(t *testing.T) {
	t.Parallel()
	everywhere(t, expired)
}

func expired(t *testing.T, s *testkit.Server, has func(c *call) bool) {
	s.Do("DEBUG", "SET-ACTIVE-EXPIRE", 0)
	for i := range calls {
		c := &calls[i]
		if !has(c) {
			continue
		}
		line := words(filled(c.line, "{k}"))
		for _, unit := range []bool{false, true} {
			if !unit && strings.HasPrefix(c.line, "BL") {
				continue // the call waits
			}
			run := func() (reply, digest string) {
				t.Helper()
				cl := s.Dial()
				defer cl.Close()
				if unit {
					cl.Must("MULTI")
				}
				v, err := cl.Do(line...)
				if unit && err == nil {
					v, err = cl.Do("EXEC")
				}
				if err != nil {
					t.Fatalf("%s: %v", c.line, err)
				}
				s.Do("EXISTS", "{k}1", "{k}2", "{k}3") // removes expired keys
				return v.String(), s.Do("DEBUG", "DIGEST").Text
			}
			s.Do("FLUSHALL")
			reply, digest := run()
			s.Do("FLUSHALL")
			c.prepare(t, s, "{k}")
			for _, key := range []string{"{k}1", "{k}2", "{k}3"} {
				s.Do("PEXPIRE", key, 1)
			}
			due := milliseconds(s) + 2
			testkit.Until(t, testkit.Slowly(time.Second), "the deadline", func() error {
				if now := milliseconds(s); now < due {
					return fmt.Errorf("it is %d, not %d", now, due)
				}
				return nil
			})
			got, data := run()
			if strings.Contains(c.line, "*") { // the IDs differ
				got, reply, data, digest = "", "", "", ""
			}
			if got != reply || data != digest {
				t.Errorf("%s: %s on expired keys, and %s without them; the data are the same: %t", c.line, got, reply,
					data == digest)
			}
			if n := s.Do("DBSIZE").Int; strings.Contains(c.line, "*") && n != 1 {
				t.Errorf("%s: %d keys", c.line, n)
			}
		}
	}
}

// TestSavedAsBefore: a file has the data as of the start of its save, whatever calls run during the save.
func TestSavedAsBefore(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	for i := range calls {
		calls[i].prepare(t, s, fmt.Sprintf("{%d}", i))
	}
	before := s.Do("DEBUG", "DIGEST").Text
	s.Do("CONFIG", "SET", "rdb-key-save-delay", 20_000)
	s.Do("BGSAVE")
	for i := range calls {
		s.Do(words(filled(calls[i].line, fmt.Sprintf("{%d}", i)))...)
	}
	if s.InfoInt("persistence", "rdb_bgsave_in_progress") != 1 {
		t.Fatal("the save ended too soon")
	}
	after := s.Do("DEBUG", "DIGEST").Text
	s.Do("CONFIG", "SET", "rdb-key-save-delay", 0)
	s.AwaitInfo(testkit.Slowly(60*time.Second), "persistence", "rdb_bgsave_in_progress", "0")
	if got := s.Do("DEBUG", "DIGEST").Text; got != after || after == before {
		t.Error("the data are not those of after the calls")
	}
	s.Do("DEBUG", "RELOAD", "NOSAVE")
	if got := s.Do("DEBUG", "DIGEST").Text; got != before {
		t.Error("the file has not the data of before the calls")
	}
}

// contents returns each key of s with its deadline, and those of its fields.
func contents(s *testkit.Server) map[string]string {
	found := map[string]string{}
	for _, key := range s.Do("KEYS", "*").Strings() {
		text := fmt.Sprint(s.Do("PEXPIRETIME", key).Int)
		if s.Do("TYPE", key).Text == "hash" {
			fields := s.Do("HKEYS", key).Strings()
			slices.Sort(fields)
			for _, field := range fields {
				text += fmt.Sprint(" ", field, " ", s.Do("HPEXPIRETIME", key, "FIELDS", 1, field))
			}
		}
		found[key] = text
	}
	return found
}

// TestReplicas: calls alone, in transactions and in scripts reach replicas of other servers, with all deadlines. They
// also reach the log. Redis 7.0 gets no deadlines of fields. No other server gets forms that only spindle has.
func TestReplicas(t *testing.T) {
	t.Parallel()
	newer := []string{testkit.Ours, testkit.Redis74, testkit.Redis8, testkit.Valkey9}
	newer = slices.DeleteFunc(newer, func(name string) bool { return !testkit.Has(name) })
	common := slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.newForm() })
	hashes := func(c call) bool { return c.line[0] == 'H' }
	t.Run("ours", func(t *testing.T) { replicate(t, calls, []string{testkit.Ours}) })
	t.Run("newer", func(t *testing.T) { replicate(t, common, newer) })
	t.Run("7.0", func(t *testing.T) {
		replicate(t, slices.DeleteFunc(slices.Clone(common), hashes), []string{testkit.Redis70})
	})
}

// replicate runs calls on a primary with replicas of these kinds, and compares their data.
func replicate(t *testing.T, calls []call, kinds []string) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes")
	var replicas []*testkit.Server
	for _, name := range kinds {
		spec := testkit.Kind(t, name)
		spec.Args = []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(s.Port), "--propagation-error-behavior", "panic"}
		r := testkit.Launch(t, spec)
		r.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
		replicas = append(replicas, r)
	}
	run := func(line string, words []any) {
		t.Helper()
		if v := s.Do(words...); v.Err() != nil {
			t.Errorf("%s: %v", line, v)
		}
	}
	for i := range calls {
		c := &calls[i]
		for _, how := range []string{"alone", "exec", "eval"} {
			name := fmt.Sprintf("{%d %s}", i, how)
			name = strings.ReplaceAll(name, " ", ":")
			c.prepare(t, s, name)
			line := words(filled(c.line, name))
			switch how {
			case "alone":
				run(c.line, line)
			case "exec":
				run(c.line, []any{"MULTI"})
				run(c.line, line)
				run(c.line, line)
				run(c.line, []any{"EXEC"})
			case "eval":
				run(c.line, append([]any{"EVAL", "redis.call(unpack(ARGV)) return redis.call('EXISTS', KEYS[1])", 1, name + "1"},
					line...))
			}
		}
	}
	s.Do("SET", "end", "1")
	want, digest := contents(s), s.Do("DEBUG", "DIGEST").Text
	same := func(who string, r *testkit.Server) {
		t.Helper()
		got := contents(r)
		for key, text := range want {
			if got[key] != text {
				t.Errorf("%s has %s %q, want %q", who, key, got[key], text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d keys, want %d", who, len(got), len(want))
		}
		// Valkey's digest leaves out the deadlines of fields.
		if got := r.Do("DEBUG", "DIGEST").Text; who != testkit.Valkey9 && got != digest {
			t.Errorf("%s has other data", who)
		}
	}
	for i, r := range replicas {
		testkit.Until(t, testkit.Slowly(60*time.Second), "the replica's offset", func() error {
			return testkit.Equal(r.Info("replication")["slave_repl_offset"], s.Info("replication")["master_repl_offset"])
		})
		same(kinds[i], r)
	}
	if n := s.InfoInt("stats", "sync_full"); n != int64(len(replicas)) {
		t.Errorf("sync_full:%d, want one for each replica", n)
	}
	s.Kill()
	s.Again()
	s.AwaitReady(testkit.Slowly(20 * time.Second))
	same("the log", s)
}
