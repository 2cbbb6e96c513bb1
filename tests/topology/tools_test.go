package topology

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestToolsAtReplica: redis-cli --rdb and --replica work with a replica of each kind of primary while clients write to
// the primary. A server can start from the file of --rdb. --replica shows the primary's writes.
func TestToolsAtReplica(t *testing.T) {
	for _, redis := range []bool{false, true} {
		t.Run(fmt.Sprintf("primary is redis %t", redis), func(t *testing.T) {
			s := testkit.Launch(t, testkit.Spec{Redis: redis})
			r := follow(t, s, false)
			testkit.Pipe(t, s.Dial(), 5000, func(i int) []any { return []any{"SET", fmt.Sprint("still:", i), i} })
			settle(t, s, r)
			w := startWriters(t, s, 1, uint64(time.Now().UnixNano()))
			w.await(500)
			file := r.File("fetched.rdb")
			if out, code := r.CLI("", "--rdb", file); code != 0 {
				t.Fatalf("redis-cli --rdb: %d %s", code, out)
			}
			check := testkit.Program(t, "redis-check-rdb")
			if out, code := testkit.Run(t, time.Minute, "", check, file); code != 0 {
				t.Errorf("redis-check-rdb: %d %s", code, out)
			}
			dir := t.TempDir()
			must2(t, os.Rename(file, dir+"/dump.rdb"))
			copied := testkit.Launch(t, testkit.Spec{Redis: true, Dir: dir})
			for i := 0; i < 5000; i += 499 {
				if got := copied.Do("GET", fmt.Sprint("still:", i)).Text; got != strconv.Itoa(i) {
					t.Errorf("still:%d is %q in the copy", i, got)
				}
			}
			listener := testkit.Launch(t, testkit.Spec{Program: testkit.Program(t, "redis-cli"), Bare: true, NoWait: true,
				Args: []string{"-p", strconv.Itoa(r.Port), "--replica"}})
			online(t, r, 1)
			w.await(w.writes.Load() + 500)
			s.Do("SET", "heard", "at the end")
			listener.AwaitLog(testkit.Slowly(30*time.Second), `"SET","heard","at the end"`)
			w.stop()
		})
	}
}
