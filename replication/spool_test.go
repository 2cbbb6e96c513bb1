package replication

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/internal/disk"
	"spindle/tests/testkit"
	"spindle/tests/testkit/faulty"
)

// newSpooler returns a primary with a small backlog in memory, whose rest goes to a simulated disk.
func newSpooler(t *testing.T) (*primary, *faulty.Disk) {
	p, d := newPrimary(t), faulty.New(1)
	p.settings.Files, p.settings.Dir = d, func() string { return "." }
	p.settings.BacklogSize.Set(64 << 10)
	p.settings.DiskSize.Set(64 << 20)
	p.tick(0)
	t.Cleanup(func() { p.Do(p.feed.spool.drop) })
	return p, d
}

// followerAt returns a replica that has the stream up to offset and acknowledges it.
func (p *primary) followerAt(offset int64, port int) (*client.Client, *socket) {
	p.t.Helper()
	cl, s := p.arrive()
	p.do(cl, fmt.Sprint("REPLCONF listening-port ", port), "REPLCONF capa eof capa psync2")
	if got := p.do(cl, fmt.Sprintf("PSYNC %s %d", p.feed.ID, offset+1)); !strings.HasPrefix(got, "+CONTINUE") {
		p.t.Fatalf("PSYNC at %d: %q; first %d, offset %d", offset, got, p.first(), p.feed.offset)
	}
	return cl, s
}

func (p *primary) first() (at int64) {
	p.Do(func() { p.feed.flush(); at = p.feed.first() })
	return at
}

func (p *primary) spools() (on bool) {
	p.Do(func() { on = p.feed.OnDisk() })
	return on
}

// takeBytes returns the bytes that were sent, once there are n or more.
func (s *socket) takeBytes(t *testing.T, n int) string {
	t.Helper()
	testkit.Await(t, testkit.Slowly(time.Minute), fmt.Sprint(n, " bytes"), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sent) >= n
	})
	return s.take(t, "")
}

// fill writes about n bytes of stream.
func (p *primary) fill(cl *client.Client, n int) {
	value := strings.Repeat("v", 10_000)
	for i := 0; i < n; i += len(value) {
		p.do(cl, fmt.Sprintf("SET k:%d %s", i, value))
	}
}

// tick runs the feed's tick as if ms had passed.
func (p *primary) tick(ms int64) { p.Do(func() { p.feed.Tick(p.SteadyMs() + ms) }) }

func (p *primary) written() {
	p.t.Helper()
	testkit.Await(p.t, testkit.Slowly(time.Minute), "the disk", func() (done bool) {
		p.Do(func() { done = p.feed.spool.queued() == 0 })
		return done
	})
}

