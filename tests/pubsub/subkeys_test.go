package pubsub

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A listener receives subkey events of all four kinds. Its own message marks the end of a step's events.
type listener struct {
	in, out *link
}

func listenForSubkeys(t *testing.T, addr string, patterns ...string) *listener {
	l := &listener{dial(t, addr, true), dial(t, addr, false)}
	for _, p := range append(patterns, "mark") {
		l.in.send("PSUBSCRIBE " + p)
		l.in.read()
	}
	return l
}

// heard returns the messages since the last call, each with its channel and payload.
func (l *listener) heard() (all []string) {
	l.out.send("PUBLISH mark end")
	l.out.read()
	for {
		message := l.in.read()
		if strings.HasSuffix(message, " mark end") {
			return all
		}
		words := strings.SplitN(message, " ", 4) // >4 pmessage pattern channel payload
		all = append(all, words[3])
	}
}

// TestSubkeyChannels: the letters S, T, I and V together with h publish events about fields of hashes, each in its own
// form. Without these letters nothing is published. A channel's name and a payload may contain any byte.
func TestSubkeyChannels(t *testing.T) {
	s := testkit.Start(t, "--notify-keyspace-events", "STIVh")
	l := listenForSubkeys(t, s.Addr, "__sub*", "__key*")
	expect := func(what string, want ...string) {
		t.Helper()
		if got := l.heard(); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
		}
	}
	s.Do("HSET", "h", "field", "v", "f,2:|", "w")
	expect("two fields", `__subkeyspace@0__:h hset|5:field,5:f,2:|`, `__subkeyevent@0__:hset 1:h|5:field,5:f,2:|`,
		`"__subkeyspaceitem@0__:h\nfield" hset`, `"__subkeyspaceitem@0__:h\nf,2:|" hset`,
		`__subkeyspaceevent@0__:hset|h 5:field,5:f,2:|`)
	s.Do("HSET", "k\nl", "\xff", "v")
	expect("a key with a line feed", `"__subkeyspace@0__:k\nl" "hset|1:\xff"`, `__subkeyevent@0__:hset "3:k\nl|1:\xff"`,
		`"__subkeyspaceevent@0__:hset|k\nl" "1:\xff"`)
	s.Do("HDEL", "h", "f,2:|", "nosuch")
	expect("a field that was there", `__subkeyspace@0__:h hdel|5:f,2:|`, `__subkeyevent@0__:hdel 1:h|5:f,2:|`,
		`"__subkeyspaceitem@0__:h\nf,2:|" hdel`, `__subkeyspaceevent@0__:hdel|h 5:f,2:|`)
	s.Do("DEL", "h")
	s.Do("RPUSH", "l", "x")
	s.Do("HDEL", "nosuch", "f")
	expect("no field")

	s.Do("CONFIG", "SET", "notify-keyspace-events", "IEg")
	s.Do("HSET", "h", "f", "v")
	expect("no class of hashes")
	s.Do("CONFIG", "SET", "notify-keyspace-events", "AE")
	s.Do("HSET", "h", "f", "v")
	expect("no letter of subkeys", "__keyevent@0__:hset h")
	s.Do("CONFIG", "SET", "notify-keyspace-events", "AKT")
	if got := s.Do("CONFIG", "GET", "notify-keyspace-events").Strings(); !slices.Equal(got,
		[]string{"notify-keyspace-events", "AKT"}) {
		t.Errorf("CONFIG GET: %q", got)
	}
	s.Do("HSET", "h", "f", "v")
	expect("beside the events of keys", "__keyspace@0__:h hset", "__subkeyevent@0__:hset 1:h|1:f")
	s.Do("CONFIG", "SET", "notify-keyspace-events", "")
	s.Do("HSET", "h", "f", "v")
	expect("off")
}

// TestSubkeysEverywhere: subkey events are published by transactions and scripts, at expiry, on replicas and in other
// databases. ACL rules for channels apply.
func TestSubkeysEverywhere(t *testing.T) {
	s := testkit.Start(t, "--notify-keyspace-events", "Vh")
	replica := testkit.Start(t, "--notify-keyspace-events", "Vh")
	host, port, _ := strings.Cut(s.Addr, ":")
	replica.Do("REPLICAOF", host, port)
	replica.AwaitInfo(time.Minute, "replication", "master_link_status", "up")
	here, there := listenForSubkeys(t, s.Addr, "__sub*"), listenForSubkeys(t, replica.Addr, "__sub*")

	client := dial(t, s.Addr, false)
	client.send("MULTI", "HSET h a 1 b 2", "HINCRBY h a 3", "EXEC", "SELECT 3", "HSET h c 3", "SELECT 0")
	for range 7 {
		client.read()
	}
	s.Do("EVAL", "redis.call('hset',KEYS[1],'s','1') return redis.call('hdel',KEYS[1],'a','x')", "1", "h")
	want := []string{"__subkeyspaceevent@0__:hset|h 1:a,1:b", "__subkeyspaceevent@0__:hincrby|h 1:a",
		"__subkeyspaceevent@3__:hset|h 1:c", "__subkeyspaceevent@0__:hset|h 1:s", "__subkeyspaceevent@0__:hdel|h 1:a"}
	if got := here.heard(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if n := s.Do("WAIT", "1", "60000").Int; n != 1 {
		t.Fatalf("%d replicas", n)
	}
	if got := there.heard(); !slices.Equal(got, want) {
		t.Errorf("on the replica\ngot  %q\nwant %q", got, want)
	}

	s.Do("HSETEX", "h", "PX", "1", "FIELDS", "2", "b", "1", "s", "2")
	s.AwaitInfo(time.Minute, "stats", "expired_subkeys", "2")
	got := here.heard()
	fields, _ := strings.CutPrefix(got[len(got)-1], "__subkeyspaceevent@0__:hexpired|h ")
	if len(got) != 3 || fields != "1:b,1:s" && fields != "1:s,1:b" {
		t.Errorf("expiry: %q", got)
	}

	s.Do("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*", "resetchannels", "&__subkeyspaceevent@0__:hset|h")
	limited := dial(t, s.Addr, false)
	limited.send("AUTH u x", "SUBSCRIBE __subkeyspaceevent@0__:hset|h", "SUBSCRIBE __subkeyspaceevent@0__:hdel|h",
		"PSUBSCRIBE __subkeyspaceevent@*")
	for i, prefix := range []string{"+OK", "*3 subscribe", "-NOPERM", "-NOPERM"} {
		if got := limited.read(); !strings.HasPrefix(got, prefix) {
			t.Errorf("reply %d: %s, want %s", i, got, prefix)
		}
	}
}
