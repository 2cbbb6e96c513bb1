package topology

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A view (a snapshot) must show the data set between two commands. Each instant here is marked by the number of a
// round. One connection writes "before", requests the freeze, and writes "after", all in one pipeline, while others
// continue to write.

// mark returns the requests of one round, with the freezing request in the middle.
func mark(round int, freeze ...any) (requests [][]any) {
	add := func(args ...any) { requests = append(requests, args) }
	for i := range marks {
		add("SET", fmt.Sprintf("deleted:%d:%d", round, i), i)
		add("SET", fmt.Sprintf("changed:%d", i), fmt.Sprintf("as of %d", round))
		add("PEXPIREAT", fmt.Sprintf("deleted:%d:%d", round, i), 4102444800000+i)
	}
	add("SETRANGE", "long", 150_000, fmt.Sprintf("as of %04d", round))
	add("SET", fmt.Sprintf("renamed:%d", round), round)
	add("MSET", "x", round, "y", round)
	add(freeze...)
	add("MSET", "x", "after", "y", "after")
	add("RENAME", fmt.Sprintf("renamed:%d", round), "elsewhere")
	add("SETRANGE", "long", 150_000, "overwritten")
	add("APPEND", "long", "and longer")
	for i := range marks {
		add("DEL", fmt.Sprintf("deleted:%d:%d", round, i))
		add("SET", fmt.Sprintf("after:%d:%d", round, i), i)
		add("APPEND", fmt.Sprintf("changed:%d", i), ", and later")
		add("PEXPIRE", fmt.Sprintf("changed:%d", i), 1_000_000)
	}
	return requests
}

const marks = 150

// inspect fails the test unless c, which has loaded a view of the given round, has exactly the data of the freeze.
func inspect(t *testing.T, c *respclient.Client, round int) {
	t.Helper()
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("round %d: %s: %v in the view, want %v", round, what, got, want)
		}
	}
	for i := range marks {
		name := fmt.Sprintf("deleted:%d:%d", round, i)
		check(name, c.Must("GET", name).Text, fmt.Sprint(i))
		check(name+"'s deadline", c.Must("PEXPIRETIME", name).Int, int64(4102444800000+i))
		name = fmt.Sprintf("changed:%d", i)
		check(name, c.Must("GET", name).Text, fmt.Sprintf("as of %d", round))
		check(name+"'s deadline", c.Must("PEXPIRETIME", name).Int, int64(-1))
	}
	check("keys set after the freeze", len(c.Must("KEYS", fmt.Sprintf("after:%d:*", round)).Elems), 0)
	check("keys set after an earlier freeze", len(c.Must("KEYS", "after:*").Elems), marks*round)
	check("keys deleted after an earlier freeze", len(c.Must("KEYS", "deleted:*").Elems), marks)
	check("long", c.Must("GETRANGE", "long", 150_000, 150_009).Text, fmt.Sprintf("as of %04d", round))
	check("long's length", c.Must("STRLEN", "long").Int, int64(200_000+10*round))
	check("renamed", c.Must("GET", fmt.Sprintf("renamed:%d", round)).Text, fmt.Sprint(round))
	check("x", c.Must("GET", "x").Text, fmt.Sprint(round))
	check("y", c.Must("GET", "y").Text, fmt.Sprint(round))
}