// TestSpool: two replicas become slow at different offsets, and one leaves. All get the stream in order from disk and
// memory. Memory keeps its limit meanwhile, and the files are removed when no replica needs them.
func TestSpool(t *testing.T) {
	p, d := newSpooler(t)
	writer, _ := p.arrive()
	_, all := p.online()
	_, slow := p.followerAt(0, 7001)
	slow.setUnsent(unsentMax + 1)
	p.fill(writer, 3<<20)
	_, later := p.followerAt(p.feed.offset, 7002)
	later.setUnsent(unsentMax + 1)
	away, _ := p.followerAt(p.feed.offset, 7003)
	left := p.feed.offset
	p.Closed(away)
	p.fill(writer, 3<<20)
	p.written()
	p.tick(100)
	p.Do(func() {
		if f := p.feed; f.log.length > f.log.limit+2*blockBytes || f.log.begin() != f.spool.log.Figures().End {
			t.Errorf("replication.D1: %d bytes in memory from %d on, %+v on disk", f.log.length, f.log.begin(),
				f.spool.log.Figures())
		}
	})
	if p.first() != 0 {
		t.Fatalf("the backlog begins at %d", p.first())
	}
	stream := all.take(t, "")
	if int64(len(stream)) != p.feed.offset {
		t.Fatalf("a stream of %d bytes, offset %d", len(stream), p.feed.offset)
	}
	last := wire("SET last 1")
	slow.setUnsent(0)
	p.do(writer, "SET last 1")
	stream += last
	if got := slow.take(t, last); got != stream {
		t.Errorf("the slow replica got %d bytes of %d", len(got), len(stream))
	}
	later.setUnsent(0)
	if got := later.take(t, last); !strings.HasSuffix(stream, got) || len(got) < 3<<20 {
		t.Errorf("the second one got %d bytes of %d", len(got), len(stream))
	}
	back, again := p.followerAt(left, 7003)
	if got := again.take(t, last); got != stream[left:] {
		t.Errorf("the one that was away got %d bytes of %d", len(got), int64(len(stream))-left)
	}
	if p.feed.fullSyncs != 1 {
		t.Errorf("%d full copies", p.feed.fullSyncs)
	}
	for _, r := range p.feed.replicas {
		if r.port != 0 {
			p.do(r.cl, fmt.Sprint("REPLCONF ACK ", p.feed.offset))
		}
	}
	p.tick(200)
	if !p.spools() {
		t.Error("the spool ends at once")
	}
	p.tick(200 + spoolIdle + 1)
	testkit.Await(t, testkit.Slowly(time.Minute), "the files to go", func() bool {
		names, _ := d.ReadDir(".")
		return !p.spools() && len(names) == 0
	})
	p.Closed(back)
}

// TestSpoolBeforeTheFirstTick: a process continues the backlog on disk before its first tick. If bytes wait for the
// disk at that tick, the disk is not too slow: the time begins there.
func TestSpoolBeforeTheFirstTick(t *testing.T) {
	p, d := newSpooler(t)
	release := d.Stall(faulty.Write)
	var before, first, after bool
	p.Do(func() {
		s := p.feed.spool
		s.nowMs = 0
		s.begin(p.feed.offset)
		s.log.Append(make([]byte, 64<<10))
		before = s.on()
		s.nowMs = 1000 * spoolPatience
		s.check(0)
		first = s.on()
		s.nowMs += spoolPatience + 1
		s.check(0)
		after = s.on()
	})
	release()
	if !before || !first || after {
		t.Errorf("on before the first tick %t, after it %t, and after a minute %t", before, first, after)
	}
}

// TestSpoolIsOffByDefault: without repl-backlog-disk-size nothing touches the disk, and memory keeps the needed bytes.
func TestSpoolIsOffByDefault(t *testing.T) {
	p, d := newSpooler(t)
	p.settings.DiskSize.Set(0)
	writer, _ := p.arrive()
	_, all := p.online()
	_, slow := p.followerAt(0, 7001)
	slow.setUnsent(unsentMax + 1)
	p.fill(writer, 3<<20)
	p.tick(100)
	if p.spools() || d.Ops > 0 {
		t.Error("something went to disk")
	}
	stream := all.take(t, "")
	slow.setUnsent(0)
	if got := slow.take(t, "k:3140000"); !strings.HasPrefix(stream, got[:len(got)/2]) {
		t.Error("other bytes")
	}
}

// TestSpoolSparesTheOutputLimit: a replica that reads from disk costs no memory, so the output limit does not close it.
// A replica that lacks more than repl-backlog-disk-size is closed.
func TestSpoolSparesTheOutputLimit(t *testing.T) {
	p, _ := newSpooler(t)
	p.limit = OutputLimit{Hard: 1 << 20}
	p.settings.DiskSize.Set(4 << 20)
	writer, _ := p.arrive()
	p.online()
	_, slow := p.followerAt(0, 7001)
	slow.setUnsent(unsentMax + 1)
	p.fill(writer, 3<<20)
	p.written()
	p.tick(100)
	if slow.isClosed() || !p.spools() {
		t.Fatalf("closed: %t, on disk: %t", slow.isClosed(), p.spools())
	}
	for range 10 {
		p.fill(writer, 1<<20)
		p.written()
	}
	p.tick(200)
	if !slow.isClosed() || p.feed.outLimit != 0 {
		t.Errorf("closed: %t", slow.isClosed())
	}
}

