package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/tests/testkit"
)

// fill limits the size of each file that the server writes, to simulate a full disk. The log stays far smaller.
func fill(t *testing.T, s *testkit.Server, size uint64) {
	t.Helper()
	var now unix.Rlimit
	if err := unix.Prlimit(s.PID, unix.RLIMIT_FSIZE, nil, &now); err != nil {
		t.Fatal(err)
	}
	now.Cur = min(size, now.Max)
	if err := unix.Prlimit(s.PID, unix.RLIMIT_FSIZE, &now, nil); err != nil {
		t.Fatal(err)
	}
}

const roomy = unix.RLIM_INFINITY

// TestDiskFull: if the disk has no space for a save, the old file stays and writes fail with MISCONF. Reads still work.
// After the next successful save, writes work again.
func TestDiskFull(t *testing.T) {
	s := testkit.Start(t, "--save", "3600 1")
	s.Do("SET", "k", "first")
	s.Do("SAVE")
	sum := testkit.Sum(t, s.File("dump.rdb"))
	noise := func(i int) []any {
		return []any{"SET", fmt.Sprint("noise:", i), fmt.Sprintf("%x", uint64(i)*0x9E3779B97F4A7C15)}
	}
	keys := 40_000 * testkit.Scale()
	testkit.Pipe(t, s.Dial(), keys, noise) // about a megabyte that LZF cannot make smaller

	fill(t, s, 200_000)
	s.Do("BGSAVE")
	s.AwaitInfo(20*time.Second, "persistence", "rdb_last_bgsave_status", "err")
	for _, request := range [][]any{{"SET", "k", "2"}, {"DEL", "k"}, {"INCR", "n"}, {"PING"}, {"FLUSHALL"}} {
		if v, err := s.Ask(request...); err != nil || !strings.HasPrefix(v.Text, "MISCONF ") {
			t.Errorf("%v: %v %v, want MISCONF", request, v, err)
		}
	}
	if v := s.Do("GET", "k"); v.Text != "first" {
		t.Errorf("GET: %v", v)
	}
	if n := s.Do("DBSIZE").Int; n != int64(keys)+1 {
		t.Errorf("DBSIZE: %d", n)
	}
	if testkit.Sum(t, s.File("dump.rdb")) != sum {
		t.Error("the old file changed")
	}
	if left := temporaries(s); len(left) != 0 {
		t.Errorf("not removed: %q", left)
	}
	if v, err := s.Ask("SAVE"); err != nil || v.Err() == nil {
		t.Errorf("SAVE on a full disk: %v %v", v, err)
	}
	s.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	s.Do("SET", "k", "second")
	s.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "yes")
	if v, err := s.Ask("SET", "k", "third"); err != nil || !strings.HasPrefix(v.Text, "MISCONF ") {
		t.Errorf("SET: %v %v, want MISCONF", v, err)
	}

	fill(t, s, roomy)
	s.Do("BGSAVE")
	s.AwaitInfo(20*time.Second, "persistence", "rdb_last_bgsave_status", "ok")
	s.Do("SET", "later", "1")
	s.Kill()
	s.Restart()
	if v := s.Do("GET", "k"); v.Text != "second" {
		t.Errorf("GET after the restart: %v", v)
	}
}

// TestDiskFullAtTheEnd: a server that should shut down but cannot save keeps running, and logs it. SHUTDOWN FORCE ends
// it.
func TestDiskFullAtTheEnd(t *testing.T) {
	s := testkit.Start(t, "--save", "3600 1")
	keys := 40_000 * testkit.Scale()
	testkit.Pipe(t, s.Dial(), keys,
		func(i int) []any { return []any{"SET", i, fmt.Sprintf("%x", uint64(i)*0x9E3779B97F4A7C15)} })
	fill(t, s, 200_000)
	s.Signal(unix.SIGTERM)
	s.AwaitLog(20*time.Second, "Error trying to save the DB, can't exit")
	if v, err := s.Ask("SHUTDOWN"); err != nil || !strings.HasPrefix(v.Text, "ERR Errors trying to SHUTDOWN") {
		t.Errorf("SHUTDOWN: %v %v", v, err)
	}
	if n := s.Do("DBSIZE").Int; n != int64(keys) {
		t.Errorf("DBSIZE: %d", n)
	}
	if v, err := s.Ask("SHUTDOWN", "SAVE", "FORCE"); err == nil {
		t.Errorf("SHUTDOWN SAVE FORCE: %v", v)
	}
	if code := s.Wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
