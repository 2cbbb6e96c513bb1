package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestOS tests each operation on the real system.
func TestOS(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(OS.Mkdir(path("d"), 0o755), OS.Mkdir(path("d"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := WriteWhole(OS, path("d/a"), path("d/temp"), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := OS.Mkdir(path("d/a"), 0o755); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder where a file is: %v", err)
	}
	f, err := OS.Open(path("d/a"), os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(" world")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(7), f.WriteOut(0, 7, false), f.WriteOut(0, 7, true), f.Sync()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	f.Forget()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := OS.Rename(path("d/a"), path("d/b")); err != nil {
		t.Fatal(err)
	}
	if size, err := OS.Size(path("d/b")); size != 8 || err != nil {
		t.Errorf("Size: %d, %v", size, err)
	}
	if b, _ := os.ReadFile(path("d/b")); string(b) != "hello w!" {
		t.Errorf("%q", b)
	}
	if names, err := OS.ReadDir(path("d")); !slices.Equal(names, []string{"b"}) || err != nil {
		t.Errorf("ReadDir: %q, %v", names, err)
	}
	if Exists(OS, path("d/a")) || !Exists(OS, path("d/b")) {
		t.Error("Exists")
	}
	if err := errors.Join(OS.Remove(path("d/b")), OS.SyncDir(path("d"))); err != nil {
		t.Error(err)
	}
}
