package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"spindle/internal/disk"
)

// A Folder is a store in a folder, on another disk or on a network file system. An object is a file.
type Folder struct {
	root  string
	swept sync.Map // the folders from which sweep has removed files
}

// tempMark begins the names of files that are not complete yet.
const tempMark = ".temp-"

// tempFor is the age past which a file that is not complete was left by a process that died.
const tempFor = 24 * time.Hour

// OpenFolder opens a folder as a store. The folder must exist, because backups must not go to the empty mount point of
// a file system that is not mounted.
func OpenFolder(root string) (*Folder, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	stat, err := os.Stat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist: make the folder, or mount what should be there", root)
	case err != nil:
		return nil, err
	case !stat.IsDir():
		return nil, fmt.Errorf("%s is no folder", root)
	}
	return &Folder{root: root}, nil
}

// String returns the folder's path.
func (f *Folder) String() string { return f.root }

func (f *Folder) path(key string) string { return filepath.Join(f.root, filepath.FromSlash(key)) }

// Put writes a file, syncs it and gives it its name. The kernel computes no checksum of a file, so checked is false.
func (f *Folder) Put(ctx context.Context, key string, body []byte) (checked bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, context.Cause(ctx)
	}
	to := f.path(key)
	dir := filepath.Dir(to)
	if err := f.makeDir(dir); err != nil {
		return false, err
	}
	out, err := os.CreateTemp(dir, tempMark+"*")
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	_, err = out.Write(body)
	if err == nil {
		err = out.Sync()
	}
	if stat, wrong := out.Stat(); wrong == nil {
		f.sweep(dir, stat.ModTime())
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return false, err
	}
	if err := os.Rename(out.Name(), to); err != nil {
		return false, err
	}
	return false, disk.OS.SyncDir(dir)
}

// sweep removes files from dir that a process left when it died. now is the present time by the clock of the folder's
// host, which may be another one. Errors do not matter: the next process tries again.
func (f *Folder) sweep(dir string, now time.Time) {
	if _, done := f.swept.LoadOrStore(dir, true); done {
		return
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempMark) || !e.Type().IsRegular() {
			continue
		}
		if stat, err := e.Info(); err == nil && now.Sub(stat.ModTime()) > tempFor {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// makeDir makes a folder below the root, with its missing parents.
func (f *Folder) makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil || dir == f.root {
		return err
	}
	if err := f.makeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.OS.SyncDir(filepath.Dir(dir))
}

// Get reads a file.
func (f *Folder) Get(ctx context.Context, key string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	stat, err := os.Stat(f.path(key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", f.path(key), ErrMissing)
	case err != nil:
		return nil, err
	case stat.Size() > mostBytes:
		return nil, tooLarge(f.path(key))
	}
	return os.ReadFile(f.path(key))
}

// List walks the folder of the prefix.
func (f *Folder) List(ctx context.Context, prefix string, see func(Object)) error {
	if _, err := os.Stat(f.root); err != nil {
		return err
	}
	return filepath.WalkDir(f.path(prefix), func(file string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case d.IsDir() || strings.HasPrefix(d.Name(), tempMark):
			return nil
		}
		stat, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process has removed it
		}
		if err != nil {
			return err
		}
		key := path.Clean(filepath.ToSlash(strings.TrimPrefix(file, f.root)))
		see(Object{Key: strings.TrimPrefix(key, "/"), Size: stat.Size(), Modified: stat.ModTime()})
		return nil
	})
}

// Delete removes a file.
func (f *Folder) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	err := os.Remove(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return disk.OS.SyncDir(filepath.Dir(f.path(key)))
}
