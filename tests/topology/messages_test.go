package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// memory returns the fields of XINFO STREAM about remembered messages of producers. It leaves out the number of
// duplicates, which only the primary counts.
func memory(s *testkit.Server, key string) string {
	words := s.Do("XINFO", "STREAM", key).Elems
	var all []string
	for i := 0; i+1 < len(words); i += 2 {
		if name := words[i].Text; strings.HasPrefix(name, "idmp") || name == "pids-tracked" || name == "iids-tracked" ||
			name == "iids-added" {
			all = append(all, name+" "+strconv.FormatInt(words[i+1].Int, 10))
		}
	}
	return strings.Join(all, ", ")
}

// TestMessagesAreReplicated: a replica gets the remembered messages of producers with its full copy and with the
// stream, and so does its own replica. After a promotion it adds no message a second time. The settings of streams are
// replicated too.
func TestMessagesAreReplicated(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--repl-diskless-sync-delay", "0")
	send := func(at *testkit.Server, key, producer, message string) string {
		return at.Do("XADD", key, "IDMP", producer, message, "MAXLEN", "~", "1000", "*", "f", "v").Text
	}
	want := map[string]string{}
	for i := range 300 {
		p, m := fmt.Sprint("p", i%7), fmt.Sprint("m", i)
		want[p+" "+m] = send(s, "orders", p, m)
	}
	s.Do("XADD", "limited", "*", "f", "v")
	s.Do("XCFGSET", "limited", "IDMP-MAXSIZE", "3", "IDMP-DURATION", "86400")
	r := follow(t, s, false, "--appendonly", "yes")
	below := follow(t, r, false)
	for i := range 300 {
		p, m := fmt.Sprint("p", i%7), fmt.Sprint("late", i)
		want[p+" "+m] = send(s, "orders", p, m)
		send(s, "limited", p, m)
	}
	for range 20 { // duplicates have no effects
		send(s, "orders", "p1", "m1")
	}
	equal(t, s, r)
	equal(t, s, below)
	for _, key := range []string{"orders", "limited"} {
		if a, b, c := memory(s, key), memory(r, key), memory(below, key); a != b || a != c || a == "" {
			t.Errorf("%s: %s on the primary, %s on the replica, %s below", key, a, b, c)
		}
	}
	if got := memory(r, "limited"); !strings.HasPrefix(got,
		"idmp-duration 86400, idmp-maxsize 3, pids-tracked 7, iids-tracked 21") {
		t.Errorf("limited: %s", got)
	}
	r.Do("REPLICAOF", "NO", "ONE")
	length := r.Do("XLEN", "orders").Int
	for name, id := range want {
		p, m, _ := strings.Cut(name, " ")
		if got := send(r, "orders", p, m); got != id {
			t.Fatalf("message %s is entry %s after the promotion, %s before", name, got, id)
		}
	}
	if got := r.Do("XLEN", "orders").Int; got != length {
		t.Errorf("%d entries, %d before the promotion", got, length)
	}
}

// TestMessagesAreForgotten: primary and replica forget messages that are old enough, each by its own clock, and free
// their memory. This also happens in a stream that gets no more messages.
func TestMessagesAreForgotten(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--stream-idmp-duration", "1", "--repl-diskless-sync-delay", "0")
	r := follow(t, s, false)
	s.Do("XADD", "idle", "*", "f", "v")
	empty := s.Do("MEMORY", "USAGE", "idle", "SAMPLES", "0").Int
	const messages = 3000
	testkit.Pipe(t, s.Dial(), messages, func(i int) []any {
		return []any{"XADD", "idle", "IDMP", fmt.Sprint("producer", i%100), fmt.Sprint("message", i), "MAXLEN", "1", "*",
			"f", "v"}
	})
	full := s.Do("MEMORY", "USAGE", "idle", "SAMPLES", "0").Int
	first := s.Do("XADD", "idle", "IDMP", "late", "m", "*", "f", "v").Text
	if again := s.Do("XADD", "idle", "IDMP", "late", "m", "*", "f", "v").Text; again != first {
		t.Errorf("entry %s, then %s", first, again)
	}
	for _, at := range []*testkit.Server{s, r} {
		testkit.Until(t, testkit.Slowly(30*time.Second), "all is forgotten", func() error {
			return testkit.Equal(memory(at, "idle"),
				fmt.Sprintf("idmp-duration 1, idmp-maxsize 100, pids-tracked 0, iids-tracked 0, "+
					"iids-added %d", messages+1))
		})
	}
	if spent := full - empty; spent < 50*messages {
		t.Errorf("%d bytes for %d messages", spent, messages)
	}
	if left := s.Do("MEMORY", "USAGE", "idle", "SAMPLES", "0").Int - empty; left > 2000 {
		t.Errorf("%d bytes more than before after all is forgotten", left)
	}
	if again := s.Do("XADD", "idle", "IDMP", "late", "m", "*", "f", "v").Text; again == first {
		t.Errorf("entry %s of a forgotten message", again)
	}
	equal(t, s, r)
}

