package limits

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestKeptMemory: a save, a rewrite and a full synchronisation that is not read are aborted when their view (a
// snapshot) keeps more memory than kept-memory-limit. Then that memory is freed, and the server continues.
func TestKeptMemory(t *testing.T) {
	const keys = 2000
	value := strings.Repeat("v", 8000)
	for _, c := range []struct {
		name, line string
		begin      func(s *testkit.Server)
	}{
		{"save", "Background saving called off: ", func(s *testkit.Server) { s.Do("BGSAVE") }},
		{"rewrite", "Background AOF rewrite called off: ", func(s *testkit.Server) { s.Do("BGREWRITEAOF") }},
		{"sync", "Full synchronization called off: ", func(s *testkit.Server) {
			replica := s.Dial()
			replica.Send("SYNC")
			if err := replica.Flush(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.Start(t, "--maxmemory", "40mb", "--kept-memory-limit", "10%")
			conn := s.Dial()
			fill := func() {
				testkit.Pipe(t, conn, keys, func(i int) []any { return []any{"SET", fmt.Sprint("key:", i), value} })
			}
			fill()
			s.Do("CONFIG", "SET", "rdb-key-save-delay", "100000")
			c.begin(s)
			testkit.Until(t, testkit.Slowly(20*time.Second), "a view that keeps too much", func() error {
				fill()
				if log := s.Log(); !strings.Contains(log, c.line) {
					return fmt.Errorf("no %q", c.line)
				}
				return nil
			})
			testkit.Until(t, testkit.Slowly(20*time.Second), "the view's end", func() error {
				return testkit.Equal(s.InfoInt("memory", "mem_not_counted_for_evict") < 4<<20, true)
			})
			fill()
			if n := s.Do("DBSIZE").Int; n != keys {
				t.Errorf("%d keys", n)
			}
			if c.name == "save" { // this failure must not stop writes
				s.Do("CONFIG", "SET", "rdb-key-save-delay", "0")
				s.Do("BGSAVE")
				s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "rdb_bgsave_in_progress", "0")
				s.AwaitInfo(time.Second, "persistence", "rdb_last_bgsave_status", "ok")
			}
		})
	}
}
