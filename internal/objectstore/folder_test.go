package objectstore

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFolderIsSwept: a process that died has left a file that is not complete. The next process removes it when it puts
// an object into the same folder, a day later. A younger file may be of a process that runs.
func TestFolderIsSwept(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "parts [1]")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{tempMark + "old": 25 * time.Hour, tempMark + "young": time.Hour,
		"object": 1000 * time.Hour} {
		at := time.Now().Add(-age)
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenFolder(root)
	if err == nil {
		_, err = f.Put(t.Context(), "parts [1]/new", []byte("x"))
	}
	if err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(root, "*", "*"))
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	if len(names) != 3 || names[0] != tempMark+"young" {
		t.Errorf("the folder has %v", names)
	}
}