// TestMessagesInUnits: in transactions and scripts each message is added once. A known message changes nothing: WATCH,
// tracking, events and the stream to replicas do not see it.
func TestMessagesInUnits(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--notify-keyspace-events", "KA")
	c := s.Dial()
	replies, err := c.Pipeline([]any{"MULTI"}, []any{"XADD", "s", "IDMP", "p", "1", "*", "f", "v"},
		[]any{"XADD", "s", "IDMP", "p", "2", "*", "f", "v"}, []any{"XADD", "s", "IDMP", "p", "1", "*", "f", "v"},
		[]any{"EXEC"})
	if err != nil {
		t.Fatal(err)
	}
	ids := replies[4].Strings()
	if len(ids) != 3 || ids[0] != ids[2] || ids[0] == ids[1] {
		t.Errorf("a transaction adds %q", ids)
	}
	script :=
		`local t = {} for i = 1, 4 do t[i] = redis.call('XADD', KEYS[1], 'IDMP', 'p', i % 3, '*', 'f', 'v') end return t`
	ids2 := s.Do("EVAL", script, "1", "s").Strings()
	if len(ids2) != 4 || ids2[0] != ids[0] || ids2[1] != ids[1] || ids2[3] != ids[0] {
		t.Errorf("a script adds %q after %q", ids2, ids)
	}

	known := []any{"XADD", "s", "IDMP", "p", "1", "*", "f", "v"}
	tracking, listening := s.Dial(), s.Dial()
	tracking.Must("HELLO", "3")
	tracking.Must("CLIENT", "TRACKING", "ON")
	tracking.Must("XLEN", "s")
	listening.Must("PSUBSCRIBE", "__key*", "mark")
	offset := s.InfoInt("replication", "master_repl_offset")
	dirty := s.InfoInt("persistence", "rdb_changes_since_last_save")
	c.Must("WATCH", "s")
	s.Do(known...)
	if got := s.Do("XCFGSET", "s", "IDMP-DURATION", "100").Text; got != "OK" { // the current value
		t.Error(got)
	}
	if replies, err = c.Pipeline([]any{"MULTI"}, []any{"PING"}, []any{"EXEC"}); err != nil || replies[2].Null {
		t.Errorf("EXEC after a message that is known: %v, %v", replies, err)
	}
	s.Do("PUBLISH", "mark", "end")
	var heard []string
	for !slices.Contains(heard, "end") {
		v, err := listening.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if words := v.Strings(); len(words) == 4 {
			heard = append(heard, words[3])
		}
	}
	if len(heard) != 1 {
		t.Errorf("events: %q", heard)
	}
	if now := s.InfoInt("persistence", "rdb_changes_since_last_save"); now != dirty {
		t.Errorf("%d changes, %d before", now, dirty)
	}
	if now := s.InfoInt("replication", "master_repl_offset"); now != offset {
		t.Errorf("offset %d, %d before", now, offset)
	}
	c.Must("WATCH", "s")
	s.Do("XCFGSET", "s", "IDMP-DURATION", "99")
	if replies, err = c.Pipeline([]any{"MULTI"}, []any{"PING"}, []any{"EXEC"}); err != nil || !replies[2].Null {
		t.Errorf("EXEC after a change of settings: %v, %v", replies, err)
	}
	if v, err := tracking.Receive(); err != nil || !strings.Contains(fmt.Sprint(v), "invalidate") {
		t.Errorf("tracking: %v, %v", v, err)
	}
}
