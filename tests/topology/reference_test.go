package topology

import (
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

// attach makes a redis-server replicate s, and returns when s lists it as online.
func attach(t *testing.T, s *testkit.Server, args ...string) *testkit.Server {
	t.Helper()
	r := testkit.Redis(t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(s.Port)}, args...)...)
	s.AwaitReplica(testkit.Slowly(60*time.Second), r)
	return r
}

// settle returns when r has received everything that s has sent, and all short-lived keys have expired.
func settle(t *testing.T, s, r *testkit.Server) {
	t.Helper()
	s.Do("SET", "settled", time.Now().UnixNano())
	testkit.Until(t, testkit.Slowly(60*time.Second), "the replica's offset", func() error {
		return testkit.Equal(r.Info("replication")["slave_repl_offset"], s.Info("replication")["master_repl_offset"])
	})
}

// equal fails the test unless both servers have equal digests, numbers of keys in each database, and deadlines of all
// keys.
func equal(t *testing.T, s, r *testkit.Server) {
	t.Helper()
	settle(t, s, r)
	if digestsAlike(s, r) {
		testkit.Until(t, testkit.Slowly(20*time.Second), "equal digests", func() error {
			return testkit.Equal(r.Do("DEBUG", "DIGEST").Text, s.Do("DEBUG", "DIGEST").Text)
		})
	}
	var differ []string
	for range 5 { // a key may expire between the two readings
		if differ = differences(contents(t, s), contents(t, r)); len(differ) == 0 {
			return
		}
		testkit.Lapse(volatileMs * time.Millisecond)
	}
	for _, line := range differ {
		t.Error(line)
	}
}

// removeLapsed returns when s has no key past its deadline. A server hides such a key, but counts it in its digest,
// until a command accesses it or the active expiry finds it. SCAN accesses every key.
func removeLapsed(t *testing.T, s *testkit.Server) {
	t.Helper()
	c := s.Dial()
	defer c.Close()
	testkit.Until(t, testkit.Slowly(20*time.Second), "no key past its deadline", func() error {
		for db := range databases {
			c.Must("SELECT", db)
			for cursor := "0"; ; {
				if cursor = c.Must("SCAN", cursor, "COUNT", 1000).Elems[0].Text; cursor == "0" {
					break
				}
			}
			if n, seen := c.Must("DBSIZE").Int, len(c.Must("KEYS", "*").Elems); int(n) != seen {
				return fmt.Errorf("database %d has %d keys, and shows %d", db, n, seen)
			}
		}
		return nil
	})
}

// digestsAlike reports whether equal data has equal digests on both servers. Valkey leaves the deadlines of hash fields
// out of its digest, but Redis does not. A Valkey replica also counts expired fields that its primary hides.
func digestsAlike(a, b *testkit.Server) bool {
	return a.Info("server")["valkey_version"] == "" && b.Info("server")["valkey_version"] == ""
}

// differences returns the differences between two servers, one per line.
func differences(a, b map[string]entry) (lines []string) {
	for name, have := range a {
		if other := b[name]; other != have {
			at := 0 // the first difference
			for at < min(len(have.value), len(other.value)) && have.value[at] == other.value[at] {
				at++
			}
			at = max(0, at-30)
			lines = append(lines, fmt.Sprintf("%s: …%.90q until %d here, …%.90q until %d at the replica", name,
				have.value[min(at, len(have.value)):], have.deadlineMs, other.value[min(at, len(other.value)):], other.deadlineMs))
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			lines = append(lines, name+" is at the replica only")
		}
	}
	return lines
}

// An entry is the value of a key, and its deadline. The deadline is -1 if there is none.
type entry struct {
	value      string
	deadlineMs int64
}

// contents returns all data of a server, with keys of the form "db/key".
func contents(t *testing.T, s *testkit.Server) map[string]entry {
	t.Helper()
	c := s.Dial()
	defer c.Close()
	all := map[string]entry{}
	for db := range databases {
		c.Must("SELECT", db)
		names := c.Must("KEYS", "*").Strings()
		for part := range slices.Chunk(names, 200) {
			var structures []string
			for _, name := range part {
				c.Send("GET", name)
				c.Send("PEXPIRETIME", name)
			}
			for _, name := range part {
				value, err := c.Receive()
				deadline, err2 := c.Receive()
				if err != nil || err2 != nil {
					t.Fatalf("reading %q: %v %v %v", name, value, err, err2)
				}
				if value.Err() != nil {
					structures = append(structures, name)
				}
				all[fmt.Sprintf("%d/%s", db, name)] = entry{value.Text, deadline.Int}
			}
			for _, name := range structures {
				at := fmt.Sprintf("%d/%s", db, name)
				e := all[at]
				e.value = structure(c, name)
				all[at] = e
			}
		}
	}
	return all
}

// structure returns all elements of a key that is not a string, in a fixed order.
func structure(c *respclient.Client, name string) string {
	kind := c.Must("TYPE", name).Text
	read := map[string][]any{"list": {"LRANGE", name, 0, -1}, "set": {"SMEMBERS", name}, "hash": {"HGETALL", name},
		"zset": {"ZRANGE", name, 0, -1, "WITHSCORES"}, "stream": {"XRANGE", name, "-", "+"}}[kind]
	if read == nil {
		return kind
	}
	v := c.Must(read...)
	var parts []string
	for _, e := range v.Elems {
		parts = append(parts, e.String())
	}
	switch kind {
	case "set":
		slices.Sort(parts)
	case "hash":
		pairs := slices.Collect(slices.Chunk(parts, 2))
		ask := []any{"HPEXPIRETIME", name, "FIELDS", len(pairs)}
		for i := 0; i < len(v.Elems); i += 2 {
			ask = append(ask, v.Elems[i].Text)
		}
		deadlines, err := c.Do(ask...) // an error: the server is older, or the hash has expired
		for i := range pairs {
			deadline := int64(-1)
			if err == nil && i < len(deadlines.Elems) {
				deadline = deadlines.Elems[i].Int
			}
			pairs[i] = append(slices.Clone(pairs[i]), strconv.FormatInt(deadline, 10))
		}
		slices.SortFunc(pairs, slices.Compare)
		parts = slices.Concat(pairs...)
	case "stream":
		parts = append(parts, groups(c, name))
	}
	return kind + " " + strings.Join(parts, " ")
}

// groups returns a stream's last ID and its groups with their pending entries.
func groups(c *respclient.Client, name string) string {
	last, _ := c.Must("XINFO", "STREAM", name).Get("last-generated-id")
	text := last.Text
	for _, g := range c.Must("XINFO", "GROUPS", name).Elems {
		group, _ := g.Get("name")
		delivered, _ := g.Get("last-delivered-id")
		text += fmt.Sprint(" ", group, " ", delivered, " ", c.Must("XPENDING", name, group.Text))
	}
	return text
}

// A reader is a redis-server that loads one file after another.
type reader struct{ *testkit.Server }

func newReader(t *testing.T) reader { return reader{testkit.Redis(t)} }

// load makes redis-server load a file in place of its data. The file must have a valid checksum.
func (r reader) load(t *testing.T, file []byte) {
	t.Helper()
	path := r.File("dump.rdb")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := testkit.Run(t, time.Minute, "", testkit.Program(t, "redis-check-rdb"), path); code != 0 {
		t.Fatalf("redis-check-rdb: %s", out)
	}
	r.Do("DEBUG", "RELOAD", "NOSAVE")
}

// must fails the test on an error.
func must(t *testing.T, v respclient.Value, err error) respclient.Value {
	t.Helper()
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}