// TestSpoolFails: whatever fails on disk, the replica is closed, and a later PSYNC gets a full copy. The replica never
// gets wrong bytes.
func TestSpoolFails(t *testing.T) {
	for name, spoil := range map[string]func(p *primary, d *faulty.Disk){
		"full": func(_ *primary, d *faulty.Disk) { d.Space = 100 },
		"write": func(_ *primary, d *faulty.Disk) {
			d.Fail(faulty.Fault{Op: faulty.Write, Err: syscall.EIO})
		},
		"read": func(_ *primary, d *faulty.Disk) {
			d.Fail(faulty.Fault{Op: faulty.Read, Err: syscall.EIO})
		},
		"damage": func(_ *primary, d *faulty.Disk) {
			names, _ := d.ReadDir(".")
			f, err := d.Open(names[0], os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write(make([]byte, 300_000))
			}
			if err != nil {
				panic(err)
			}
		},
		"stall": func(p *primary, d *faulty.Disk) {
			release := d.Stall(faulty.Write)
			p.t.Cleanup(release)
		},
		"off": func(p *primary, _ *faulty.Disk) {
			p.settings.DiskSize.Set(0)
			p.Do(p.feed.ResizeSpool)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, d := newSpooler(t)
			writer, _ := p.arrive()
			_, all := p.online()
			_, slow := p.followerAt(0, 7001)
			slow.setUnsent(unsentMax + 1)
			p.fill(writer, 2<<20)
			p.written()
			if !p.spools() {
				t.Fatal("nothing is on disk")
			}
			p.tick(100)
			spoil(p, d)
			p.fill(writer, 2<<20)
			p.tick(200)
			slow.setUnsent(0)
			if name == "stall" {
				p.tick(400 + spoolPatience)
			}
			testkit.Await(t, testkit.Slowly(time.Minute), "the replica to be closed", slow.isClosed)
			stream := all.take(t, "")
			if got := slow.take(t, ""); !strings.HasPrefix(stream, got) {
				t.Errorf("%d bytes are not the stream's", len(got))
			}
			if p.spools() {
				t.Error("the spool is on")
			}
			if name != "off" && p.feed.spool.failures != 1 {
				t.Errorf("%d failures", p.feed.spool.failures)
			}
			answer, cl, _ := p.continueAt(p.feed.ID, 0)
			if strings.HasPrefix(answer, "+CONTINUE") {
				t.Errorf("%q", answer)
			}
			p.Closed(cl)
			// The primary continues without a disk.
			_, next := p.followerAt(p.feed.offset, 7004)
			at := p.feed.offset
			next.setUnsent(unsentMax + 1)
			p.fill(writer, 1<<20)
			if p.spools() {
				t.Error("the spool does not rest")
			}
			next.setUnsent(0)
			p.do(writer, "SET last 1")
			all.take(t, "last")
			if got := next.take(t, "last"); int64(len(got)) != p.feed.offset-at {
				t.Errorf("%d bytes of %d", len(got), p.feed.offset-at)
			}
		})
	}
}

