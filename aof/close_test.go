package aof

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"spindle/internal/disk"
	"spindle/tests/testkit/faulty"
)

// shutDown shuts the server down. It returns how many steps are left after a later power cut.
func shutDown(t *testing.T, s *server, d *faulty.Disk) (steps int) {
	t.Helper()
	var wait func(time.Duration)
	s.Do(func() { wait = s.aof.Close() })
	wait(20 * time.Second)
	return again(t, d.Crash())
}

// stalled returns a server with two steps. The second waits in the buffer for the end of a sync.
func stalled(t *testing.T, policy Policy) (s *server, d *faulty.Disk, release func()) {
	t.Helper()
	s, d = begin(t, policy)
	release = d.Stall(faulty.Sync)
	s.step(1)
	s.waitFor("a sync", func() bool { s.aof.w.askSync(); return s.aof.w.isSyncing() })
	s.step(2)
	if s.aof.w.unwritten() == 0 {
		t.Fatal("nothing waits for the disk")
	}
	return s, d, release
}

// TestCloseAfterASlowSync: bytes that a running sync has kept in the buffer are on disk when the server ends. This is
// also so if the log was turned off an instant before.
func TestCloseAfterASlowSync(t *testing.T) {
	for _, policy := range []Policy{EverySecond, Never} {
		for _, off := range []bool{false, true} {
			s, d, release := stalled(t, policy)
			if off {
				s.Do(s.aof.TurnOff)
			}
			time.AfterFunc(20*time.Millisecond, release)
			if n := shutDown(t, s, d); n != 2 {
				t.Errorf("policy %v, off %t: %d steps are on disk", policy, off, n)
			}
		}
	}
}

// TestCloseTriesAgain: a shutdown retries a write that failed a moment ago on a full disk, without the usual rest
// between tries.
func TestCloseTriesAgain(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *server, *faulty.Disk) int{
		"shutdown": shutDown,
		"off and shutdown": func(t *testing.T, s *server, d *faulty.Disk) int {
			s.Do(s.aof.TurnOff)
			return shutDown(t, s, d)
		},
		"reload": func(t *testing.T, s *server, d *faulty.Disk) int {
			if _, err := s.reload(); err != nil {
				t.Fatal(err)
			}
			n, err := s.state()
			if err != nil {
				t.Fatal(err)
			}
			return n
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := begin(t, EverySecond)
			s.step(1)
			s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
			heal := d.Fail(faulty.Fault{Op: faulty.Write, Name: "incr", Err: syscall.ENOSPC, Short: true})
			s.step(2)
			s.waitFor("a refusal", func() bool { return s.aof.Refusal() != nil })
			s.Do(func() {
				s.aof.w.lock().trouble.tried = time.Now().Add(time.Hour) // so that the rest is long
				s.aof.w.unlock()
			})
			heal()
			if n := end(t, s, d); n != 2 {
				t.Errorf("%d steps are there", n)
			}
		})
	}
}

// TestCloseOnAFullDisk: a shutdown on a full disk logs how much of the log is lost. One that loses nothing does not.
func TestCloseOnAFullDisk(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.step(1)
	s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
	d.Fail(faulty.Fault{Op: faulty.Write, Name: "incr", Err: syscall.ENOSPC})
	s.step(2)
	lost := s.aof.w.unwritten()
	if n := shutDown(t, s, d); n != 1 {
		t.Errorf("%d steps are there", n)
	}
	if want := fmt.Sprintf("The last %d bytes of the AOF are lost: the disk did not take them.", lost); !s.said(want) {
		t.Errorf("no %q in %q", want, s.texts(""))
	}
	s, d = begin(t, EverySecond)
	s.step(1)
	if shutDown(t, s, d); s.said(" bytes of the AOF are lost") {
		t.Errorf("%q", s.texts(""))
	}
}

// TestGoodEnd: a server that ends in good order notes the offset of its stream, and the next start finds it once. After
// later writes, a kill, or a disk that has failed, there is no offset.
func TestGoodEnd(t *testing.T) {
	s, d := begin(t, EverySecond)
	ended := func(d *faulty.Disk) (offset int64, whole bool, steps int) {
		next := newServer(t, d)
		if err := next.aof.ReadManifest(); err != nil {
			t.Fatal(err)
		}
		found, err := next.aof.Load(context.Background(), next.target())
		if err == nil {
			err = next.aof.Open(found)
		}
		if err != nil {
			t.Fatal(err)
		}
		offset, whole = found.Ended()
		steps, err = next.state()
		if err != nil {
			t.Fatal(err)
		}
		s = next
		return offset, whole, steps
	}
	end := func(offset int64) {
		var wait func(time.Duration)
		s.Do(func() { wait = s.aof.Close() })
		wait(20 * time.Second)
		s.aof.NoteEnd(offset)
	}
	s.step(1)
	end(700)
	d = d.Crash()
	if offset, whole, steps := ended(d); offset != 700 || !whole || steps != 1 {
		t.Errorf("after a good end: offset %d, whole %t, %d steps", offset, whole, steps)
	}
	d = d.Crash()
	if offset, whole, steps := ended(d); whole || steps != 1 {
		t.Errorf("after a kill: offset %d, whole %t, %d steps", offset, whole, steps)
	}
	heal := d.Fail(faulty.Fault{Op: faulty.Write, Name: "incr", Err: syscall.ENOSPC, Short: true})
	s.step(2)
	end(900)
	heal()
	d = d.Crash()
	if offset, whole, steps := ended(d); whole || steps != 1 {
		t.Errorf("after a full disk: offset %d, whole %t, %d steps", offset, whole, steps)
	}
	s.step(2)
	end(1000)
	m := s.aof.w.manifest // the note, with a file that has grown since
	text := append(m.text(), "#end 1000 1\n"...)
	if err := disk.WriteWhole(d, s.aof.folder.manifestPath(), s.aof.folder.temporaryManifest(), text); err != nil {
		t.Fatal(err)
	}
	if offset, whole, steps := ended(d.Crash()); whole || steps != 2 {
		t.Errorf("with a longer file: offset %d, whole %t, %d steps", offset, whole, steps)
	}
}

// TestGoodEndIsOfTheLastServer: a server serves other data than those of the log, or begins another log in its folder.
// The note of an earlier good end then says nothing any more.
func TestGoodEndIsOfTheLastServer(t *testing.T) {
	for name, live := range map[string]func(s *server){
		"the log is passed over": func(s *server) {
			s.aof.PassOver()
		},
		"the log is turned on": func(s *server) {
			s.Do(func() {
				if err := s.aof.TurnOn(); err != nil {
					t.Error(err)
				}
			})
			s.waitFor("the base", func() bool { return s.aof.state == on && !s.aof.Rewriting() })
			s.waitFor("the writer", s.resting)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := begin(t, EverySecond)
			s.step(1)
			var wait func(time.Duration)
			s.Do(func() { wait = s.aof.Close() })
			wait(20 * time.Second)
			s.aof.NoteEnd(700)
			next := newServer(t, d)
			if err := next.aof.ReadManifest(); err != nil {
				t.Fatal(err)
			}
			if next.aof.w.manifest.end == nil {
				t.Fatal("the end is not noted")
			}
			live(next)
			last := newServer(t, d)
			if err := last.aof.ReadManifest(); err != nil || last.aof.w.manifest.end != nil {
				t.Errorf("%v, the end is %+v", err, last.aof.w.manifest.end)
			}
		})
	}
}
