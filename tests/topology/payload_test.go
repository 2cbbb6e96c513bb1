package topology

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"spindle/internal/crc"
	"spindle/tests/testkit"
)

// payloadOf returns a payload for RESTORE: a type's number, the value, the version, and their checksum.
func payloadOf(kind byte, value string, version int) string {
	p := binary.LittleEndian.AppendUint16(append([]byte{kind}, value...), uint16(version))
	return string(binary.LittleEndian.AppendUint64(p, crc.Update64(0, p)))
}

// newerPayloads has values that Redis 7.0 can hold, in forms that it cannot read.
var newerPayloads = map[string]string{
	"text of 7.2":      payloadOf(0, "\x05hello", 11),
	"text of 7.4":      payloadOf(0, "\x05hello", 12),
	"number of 8.10":   payloadOf(0, "\xc0\x07", 15),
	"number of Valkey": payloadOf(0, "\xc1\x07\x01", 80),
	"long text of 8.6": payloadOf(0, "\x80\x00\x02\x00\x00"+strings.Repeat("text ", 1<<17/5)+"xx", 13),
	"set of 7.2":       payloadOf(20, "\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff", 11),
	"set of Valkey":    payloadOf(20, "\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff", 80),
	"set of members":   payloadOf(2, "\x02\x01a\x01b", 14),
	"list of 8.8":      payloadOf(18, "\x01\x02\x0a\x0a\x00\x00\x00\x01\x00\x81c\x02\xff", 14),
	"zset of 7.4":      payloadOf(5, "\x01\x01m\x00\x00\x00\x00\x00\x00\xf0\x3f", 12),
	"hash of 7.4, no deadlines": payloadOf(25, "\x00\x00\x00\x00\x00\x00\x00\x00"+
		"\x0f\x0f\x00\x00\x00\x03\x00\x81f\x02\x81v\x02\x00\x01\xff", 12),
	"hash of Valkey, no deadlines": payloadOf(22, "\x01\x01f\x01v\xff\xff\xff\xff\xff\xff\xff\xff", 80),
	"hash of a template":           payloadOf(31, "\x01\x02\x01a\x01b\x01x\xc0\x01", 15),
	"stream of 7.2": payloadOf(21, "\x00\x00\x05\x01\x00\x00\x00\x00\x05\x01\x01g\x05\x01\x05\x00\x01\x03ann"+
		strings.Repeat("\x01\x00\x00\x00\x00\x00\x00\x00", 2)+"\x00", 12),
}

// givenBack is a stream of Redis 8.8 with an entry that a consumer has given back. For Redis 7.0, the entry belongs to
// a consumer with an empty name.
var givenBack = payloadOf(27, "\x00\x00\x05\x01\x00\x00\x00\x00\x05\x01\x01g\x05\x01\x05\x01"+
	strings.Repeat("\x00", 15)+"\x01"+strings.Repeat("\x00", 8)+"\x02\x00\x01"+strings.Repeat("\x00", 15)+"\x01"+
	"\x00\x00\x00\x00\x00", 14)

// functionsOf returns the payload of a library for FUNCTION RESTORE.
func functionsOf(name string, version int) string {
	source := "#!lua name=" + name + "\nredis.register_function('" + name + "', function() return 1 end)"
	return payloadOf(0xF5, "\x40"+string(rune(len(source)))+source, version)
}

// oldReplica starts redis-server from the PATH as a replica of s. It skips the test if that server is 7.2 or newer.
func oldReplica(t *testing.T, s *testkit.Server, args ...string) *testkit.Server {
	t.Helper()
	r := follow(t, s, true, args...)
	if version := r.Info("server")["redis_version"]; version >= "7.2" {
		t.Skipf("redis-server %s on the PATH reads newer payloads: one before 7.2 is needed", version)
	}
	return r
}

// toleratesOnce makes a replica continue after an error of the stream. It may get one command that it cannot read.
// After that, its primary asks for the replica's version.
var toleratesOnce = []string{"--propagation-error-behavior", "ignore"}

