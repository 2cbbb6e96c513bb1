package bgsave

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
	"spindle/tests/testkit/faulty"
)

// TestFlushedDuringASave: a cancelled save and the next one have different files. Only the second file is renamed to
// the final name.
func TestFlushedDuringASave(t *testing.T) {
	d := newTestScheduler(t)
	d.parts.Freeze = func() View { // a new view each time
		v := newFakeView(t)
		for i := range 100 {
			v.put(0, strings.Repeat("k", i+1), "v", 0)
		}
		return v
	}
	path := d.settings.FileName.Get()
	var waits []func(time.Duration)
	for range 5 {
		d.settings.SaveDelay.Set(1000)
		d.in(func() {
			if _, err := d.Background(false, false); err != nil {
				t.Fatal(err)
			}
		})
		temp := filepath.Join(filepath.Dir(path), tempName())
		testkit.Until(t, 10*time.Second, "a temporary file", func() error { _, err := os.Stat(temp); return err })
		d.settings.SaveDelay.Set(0)
		d.in(func() {
			waits = append(waits, d.AbortAndWait("a test"))
			if err := d.Now(); err != nil {
				t.Error(err)
			}
		})
		got := newFakeInserter()
		if _, err := Load(t.Context(), path, got, LoadOptions{}); err != nil || len(got.keys) != 100 {
			t.Fatal(err, len(got.keys))
		}
	}
	for _, wait := range waits {
		wait(10 * time.Second)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "temp-*")); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// TestCancelledSaveIsDiscarded: a cancelled save's file is not renamed, even if it is complete.
func TestCancelledSaveIsDiscarded(t *testing.T) {
	dir := t.TempDir()
	f := FileOptions{Path: filepath.Join(dir, "dump.rdb"), Temp: filepath.Join(dir, "temp")}
	os.WriteFile(f.Path, []byte("old"), 0o600)
	os.WriteFile(f.Temp, []byte("new"), 0o600)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrAborted)
	if err := putInPlace(ctx, f); err != ErrAborted {
		t.Errorf("%v", err)
	}
	if p, _ := os.ReadFile(f.Path); string(p) != "old" {
		t.Errorf("%q", p)
	}
}

// TestPowerCutDuringSave: whenever the power fails, the file is complete: the old one or the new one.
func TestPowerCutDuringSave(t *testing.T) {
	sheet := func(n int) View {
		v := newFakeView(t)
		for i := range n {
			v.put(0, strings.Repeat("k", i+1), "v", 0)
		}
		return v
	}
	seen := map[int64]int{}
	for seed := range uint64(200) {
		d := faulty.New(seed)
		f := FileOptions{Path: "dump.rdb", Temp: "temp.rdb", Disk: d}
		if _, err := SaveFile(t.Context(), sheet(20), f, Options{Checksum: true}); err != nil {
			t.Fatal(err)
		}
		d.CrashAfter(int(seed % 16))
		_, failed := SaveFile(t.Context(), sheet(40), f, Options{Checksum: true})
		left, there := d.Crash().Content(f.Path)
		found, err := Read(t.Context(), bytes.NewReader(left), newFakeInserter(), LoadOptions{})
		if !there || err != nil || found.Keys != 20 && found.Keys != 40 || failed == nil && found.Keys != 40 {
			t.Fatalf("seed %d: there %v, %d keys, %v; the save said %v", seed, there, found.Keys, err, failed)
		}
		seen[found.Keys]++
	}
	if seen[20] < 20 || seen[40] < 20 {
		t.Errorf("%v", seen)
	}
}

func TestRemoveTemporaries(t *testing.T) {
	dir := t.TempDir()
	first, second := claimTemp(filepath.Join(dir, "a"), forSave), claimTemp(filepath.Join(dir, "b"), forSave)
	defer giveUpTemp(first)
	defer giveUpTemp(second)
	if first == second || filepath.Base(first) != tempName() || filepath.Dir(second) != dir {
		t.Fatalf("%s, %s", first, second)
	}
	for _, name := range []string{first, second} {
		os.WriteFile(name, nil, 0o600)
	}
	RemoveTemporaries()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// TestCopyDuringASave: a copy that is being received and a concurrent save have different files, even if one path is
// relative. The copy becomes the server's file only when it is renamed.
func TestCopyDuringASave(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) {
		t.Helper()
		if got, _ := os.ReadFile("dump.rdb"); string(got) != want {
			t.Fatalf("dump.rdb holds %.40q, want %q", got, want)
		}
	}
	var c *CopyFile
	_, err := WriteFile(t.Context(), FileOptions{Path: filepath.Join(dir, "dump.rdb")}, func(w io.Writer) (err error) {
		_, err = w.Write([]byte("the save"))
		must(err)
		c, err = ReceiveFile("dump.rdb", func(w io.Writer) error {
			_, err := w.Write([]byte("the copy"))
			return err
		})
		return err
	})
	must(err)
	is("the save")
	if c.Size != int64(len("the copy")) || !filepath.IsAbs(c.Name) {
		t.Errorf("%d bytes in %s", c.Size, c.Name)
	}
	must(c.Rename())
	must(c.Close())
	is("the copy")
	unplaced, err := ReceiveFile("dump.rdb", func(io.Writer) error { return nil })
	must(err)
	must(unplaced.Close())
	if _, err := ReceiveFile("dump.rdb", func(io.Writer) error { return io.ErrUnexpectedEOF }); err == nil {
		t.Error("a copy that was cut off is no error")
	}
	is("the copy")
	if left, _ := filepath.Glob("temp-*"); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// tempName returns the first temporary file name of this process's saves.
func tempName() string { return fmt.Sprintf("temp-%d.rdb", os.Getpid()) }
