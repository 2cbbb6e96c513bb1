package aof

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/internal/disk"
	"spindle/tests/testkit/faulty"
)

const firstIncr = "appendonlydir/appendonly.aof.1.incr.aof"

// TestNoSyncDuringASave: with no-appendfsync-on-rewrite nothing is synced while a snapshot is saved, and no reply waits
// for a sync. After the save, syncs continue and cover the bytes written meanwhile.
func TestNoSyncDuringASave(t *testing.T) {
	for _, policy := range []Policy{Always, EverySecond} {
		t.Run(fmt.Sprint("policy ", policy), func(t *testing.T) {
			s, d := begin(t, policy)
			s.set.NoSyncOnRewrite.Set(true)
			s.Do(func() { s.saving = true })
			s.waitFor("the writer's sleep", s.resting)
			release := d.Stall(faulty.Sync)
			turn := s.step(1)
			if s.gate.Holds(turn) {
				t.Error("a reply waits for the disk")
			}
			s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
			s.Do(func() {
				s.aof.Tick(0)
				state := s.aof.w.lock()
				defer s.aof.w.unlock()
				if state.sync.syncing || state.sync.due {
					t.Error("the disk is asked for a sync")
				}
			})
			s.Do(func() { s.saving, s.aof.lastSync = false, time.Time{} })
			s.waitFor("a sync", s.aof.w.isSyncing)
			turn = s.step(2)
			if s.gate.Holds(turn) != (policy == Always) {
				t.Errorf("the reply is held: %t", s.gate.Holds(turn))
			}
			release()
			s.waitFor("the disk", func() bool { s.aof.w.askSync(); return s.aof.Synced(s.cl) })
			if n := again(t, d.Crash()); n != 2 {
				t.Errorf("%d steps are on disk", n)
			}
		})
	}
}

// TestStamps: with aof-timestamp-enabled the log has one annotation with the second before the commands of that second.
// So does a base of commands. The log can still be loaded.
func TestStamps(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.set.Timestamps.Set(true)
	s.set.Preamble.Set(false)
	s.step(1)
	s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
	text, _ := d.Content(firstIncr)
	var second int64
	if n, err := fmt.Sscanf(string(text), "#TS:%d\r\n", &second); n != 1 || err != nil {
		t.Fatalf("%q has no annotation", text)
	}
	if now := time.Now().Unix(); second > now || second < now-60 {
		t.Errorf("it is %d, the annotation says %d", now, second)
	}
	s.Do(func() { s.aof.stamped += 3600 }) // the annotation of this second is written, whenever later effects come
	s.step(2)
	s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
	if text, _ = d.Content(firstIncr); strings.Count(string(text), "#TS:") != 1 {
		t.Errorf("%q has not one annotation", text)
	}
	s.Do(s.aof.startRewrite)
	s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
	if text, _ = d.Content("appendonlydir/appendonly.aof.2.base.aof"); !strings.HasPrefix(string(text), "#TS:") {
		t.Errorf("the base %q has no annotation", text)
	}
	if n := again(t, d); n != 2 {
		t.Errorf("%d steps are there", n)
	}
}

// TestAutomaticRewrite: a log that has grown by auto-aof-rewrite-percentage is rewritten, unless it is shorter than
// auto-aof-rewrite-min-size.
func TestAutomaticRewrite(t *testing.T) {
	for _, c := range []struct {
		name           string
		percent, least int64
		want           bool
	}{
		{"grown", 100, 64, true},
		{"not by so much", 100_000_000, 64, false},
		{"too short", 100, 1 << 20, false},
		{"switched off", 0, 64, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, d := begin(t, EverySecond)
			s.Do(s.aof.startRewrite) // so that there is a base with which to compare
			s.set.Percentage.Set(0)
			s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
			s.set.Percentage.Set(c.percent)
			s.set.MinSize.Set(c.least)
			for i := range 20 {
				s.step(i + 1)
			}
			s.Do(func() { s.aof.Tick(0) })
			if got := s.said("Starting automatic rewriting of AOF on "); got != c.want {
				t.Errorf("a rewrite begins: %t", got)
			}
			s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
			s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
			if n := again(t, d); n != 20 {
				t.Errorf("%d steps are there", n)
			}
		})
	}
}