// TestNewerPayloadsReachOlder: payloads of newer servers reach a redis-server 7.0 in a form that it can read. This also
// holds in transactions and scripts, for FUNCTION RESTORE, at the end of a chain, and in the log.
func TestNewerPayloadsReachOlder(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes")
	middle := follow(t, s, false)
	replicas := []*testkit.Server{middle, oldReplica(t, s), oldReplica(t, middle)}
	for name, p := range newerPayloads {
		ok := func(words ...any) {
			t.Helper()
			if v := s.Do(words...); v.Err() != nil {
				t.Errorf("%s: %.60q: %v", name, words, v.Err())
			}
		}
		ok("RESTORE", name, 0, p)
		ok("RESTORE", name, 0, p, "REPLACE")
		ok("RESTORE", name+", expiring", 1_000_000, p)
		ok("RESTORE", name+", absolute", 4_000_000_000_000, p, "ABSTTL", "IDLETIME", 1)
		ok("MULTI")
		ok("SELECT", 1)
		ok("RESTORE", name, 0, p)
		ok("RESTORE", name+", expiring", 1_000_000, p, "REPLACE")
		ok("SELECT", 0)
		ok("EXEC")
		ok("EVAL", "redis.call('RESTORE', KEYS[1], 0, ARGV[1]) redis.call('RESTORE', KEYS[2], 500000, ARGV[1])", 2,
			name+", script", name+", script, expiring", p)
	}
	for i, version := range []int{11, 12, 15, 80} {
		if v := s.Do("FUNCTION", "RESTORE", functionsOf(fmt.Sprint("lib", i), version)); v.Text != "OK" {
			t.Errorf("FUNCTION RESTORE of version %d: %v", version, v)
		}
	}
	for _, r := range replicas {
		equal(t, s, r)
	}
	s.Do("RESTORE", "given back", 0, givenBack)
	for _, r := range replicas {
		settle(t, s, r)
		if n := len(r.Do("FUNCTION", "LIST").Elems); n != 4 {
			t.Errorf("%d libraries at the replica\n%s", n, r.Log())
		}
		pending := r.Do("XPENDING", "given back", "g", "-", "+", 10).Elems
		if len(pending) != 1 || pending[0].Elems[1].Text != "" || pending[0].Elems[3].Int != 2 {
			t.Errorf("pending at the replica: %v", pending)
		}
		if n := r.InfoInt("replication", "master_sync_in_progress"); n != 0 || strings.Contains(r.Log(), "CRITICAL") {
			t.Errorf("the replica's log:\n%s", r.Log())
		}
	}
	if n := s.InfoInt("stats", "sync_full"); n != 2 {
		t.Errorf("sync_full:%d, want one for each replica", n)
	}

	want := s.Do("DEBUG", "DIGEST").Text
	s.Do("WAITAOF", 1, 0, 0) // with everysec, a slow disk holds up the writes
	s.Kill()
	theirs := t.TempDir()
	if err := os.CopyFS(theirs+"/appendonlydir", os.DirFS(s.File("appendonlydir"))); err != nil {
		t.Fatal(err)
	}
	s.Again()
	s.AwaitReady(testkit.Slowly(20 * time.Second))
	r := testkit.Launch(t, testkit.Spec{Redis: true, Dir: theirs, Args: []string{"--appendonly", "yes"}})
	for who, by := range map[string]*testkit.Server{"spindle": s, "redis-server": r} {
		if got := by.Do("DEBUG", "DIGEST").Text; got != want {
			t.Errorf("after a restart %s has other data:\n%s", who, by.Log())
		}
		if n := len(by.Do("FUNCTION", "LIST").Elems); n != 4 {
			t.Errorf("after a restart %s has %d libraries", who, n)
		}
	}
}

// TestPayloadsNoOlderReads: a payload of Valkey with deadlines of fields breaks the link to a redis-server 7.0, as
// HPEXPIRE does.
func TestPayloadsNoOlderReads(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	r := oldReplica(t, s, toleratesOnce...)
	s.Do("RESTORE", "h", 0, payloadOf(22, "\x01\x01f\x01v\x00\xd8\xc3\x2c\xbb\x03\x00\x00", 80))
	s.AwaitLog(testkit.Slowly(20*time.Second), "could not read the stream: key 'h' of database 0 has deadlines of fields")
	s.Do("DEL", "h")
	s.Do("CLIENT", "KILL", "TYPE", "replica")
	up(t, r)
	equal(t, s, r)
}

// TestPayloadsPassedOn: the stream of a newer primary is passed on unchanged. A redis-server 7.0 that replicates
// spindle gets no payload that it cannot read: it gets a full copy instead.
func TestPayloadsPassedOn(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]int{testkit.Redis74: 12, testkit.Redis8: 12, testkit.Valkey9: 80} {
		for what, restore := range map[string]func(s *testkit.Server){
			"a key":     func(s *testkit.Server) { s.Do("RESTORE", "k", 0, payloadOf(0, "\x05hello", version)) },
			"libraries": func(s *testkit.Server) { s.Do("FUNCTION", "RESTORE", functionsOf("lib", version)) },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				s := testkit.Launch(t, testkit.Kind(t, name))
				middle := follow(t, s, false)
				below := follow(t, middle, false)
				r := oldReplica(t, middle, toleratesOnce...)
				restore(s)
				equal(t, s, middle)
				middle.AwaitLog(testkit.Slowly(20*time.Second), "could not read the stream: ")
				middle.AwaitLog(testkit.Slowly(time.Second), fmt.Sprint(" has a payload of RDB version ", version))
				up(t, r)
				equal(t, s, r)
				equal(t, s, below)
				if a, b := len(s.Do("FUNCTION", "LIST").Elems), len(r.Do("FUNCTION", "LIST").Elems); a != b {
					t.Errorf("%d libraries, %d at the replica", a, b)
				}
				if n := middle.InfoInt("stats", "sync_full"); n != 3 {
					t.Errorf("sync_full:%d, want 3: only the older replica is copied again", n)
				}
			})
		}
	}
}
