package transcripts

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestOverwritten: a command that replaces a whole value publishes "overwritten", and also "type_changed" if the types
// differ. These events come before the command's own event, but after the events of RENAME and COPY. A command that
// changes a value publishes neither. The Redis version of the transcripts has no such events: Redis has them since 8.2.
func TestOverwritten(t *testing.T) {
	server := startServer(t)
	o, err := Observe(server)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	ask := func(words ...string) string {
		t.Helper()
		reply, err := o.marks.ask(words)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(reply, " ")
	}
	const both = "overwritten type_changed"
	ask("FLUSHALL")
	ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
	if got := ask("CONFIG", "GET", "notify-keyspace-events"); !strings.HasSuffix(got, " AKE") {
		t.Errorf("A is shown as %s", got)
	}
	ask("CONFIG", "SET", "notify-keyspace-events", "coEA")
	if got := ask("CONFIG", "GET", "notify-keyspace-events"); !strings.HasSuffix(got, " AEoc") {
		t.Errorf("the classes are shown as %s", got)
	}
	defer ask("CONFIG", "SET", "notify-keyspace-events", "")
	ask("SET", "ten", "10")
	payload := restorable(t, o, "ten")
	for _, c := range []struct{ call, key, want string }{
		{"SET k a", "k", "set"},
		{"SET k b", "k", "overwritten set"},
		{"SET k b KEEPTTL", "k", "overwritten set"},
		{"SET k c XX GET", "k", "overwritten set"},
		{"SET k d NX", "k", ""},
		{"SETNX k d", "k", ""},
		{"GETSET k e", "k", "overwritten set"},
		{"SETEX k 1000 f", "k", "overwritten set expire"},
		{"MSET k g other h", "k", "overwritten set"},
		{"MSETEX 2 k g other h", "other", "overwritten set"},
		{"APPEND k h", "k", "append"},
		{"SETRANGE k 0 x", "k", "setrange"},
		{"SET n 1", "n", "set"},
		{"INCR n", "n", "incrby"},
		{"INCREX n", "n", "incrby"},
		{"RPUSH l a", "l", "rpush"},
		{"RPUSH l b", "l", "rpush"},
		{"SET l x", "l", both + " set"},
		{"DEL l", "l", "del"},
		{"RPUSH l b a", "l", "rpush"},
		{"SADD s a b", "s", "sadd"},
		{"ZADD z 1 a 2 b", "z", "zadd"},
		{"HSET h a 1", "h", "hset"},
		{"GEOADD g 1 1 a", "g", "zadd"},
		{"SUNIONSTORE s s", "s", "overwritten sunionstore"},
		{"SUNIONSTORE h s", "h", both + " sunionstore"},
		{"SDIFFSTORE h s s", "h", "del"},
		{"ZUNIONSTORE z 1 z", "z", "overwritten zunionstore"},
		{"ZUNIONSTORE s 1 z", "s", both + " zunionstore"},
		{"ZRANGESTORE s z 0 -1", "s", "overwritten zrangestore"},
		{"GEOSEARCHSTORE g g FROMLONLAT 1 1 BYRADIUS 10 km", "g", "overwritten geosearchstore"},
		{"GEOSEARCHSTORE k g FROMLONLAT 1 1 BYRADIUS 10 km", "k", both + " geosearchstore"},
		{"SORT l ALPHA STORE l", "l", "overwritten sortstore"},
		{"SORT l ALPHA STORE s", "s", both + " sortstore"},
		{"BITOP NOT n n", "n", "overwritten set"},
		{"BITOP NOT s n", "s", both + " set"},
		{"RENAME n k", "k", "rename_to " + both},
		{"RENAME k new", "new", "rename_to"},
		{"COPY new l REPLACE", "l", "copy_to " + both},
		{"COPY new l REPLACE", "l", "copy_to overwritten"},
		{"COPY new l", "l", ""},
		{"RESTORE l 0 PAYLOAD REPLACE", "l", "overwritten restore"},
		{"RESTORE z 0 PAYLOAD REPLACE", "z", both + " restore"},
		{"RESTORE none 0 PAYLOAD REPLACE", "none", "restore"},
	} {
		o.Take()
		words := strings.Fields(c.call)
		if i := slices.Index(words, "PAYLOAD"); i > 0 {
			words[i] = payload
		}
		if reply := ask(words...); reply[0] == '-' {
			t.Fatalf("%s: %s", c.call, reply)
		}
		_, events, err := o.Take()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range events {
			if f := strings.Fields(e); f[2] == c.key {
				got = append(got, f[1])
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: the events of %s are %q, want %q", c.call, c.key, got, c.want)
		}
	}
}

// restorable returns DUMP's payload of key.
func restorable(t *testing.T, o *Observer, key string) string {
	t.Helper()
	if _, err := o.marks.Write([]byte("DUMP " + key + "\r\n")); err != nil {
		t.Fatal(err)
	}
	header, err := o.marks.in.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, d := range bytes.TrimSpace(header[1:]) {
		size = size*10 + int(d-'0')
	}
	data := make([]byte, size+2)
	for at := 0; at < len(data); {
		n, err := o.marks.in.Read(data[at:])
		if err != nil {
			t.Fatal(err)
		}
		at += n
	}
	return string(data[:size])
}