// TestSpoolOfManyBytes: when the disk is turned on, the blocks that memory has kept for a slow replica go to disk step
// by step. A unit larger than all bounds does not end the spool.
func TestSpoolOfManyBytes(t *testing.T) {
	p, d := newSpooler(t)
	p.settings.DiskSize.Set(0)
	writer, _ := p.arrive()
	_, all := p.online()
	_, slow := p.followerAt(0, 7001)
	slow.setUnsent(unsentMax + 1)
	value := strings.Repeat("x", spoolAhead+spoolAhead/2)
	release := d.Stall(faulty.Write)
	p.fill(writer, 600_000) // it begins to lag
	p.do(writer, "SET a "+value)
	p.settings.DiskSize.Set(1 << 30)
	p.Do(p.feed.ResizeSpool)
	p.tick(100)
	if !p.spools() {
		t.Fatal("nothing goes to disk")
	}
	p.do(writer, "SET b "+value)
	p.Do(func() {
		if f := p.feed; f.spool.queued() > spoolAhead+blockBytes || f.log.begin() != f.spool.log.Figures().End {
			t.Errorf("%d wait, memory from %d on, %+v", f.spool.queued(), f.log.begin(), f.spool.log.Figures())
		}
	})
	release()
	testkit.Await(t, testkit.Slowly(time.Minute), "memory to get rid of it", func() (done bool) {
		p.Do(func() {
			p.feed.Tick(p.SteadyMs())
			done = p.feed.log.length < p.feed.log.limit+2*blockBytes
		})
		return done
	})
	slow.setUnsent(0)
	stream := all.take(t, "")
	if got := slow.takeBytes(t, len(stream)); got != stream {
		t.Errorf("%d bytes of %d", len(got), len(stream))
	}
}

// TestSpoolAndHistories: a promotion keeps the part on disk, a new history drops it.
func TestSpoolAndHistories(t *testing.T) {
	p, d := newSpooler(t)
	writer, _ := p.arrive()
	_, all := p.online()
	cl, slow := p.followerAt(0, 7001)
	slow.setUnsent(unsentMax + 1)
	p.fill(writer, 1<<20)
	old := p.feed.ID
	p.Do(func() { p.feed.follow(); p.feed.branch(); p.feed.dismiss(); p.feed.lead() })
	p.Closed(cl)
	stream := all.take(t, "")
	answer, again, s := p.continueAt(old, 0)
	if !strings.HasPrefix(answer, "+CONTINUE") {
		t.Fatalf("%q after a promotion", answer)
	}
	if got := s.takeBytes(t, len(stream)); got != stream {
		t.Errorf("%d bytes of %d", len(got), len(stream))
	}
	p.Closed(again)
	p.Do(func() { p.feed.follow(); p.feed.restart(strings.Repeat("a", 40), 77) })
	if p.spools() || p.first() != 77 {
		t.Error("bytes of another history are kept")
	}
	testkit.Await(t, testkit.Slowly(time.Minute), "the files to go", func() bool {
		names, _ := d.ReadDir(".")
		return len(names) == 0
	})
}

// TestSpoolOutlivesTheProcess: after an orderly end with saved data the next process continues the backlog, if it loads
// exactly these data.
func TestSpoolOutlivesTheProcess(t *testing.T) {
	for name, c := range map[string]struct {
		saved     bool
		id        string
		more      int64
		continues bool
	}{
		"the same data":     {saved: true, continues: true},
		"not saved":         {},
		"other data":        {saved: true, id: strings.Repeat("b", 40)},
		"data of a BGSAVE":  {saved: true, more: -10},
		"an offset too far": {saved: true, more: 10},
	} {
		t.Run(name, func(t *testing.T) {
			p, d := newSpooler(t)
			writer, _ := p.arrive()
			_, all := p.online()
			_, slow := p.followerAt(0, 7001)
			slow.setUnsent(unsentMax + 1)
			p.fill(writer, 2<<20)
			wait, id, offset := func() {}, "", int64(0)
			p.Do(func() {
				id, offset, _, _ = p.ends.State()
				wait = p.ends.EndStream(c.saved)
			})
			wait()
			stream := all.take(t, "")

			q, _ := newSpooler(t)
			q.settings.Files = d
			if c.id != "" {
				id = c.id
			}
			offset += c.more
			kept := q.feed.FindKept()
			q.Do(func() {
				q.feed.BeginLoad().End(id, offset)
				q.feed.Continue(kept, id, offset)
			})
			if !c.continues {
				testkit.Await(t, testkit.Slowly(time.Minute), "the files to go", func() bool {
					names, _ := d.ReadDir(".")
					return len(names) == 0
				})
				answer, _, _ := q.continueAt(id, 0)
				if strings.HasPrefix(answer, "+CONTINUE") || q.spools() {
					t.Errorf("%q", answer)
				}
				return
			}
			writer, _ = q.arrive()
			q.do(writer, "SET last 1")
			q.tick(spoolIdle * 2) // the replica may still come
			_, s := q.followerAtHistory(id, 0, 7001)
			got := s.take(t, "last")
			if want := stream + wire("SELECT 0") + wire("SET last 1"); got != want {
				t.Errorf("%d bytes of %d", len(got), len(want))
			}
			if len(q.feed.departed) != 0 {
				t.Errorf("%v are awaited", q.feed.departed)
			}
		})
	}
}