// TestRewriteAfterASave: BGREWRITEAOF waits for the end of a save, and is refused while a rewrite runs.
func TestRewriteAfterASave(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.Do(func() { s.saving = true })
	if got, _ := s.do("BGREWRITEAOF"); got != "+Background append only file rewriting scheduled\r\n" {
		t.Errorf("%q", got)
	}
	s.Do(func() {
		if s.aof.Tick(0); s.aof.Rewriting() || !s.aof.rw.scheduled {
			t.Error("the rewrite does not wait")
		}
		s.saving = false
	})
	release := d.Stall(faulty.Rename)
	s.Do(func() { s.aof.Tick(0) })
	if got, _ := s.do("BGREWRITEAOF"); got != "-ERR Background append only file rewriting already in progress\r\n" {
		t.Errorf("%q", got)
	}
	release()
	s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
	if s.aof.rw.count != 1 || s.aof.rw.failed {
		t.Errorf("%+v", s.aof.rw)
	}
}

// TestDelayedSyncsAreCounted: a sync that keeps bytes from the file for more than two seconds is counted once.
func TestDelayedSyncsAreCounted(t *testing.T) {
	s, _, release := stalled(t, EverySecond)
	now := time.Now()
	s.Do(func() {
		s.aof.stall = time.Time{}
		for i, want := range []int64{0, 0, 1, 1} {
			if s.aof.watchStall(now.Add(time.Duration(i) * 1500 * time.Millisecond)); s.aof.delayed != want {
				t.Errorf("after %d looks %d delayed syncs", i+1, s.aof.delayed)
			}
		}
	})
	if !s.said("Asynchronous AOF fsync is taking too long (disk is busy?).") {
		t.Error("the log says nothing")
	}
	release()
}

// TestTruncatedLogIsRefused: without aof-load-truncated, a log whose end is missing is not loaded and not changed. With
// it, only the last file may lack its end.
func TestTruncatedLogIsRefused(t *testing.T) {
	for _, last := range []bool{true, false} {
		s, d := begin(t, EverySecond)
		s.step(1)
		s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
		spoil(t, d, "*2\r\n$3\r\nSET\r\n")
		before, _ := d.Content(firstIncr)
		want := "Unexpected end of file reading the append only file appendonly.aof.1.incr.aof. "
		r := newServer(t, d)
		if r.set.Truncated.Set(false); !last {
			want = "Fatal error: the truncated file is not the last file"
			r.set.Truncated.Set(true)
			m, err := r.aof.folder.read()
			if err != nil {
				t.Fatal(err)
			}
			next := r.aof.folder.nextIncr(m, nil)
			m.incrs, m.incrSeq = append(m.incrs, next), next.seq
			file, err := r.aof.w.openIncr(next.name, true)
			if err != nil || file.Close() != nil || r.aof.folder.write(m) != nil {
				t.Fatal(err)
			}
		}
		if err := r.start(); err != ErrLoad || !r.said(want) {
			t.Errorf("%v: %q", err, r.texts(""))
		}
		if after, _ := d.Content(firstIncr); string(after) != string(before) {
			t.Errorf("the file was changed")
		}
	}
}

// A handed disk counts the requests to start writing bytes back.
type handed struct {
	disk.System
	times *atomic.Int64
}

func (h handed) Open(name string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := h.System.Open(name, flag, mode)
	return handedFile{f, h.times}, err
}

type handedFile struct {
	disk.File
	times *atomic.Int64
}

func (f handedFile) WriteOut(from, n int64, wait bool) error {
	f.times.Add(1)
	return f.File.WriteOut(from, n, wait)
}

// TestIncrementalSync: with aof-rewrite-incremental-fsync a base is flushed to the disk while it is written, otherwise
// at its end.
func TestIncrementalSync(t *testing.T) {
	for _, on := range []bool{true, false} {
		var times atomic.Int64
		s := newServer(t, handed{faulty.New(1), &times})
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		s.set.IncrementalSync.Set(on)
		s.set.Preamble.Set(false)
		for i := range 10 {
			s.do("SET", fmt.Sprint("k", i), strings.Repeat("x", 1<<20))
		}
		s.Do(s.aof.startRewrite)
		s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
		if n := times.Load(); (n > 0) != on || s.aof.rw.failed {
			t.Errorf("on %t: the disk was handed something %d times", on, n)
		}
	}
}

// TestCheckReportsProgress: a check reports its progress to its caller.
func TestCheckReportsProgress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "appendonly.aof")
	if err := os.WriteFile(path, bytes.Repeat(increment, 10_000), 0o644); err != nil {
		t.Fatal(err)
	}
	told, most, total := 0, int64(0), int64(0)
	code := CheckMain([]string{path}, nil, io.Discard, func(done, of int64) {
		if done < most {
			t.Errorf("%d after %d", done, most)
		}
		told, most, total = told+1, done, of
	})
	if want := int64(10_000 * len(increment)); code != 0 || told < 2 || most != want || total != want {
		t.Errorf("code %d: told %d times, %d of %d, want %d", code, told, most, total, want)
	}
}
