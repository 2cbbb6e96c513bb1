package aof

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"spindle/tests/testkit/faulty"
)

// texts returns the log's lines from the first one that contains from, without their heads. It leaves out lines that
// only spindle writes.
func (s *server) texts(from string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.lines, func(line string) bool { return strings.Contains(line, from) })
	for _, line := range s.lines[max(at, 0):] {
		for _, mark := range []string{" * ", " # "} {
			if _, text, found := strings.Cut(line, mark); found {
				list = append(list, strings.ReplaceAll(strings.TrimSuffix(text, "\n"), rewriteName(), "TEMP"))
				break
			}
		}
	}
	return list
}

// expect compares the lines of a log with Redis's.
func (s *server) expect(from string, want ...string) {
	s.t.Helper()
	if got := s.texts(from); !slices.Equal(got, want) {
		s.t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLinesOfARewrite: the log reports the steps of a rewrite in Redis's lines.
func TestLinesOfARewrite(t *testing.T) {
	s, _ := begin(t, EverySecond)
	s.step(1)
	s.Do(s.aof.startRewrite)
	s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
	s.expect("Creating AOF incr file appendonly.aof.2",
		"Creating AOF incr file appendonly.aof.2.incr.aof on background rewrite",
		"Successfully created the temporary AOF base file TEMP",
		"Background AOF rewrite terminated with success",
		"Successfully renamed the temporary AOF base file TEMP into appendonly.aof.2.base.rdb",
		"Removing the history file appendonly.aof.1.base.rdb in the background",
		"Removing the history file appendonly.aof.1.incr.aof in the background",
		"Background AOF rewrite finished successfully")
	s.Do(s.aof.TurnOff)
	s.waitFor("the writer's sleep", s.resting)
	s.Do(func() {
		if err := s.aof.TurnOn(); err != nil {
			t.Error(err)
		}
	})
	s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
	s.expect("Creating AOF incr file temp-",
		"Creating AOF incr file temp-appendonly.aof.incr on background rewrite",
		"Successfully created the temporary AOF base file TEMP",
		"Background AOF rewrite terminated with success",
		"Successfully renamed the temporary AOF base file TEMP into appendonly.aof.3.base.rdb",
		"Successfully renamed the temporary AOF incr file temp-appendonly.aof.incr into appendonly.aof.3.incr.aof",
		"Removing the history file appendonly.aof.2.base.rdb in the background",
		"Removing the history file appendonly.aof.2.incr.aof in the background",
		"Background AOF rewrite finished successfully")
}

// TestLinesOfFaults: the log reports disk failures, in a rewrite or in a write of the manifest, in Redis's lines.
func TestLinesOfFaults(t *testing.T) {
	const full = "No space left on device"
	for _, c := range []struct {
		op         faulty.Op
		name, want string
	}{
		{faulty.Open, "temp-rewriteaof", "Opening the temp file for AOF rewrite in rewriteAppendOnlyFile(): " + full},
		{faulty.Write, "temp-rewriteaof", "Write error writing append only file on disk: " + full},
		{faulty.Sync, "temp-rewriteaof", "Write error writing append only file on disk: " + full},
		{faulty.Rename, ".base.",
			"Error trying to rename the temporary AOF base file TEMP into appendonly.aof.2.base.rdb: " + full},
		{faulty.Open, "temp-appendonly.aof.manifest", "Can't open the AOF manifest file temp-appendonly.aof.manifest: " +
			full},
		{faulty.Write, "temp-appendonly.aof.manifest",
			"Error trying to write the temporary AOF manifest file temp-appendonly.aof.manifest: " + full},
		{faulty.Sync, "temp-appendonly.aof.manifest", "Fail to fsync the temp AOF file temp-appendonly.aof.manifest: " +
			full + "."},
		{faulty.Rename, "appendonly.aof.manifest",
			"Error trying to rename the temporary AOF manifest file temp-appendonly.aof.manifest into appendonly.aof.manifest: " + full},
		{faulty.SyncDir, "appendonlydir", "Fail to fsync AOF directory appendonlydir: " + full + "."},
	} {
		t.Run(string(c.op)+" "+c.name, func(t *testing.T) {
			s, d := begin(t, EverySecond)
			s.step(1)
			defer d.Fail(faulty.Fault{Op: c.op, Name: c.name, Err: syscall.ENOSPC})()
			s.Do(s.aof.startRewrite)
			s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
			if lines := s.texts("Creating AOF incr file appendonly.aof.2"); !slices.Contains(lines, c.want) {
				t.Errorf("the log has\n%s\nbut not\n%s", strings.Join(lines, "\n"), c.want)
			}
			if !s.said("Background AOF rewrite terminated with error") {
				t.Error("the rewrite has not failed")
			}
		})
	}
}

// TestLinesOfAShortWrite: the log says how much of a write has reached the disk, and why the rest has not.
func TestLinesOfAShortWrite(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.waitFor("the writer's sleep", s.resting)
	defer d.Fail(faulty.Fault{Op: faulty.Write, Name: "incr", Err: syscall.ENOSPC, Short: true})()
	s.do("SET", "k", "v")
	s.waitFor("a refusal", func() bool { return s.aof.Refusal() != nil })
	lines := s.texts("Short write")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "Short write while writing to the AOF file: (nwritten=") ||
		!strings.HasSuffix(lines[0], ", expected=50)") ||
		lines[1] != "Error writing to the AOF file: No space left on device" {
		t.Errorf("%q", lines)
	}
}

// TestLinesOfALoad: a load reports a torn end, and a log from before Redis 7, in Redis's lines.
func TestLinesOfALoad(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.step(1)
	s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
	whole, _ := d.Size("appendonlydir/appendonly.aof.1.incr.aof")
	spoil(t, d, "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n9\r\n")
	r := newServer(t, d)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(r.texts("Revert"), func(line string) bool { return strings.HasPrefix(line, "DB loaded") })
	if want := []string{
		"Revert incomplete MULTI/EXEC transaction in AOF file appendonly.aof.1.incr.aof",
		"!!! Warning: short read while loading the AOF file appendonly.aof.1.incr.aof!!!",
		fmt.Sprintf("!!! Truncating the AOF appendonly.aof.1.incr.aof at offset %d !!!", whole),
		"AOF appendonly.aof.1.incr.aof loaded anyway because aof-load-truncated is enabled",
		"Opening AOF incr file appendonly.aof.1.incr.aof on server start",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	base, _ := d.Content("appendonlydir/appendonly.aof.1.base.rdb")
	old := faulty.New(1)
	file, err := old.Open("appendonly.aof", os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		_, err = file.Write(append(base, increment...))
	}
	if err != nil {
		t.Fatal(err)
	}
	r = newServer(t, old)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(r.texts("Reading"), func(line string) bool { return strings.HasPrefix(line, "DB loaded") })
	if want := []string{
		"Reading RDB preamble from AOF file...",
		"Reading the remaining AOF tail...",
		"Successfully migrated an old-style AOF file (appendonly.aof) into the AOF directory (appendonlydir).",
	}; len(lines) < len(want) || !slices.Equal(lines[:len(want)], want) {
		t.Errorf("%q", lines)
	}
	damaged := append([]byte(nil), base...)
	damaged[len(damaged)-1] ^= 0xff
	spoilt := faulty.New(1)
	file, _ = spoilt.Open("appendonly.aof", os.O_WRONLY|os.O_CREATE, 0o644)
	if _, err := file.Write(damaged); err != nil {
		t.Fatal(err)
	}
	r = newServer(t, spoilt)
	if err := r.start(); err == nil ||
		!r.said("Error reading the RDB preamble of the AOF file appendonly.aof, AOF loading aborted") {
		t.Errorf("%v: %q", err, r.texts(""))
	}
	if p, ok := spoilt.Content("appendonly.aof"); !ok || !bytes.Equal(p, damaged) {
		t.Error("a log that cannot be loaded has moved or changed")
	}
}

// TestFolderThatTakesNoFiles: a log cannot be switched on in a read-only folder, and a rewrite there changes nothing.
func TestFolderThatTakesNoFiles(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EROFS, syscall.EACCES} {
		s, d := begin(t, EverySecond)
		s.step(1)
		heal := d.Fail(faulty.Fault{Op: faulty.Open, Name: "incr", Err: errno})
		s.Do(s.aof.startRewrite)
		s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
		if !s.aof.rw.failed || !s.said("Can't open the append-only file appendonly.aof.2.incr.aof: ") {
			t.Error("the rewrite has not failed, or the log does not say why")
		}
		s.step(2)
		s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
		s.Do(s.aof.TurnOff)
		s.waitFor("the writer's sleep", s.resting)
		s.Do(func() {
			if err := s.aof.TurnOn(); !errors.Is(err, errno) || s.aof.On() || s.aof.Rewriting() {
				t.Errorf("%v, on: %t", err, s.aof.On())
			}
		})
		if !s.said("Can't open the append-only file temp-appendonly.aof.incr: ") ||
			!s.said("Redis needs to enable the AOF but can't trigger a background AOF rewrite operation.") {
			t.Error("the log does not say why")
		}
		heal()
		if n := again(t, d); n != 2 {
			t.Errorf("%d steps are there", n)
		}
		s.Do(func() {
			if err := s.aof.TurnOn(); err != nil {
				t.Error(err)
			}
		})
		s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() && s.aof.state == on })
	}
}
