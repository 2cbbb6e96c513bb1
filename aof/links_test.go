package aof

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spindle/tests/testkit/faulty"
)

// TestCheckCutsItsOwnFile: check-aof cuts a file that has another name in a server's log, as those of a backup have.
// The server's file stays as it was.
func TestCheckCutsItsOwnFile(t *testing.T) {
	d := faulty.New(1)
	logOf(t, d, "#TS:100", "SET key first", "#TS:200", "SET key second")
	const file = "appendonlydir/appendonly.aof.1.incr.aof"
	if err := d.Link(file, "other"); err != nil {
		t.Fatal(err)
	}
	if err := (&Check{Disk: d, Until: 150, Out: io.Discard}).Run("appendonlydir/appendonly.aof.manifest"); err != nil {
		t.Fatal(err)
	}
	text, _ := d.Content(file)
	if other, _ := d.Content("other"); strings.Contains(string(text), "second") || !strings.Contains(string(other),
		"second") {
		t.Errorf("the log is %q, the other file %q", text, other)
	}
}

// TestLeftoverOfABackup: a new increment has the name of a file that was left, and that a backup has too. The backup's
// file stays as it was.
func TestLeftoverOfABackup(t *testing.T) {
	d := faulty.New(1)
	s := newServer(t, d)
	s.set.Percentage.Set(0)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	f := s.aof.folder
	next := f.nextIncr(s.aof.w.manifest, nil).name
	file, err := d.Open(f.path(next), os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		_, err = file.Write([]byte("old"))
	}
	if err == nil {
		err = d.Link(f.path(next), "other")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Do(s.aof.startRewrite)
	s.waitFor("the end of a rewrite", func() bool { return !s.aof.Rewriting() })
	s.do("SET", "key", "v")
	s.waitFor("the writer", s.resting)
	if other, _ := d.Content("other"); string(other) != "old" {
		t.Errorf("the backup's file is %q", other)
	}
	if text, _ := d.Content(f.path(next)); strings.Contains(string(text), "old") {
		t.Errorf("the new increment is %q", text)
	}
	s.close()
}

// TestBackupAfterACrash: a server dies while it makes a backup. Its next backup replaces the files that are left. A
// sealed backup stays, and so do files that are not of a backup.
func TestBackupAfterACrash(t *testing.T) {
	d := faulty.New(1)
	dir, err := filepath.Abs("backupdir")
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *server {
		s := newServer(t, d)
		s.set.Percentage.Set(0)
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	back := func(s *server) (err error) {
		s.Do(func() { err = s.aof.startBackup(false) })
		if err == nil {
			s.waitFor("the base", func() bool { return len(s.aof.backup.files) > 0 })
		}
		return err
	}
	s := begin()
	if err := back(s); err != nil {
		t.Fatal(err)
	}
	d = d.Crash()
	s.close()
	if names, _ := d.ReadDir(dir); len(names) != 1 {
		t.Fatalf("%v are left", names)
	}
	s = begin()
	s.Do(func() { s.aof.startRewrite() }) // so that the next base has another name
	s.waitFor("the end of a rewrite", func() bool { return !s.aof.Rewriting() })
	if err := back(s); err != nil {
		t.Fatal(err)
	}
	s.Do(func() {
		if _, err := s.aof.sealBackup(); err != nil {
			t.Error(err)
		}
	})
	s.waitFor("SEAL", func() bool { return s.aof.backup.state == backupSealed })
	if names, _ := d.ReadDir(dir); len(names) != 3 {
		t.Errorf("the backup has %v", names)
	}
	d = d.Crash()
	s.close()
	s = begin()
	if err := back(s); err != errBackupNotEmpty {
		t.Errorf("START beside a sealed backup: %v", err)
	}
	s.close()
}
