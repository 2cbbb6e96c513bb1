package topology

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestPeersThatCannotRead: a redis-server that does not support deadlines of fields, Bloom filters or producers'
// messages gets no full copy with them and no such effect. The log names the key and the version, and attempts are not
// repeated quickly. Once the key is deleted, the replica follows.
func TestPeersThatCannotRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, key, log string
		make           []any
	}{
		{"field deadlines", "secret", "key 'secret' of database 2 has deadlines of fields",
			[]any{"HPEXPIRE", "secret", 1_000_000, "FIELDS", 1, "f"}},
		{"Bloom filter", "filter", "key 'filter' of database 2 has a Bloom filter", []any{"BF.ADD", "filter", "x"}},
		{"producers' messages", "orders", "key 'orders' of database 2 has messages of producers",
			[]any{"XADD", "orders", "IDMPAUTO", "p", "*", "f", "v"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.Start(t)
			version := testkit.Redis(t).Info("server")["redis_version"]
			if version >= "7.4" && c.key == "secret" {
				t.Skip("redis-server on the PATH reads deadlines of fields: one before 7.4 is needed")
			}
			s.Do("SELECT", 2)
			s.Do("HSET", "secret", "f", "v")
			s.Do(c.make...)
			r := testkit.Redis(t, "--replicaof", "127.0.0.1 "+fmt.Sprint(s.Port))
			s.AwaitLog(testkit.Slowly(20*time.Second), "of version "+version+" refused: "+c.log)
			r.AwaitLog(testkit.Slowly(20*time.Second), "Full synchronization refused: key '"+c.key+"'")
			time.Sleep(3 * time.Second) // time enough to see repeated attempts
			if n := strings.Count(r.Log(), "Connecting to MASTER"); n != 1 {
				t.Errorf("%d connections in some seconds", n)
			}
			if n := strings.Count(s.Log(), "Starting full synchronization"); n != 0 {
				t.Errorf("%d full copies were begun", n)
			}
			follow(t, s, false) // spindle reads everything
			s.Do("DEL", c.key)
			s.Do("CLIENT", "KILL", "TYPE", "replica") // it reconnects at once
			up(t, r)
			equal(t, s, r)

			// The same holds for an effect.
			s.Do("SELECT", 2)
			s.Do("HSET", "secret", "f", "v")
			s.Do(c.make...)
			s.AwaitLog(testkit.Slowly(20*time.Second), "could not read the stream: key '"+c.key+"' of database 2")
			s.AwaitLog(testkit.Slowly(20*time.Second), "could not read a part of the stream")
			s.Do("DEL", c.key)
			s.Do("CLIENT", "KILL", "TYPE", "replica")
			up(t, r)
			equal(t, s, r)
			s.Do("CLIENT", "KILL", "TYPE", "replica")
			before := s.InfoInt("stats", "sync_full")
			up(t, r)
			equal(t, s, r)
			if n := s.InfoInt("stats", "sync_full"); n != before {
				t.Errorf("sync_full:%d after a cut, %d before", n, before)
			}
		})
	}
}

// TestPeersThatRead: releases that support deadlines of fields get them, in a full copy and in the stream. A spindle
// that replicates such a release gets them too.
func TestPeersThatRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{testkit.Redis74, testkit.Redis8, testkit.Valkey9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := testkit.Kind(t, name)
			s := testkit.Start(t)
			s.Do("HSET", "h", "f", "v", "g", "w")
			s.Do("HPEXPIRE", "h", 1_000_000, "FIELDS", 1, "f")
			spec.Args = []string{"--replicaof", "127.0.0.1 " + fmt.Sprint(s.Port)}
			r := testkit.Launch(t, spec)
			up(t, r)
			s.Do("HPEXPIRE", "h", 2_000_000, "FIELDS", 1, "g")
			s.Do("HPERSIST", "h", "FIELDS", 1, "f")
			equal(t, s, r)
			equal(t, s, follow(t, r, false))
			ask := []any{"HPEXPIRETIME", "h", "FIELDS", 2, "f", "g"}
			if a, b := fmt.Sprint(s.Do(ask...)), fmt.Sprint(r.Do(ask...)); a != b {
				t.Errorf("deadlines %s here, %s at the replica", a, b)
			}
		})
	}
}