func (p *primary) followerAtHistory(id string, offset int64, port int) (*client.Client, *socket) {
	p.t.Helper()
	cl, s := p.arrive()
	p.do(cl, fmt.Sprint("REPLCONF listening-port ", port), "REPLCONF capa eof capa psync2")
	if got := p.do(cl, fmt.Sprintf("PSYNC %s %d", id, offset+1)); !strings.HasPrefix(got, "+CONTINUE") {
		p.t.Fatalf("PSYNC at %d: %q; first %d, offset %d", offset, got, p.first(), p.feed.offset)
	}
	return cl, s
}

// TestSpoolForgetsTheDeparted: nothing is kept any more for a replica that does not return within repl-backlog-ttl.
func TestSpoolForgetsTheDeparted(t *testing.T) {
	p, _ := newSpooler(t)
	writer, _ := p.arrive()
	p.online()
	away, _ := p.followerAt(0, 7001)
	p.Closed(away)
	p.fill(writer, 1<<20)
	p.written()
	p.tick(100)
	p.tick(spoolIdle * 3)
	if !p.spools() {
		t.Error("the spool forgets a replica that may come back")
	}
	p.tick(3601_000)
	p.tick(3602_000 + spoolIdle)
	if p.spools() {
		t.Error("the spool outlives repl-backlog-ttl")
	}
}

// TestSpoolOfRealFolders: the spool begins again in a folder that this process has used before. That may be after
// CONFIG SET dir, or after a start that has found files of an earlier process.
func TestSpoolOfRealFolders(t *testing.T) {
	p := newPrimary(t)
	dir := t.TempDir()
	p.settings.Files, p.settings.Dir = disk.OS, func() string { return dir }
	p.settings.BacklogSize.Set(64 << 10)
	p.settings.DiskSize.Set(64 << 20)
	t.Cleanup(func() { p.Do(p.feed.spool.drop) })
	if err := os.WriteFile(filepath.Join(dir, "backlog.note"), []byte("of an earlier process"), 0o600); err != nil {
		t.Fatal(err)
	}
	if kept := p.feed.FindKept(); kept != nil {
		t.Fatal("a damaged note is believed")
	}
	first := dir
	p.tick(0)
	writer, _ := p.arrive()
	p.online()
	for i, at := range []string{first, t.TempDir(), first} {
		p.Do(func() { dir = at; p.feed.spool.drop() })
		cl, slow := p.followerAt(p.feed.offset, 7001+i)
		slow.setUnsent(unsentMax + 1)
		p.fill(writer, 1<<20)
		p.written()
		p.tick(100)
		if !p.spools() || p.feed.spool.failures > 0 {
			t.Fatalf("folder %d is not used", i)
		}
		if names, err := os.ReadDir(at); err != nil || len(names) < 2 {
			t.Errorf("folder %d has %v, %v", i, names, err)
		}
		p.Closed(cl)
	}
}
