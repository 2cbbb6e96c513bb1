package aof

import (
	"os"
	"syscall"
	"testing"

	"spindle/internal/disk"
	"spindle/tests/testkit/faulty"
)

// spoil appends text, which is not a whole command, to the increment that a server writes.
func spoil(t *testing.T, d disk.System, text string) {
	t.Helper()
	file, err := d.Open("appendonlydir/appendonly.aof.1.incr.aof", os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.Write([]byte(text))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReloadCutsTheEnd: DEBUG LOADAOF cuts a damaged end off the increment that the server writes. A write that fails
// later is cut back to the new end. The next effects go to the right database.
func TestReloadCutsTheEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, damage string
		cut          int64
	}{
		{"garbage", "*2\r\n$3\r\nSET\r\n$100\r\n", 0},
		{"a transaction", "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n9\r\n", 0},
		{"what the server wrote", "", 8},
		{"a SELECT", "", 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, d := begin(t, EverySecond)
			s.step(1)
			s.do("SELECT", "3")
			s.do("SET", "other", "x")
			s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
			spoil(t, d, c.damage)
			if c.cut > 0 {
				path := s.aof.folder.path("appendonly.aof.1.incr.aof")
				size, _ := d.Size(path)
				if err := cutFile(d, path, size-c.cut, nil); err != nil {
					t.Fatal(err)
				}
			}
			found, err := s.reload()
			if err != nil || !found.Truncated() {
				t.Fatalf("%v, truncated: %t", err, found.Truncated())
			}
			var size int64
			s.Do(func() { size = s.aof.size() })
			if size != found.size {
				t.Errorf("the log takes %d bytes, its files have %d", size, found.size)
			}
			heal := d.Fail(faulty.Fault{Op: faulty.Write, Name: "incr", Err: syscall.ENOSPC, Short: true})
			s.do("SET", "third", "y")
			s.waitFor("a refusal", func() bool { return s.aof.Refusal() != nil })
			if n, _ := d.Size("appendonlydir/appendonly.aof.1.incr.aof"); n != found.size-found.baseSize {
				t.Errorf("the increment has %d bytes, want %d", n, found.size-found.baseSize)
			}
			heal()
			s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
			s.do("SELECT", "0")
			s.step(2)
			s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
			r := newServer(t, d)
			r.set.Truncated.Set(false)
			if err := r.start(); err != nil {
				t.Fatal(err)
			}
			if n, err := r.state(); n != 2 || err != nil {
				t.Errorf("%d steps, %v", n, err)
			}
			r.do("SELECT", "3")
			if got := r.text("third"); got != "y" {
				t.Errorf("database 3 has third %q", got)
			}
		})
	}
}