// play sends one round and fails the test on any error.
func play(t *testing.T, c *respclient.Client, requests [][]any) {
	t.Helper()
	replies, err := c.Pipeline(requests...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range replies {
		must(t, v, v.Err())
		_ = i
	}
}

// prepare fills s with the keys that the rounds use, and with further keys, so that a saver takes some time.
func prepare(t *testing.T, s *testkit.Server) *respclient.Client {
	t.Helper()
	c := s.Dial()
	testkit.Pipe(t, c, 2_000, func(i int) []any { return []any{"SET", fmt.Sprint("still:", i), i} })
	c.Must("SET", "long", strings.Repeat("long", 50_000))
	return c
}

// TestBackgroundSaveIsOneInstant plays many rounds. Keys set after the freeze are never in the file. Keys that were
// deleted, changed, renamed, moved or given a deadline after the freeze are in the file in their old state.
func TestBackgroundSaveIsOneInstant(t *testing.T) {
	s, r := testkit.Start(t, "--rdb-key-save-delay", "-2"), newReader(t)
	c := prepare(t, s)
	w := startWriters(t, s, 2, uint64(time.Now().UnixNano()))
	rounds, overlaps := 8*testkit.Scale(), 0
	for round := range rounds {
		play(t, c, mark(round, "BGSAVE"))
		if s.Info("persistence")["rdb_bgsave_in_progress"] == "1" {
			overlaps++
		}
		w.await(200)
		s.AwaitInfo(testkit.Slowly(60*time.Second), "persistence", "rdb_bgsave_in_progress", "0")
		s.AwaitInfo(time.Second, "persistence", "rdb_last_bgsave_status", "ok")
		file, err := os.ReadFile(s.File("dump.rdb"))
		must2(t, err)
		r.load(t, file)
		inspect(t, r.Dial(), round)
		if t.Failed() {
			break
		}
	}
	w.stop()
	if overlaps < rounds/2 {
		t.Errorf("only %d of %d saves were still under way when the changes after them were made", overlaps, rounds)
	}
	s.AwaitInfo(testkit.Slowly(20*time.Second), "memory", "memory_kept_by_views", "0")
}

// TestTwoViewsAtOnce: a save and two full synchronisations run at the same time. Each shows its own instant.
func TestTwoViewsAtOnce(t *testing.T) {
	s, r := testkit.Start(t, "--rdb-key-save-delay", "600"), newReader(t)
	c := prepare(t, s)
	w := startWriters(t, s, 2, uint64(time.Now().UnixNano()))
	// The save takes seconds, because the synchronisations may start seconds later on a busy host.
	play(t, c, mark(0, "BGSAVE"))
	c.Must("CONFIG", "SET", "rdb-key-save-delay", 100) // slows the synchronisations down
	var peers []*respclient.Client
	for round := 1; round <= 2; round++ {
		w.await(200)
		peer := s.Dial()
		peers = append(peers, peer)
		before := s.InfoInt("stats", "sync_full")
		// SYNC must come between the two halves of the round. It uses another connection, so the test sends the halves
		// in order.
		requests := mark(round, "PING")
		at := 0
		for i := range requests {
			if requests[i][0] == "PING" {
				at = i
			}
		}
		play(t, c, requests[:at])
		if round == 2 { // the other form, because two copies of one form do not overlap
			peer.Must("REPLCONF", "capa", "eof", "capa", "psync2")
			peer.SendRaw([]byte("PSYNC ? -1\r\n"))
		} else {
			peer.SendRaw([]byte("SYNC\r\n"))
		}
		must2(t, peer.Flush())
		testkit.Until(t, testkit.Slowly(10*time.Second), "SYNC", func() error {
			return testkit.Equal(s.InfoInt("stats", "sync_full"), before+1)
		})
		play(t, c, requests[at:])
	}
	s.AwaitInfo(time.Second, "persistence", "rdb_bgsave_in_progress", "1") // otherwise the views did not overlap
	w.await(200)
	for i, peer := range peers {
		if i == 1 {
			if v, err := peer.Receive(); err != nil || !strings.HasPrefix(v.Text, "FULLRESYNC ") {
				t.Fatalf("PSYNC: %v %v", v, err)
			}
		}
		file, _ := receive(t, peer)
		r.load(t, file)
		inspect(t, r.Dial(), i+1)
		peer.Close()
	}
	s.AwaitInfo(testkit.Slowly(60*time.Second), "persistence", "rdb_bgsave_in_progress", "0")
	file, err := os.ReadFile(s.File("dump.rdb"))
	must2(t, err)
	r.load(t, file)
	inspect(t, r.Dial(), 0)
	w.stop()
	s.AwaitInfo(testkit.Slowly(20*time.Second), "memory", "memory_kept_by_views", "0")
}
