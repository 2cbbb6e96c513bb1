package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/reason"
	"spindle/internal/setting"
)

// errNoFile is the reply of CONFIG REWRITE if the server was started without a file.
var errNoFile = errors.New("The server is running without a config file")

// A Rewriter writes the settings back to the file they came from.
type Rewriter struct {
	Registry *setting.Registry
	File     string // absolute; empty without one
	Umask    int
	Log      *logging.Logger
}

// Rewrite replaces the file by one with the present values. At any instant there is the old file or the whole new one.
// all also writes settings that have their default.
func (w *Rewriter) Rewrite(all bool) error {
	if w.File == "" {
		return errNoFile
	}
	if err := w.Write(all); err != nil {
		return w.failed(err)
	}
	w.Log.Notice("CONFIG REWRITE executed with success.")
	return nil
}

// Write is Rewrite without a line in the log.
func (w *Rewriter) Write(all bool) error {
	old, err := os.ReadFile(w.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.replace([]byte(w.Registry.Rewrite(string(old), all)))
}

// failed logs err and returns the text of the reply.
func (w *Rewriter) failed(err error) error {
	text := reason.Of(err)
	w.Log.Warning("CONFIG REWRITE failed: %s", text)
	return errors.New("Rewriting config file: " + text)
}

// replace writes a new file with the old file's mode and owner, syncs it, and renames it over the old file. A link is
// replaced by the file, as in Redis.
func (w *Rewriter) replace(text []byte) (err error) {
	dir := filepath.Dir(w.File)
	temp, err := os.CreateTemp(dir, filepath.Base(w.File)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		_ = temp.Close()
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	if _, err = temp.Write(text); err != nil {
		return err
	}
	there, err := disk.Liken(temp, w.File)
	if err == nil && !there {
		err = temp.Chmod(fs.FileMode(0o644 &^ w.Umask))
	}
	if err != nil {
		return err
	}
	if err = temp.Sync(); err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), w.File); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename survive a loss of power. An error of a file system that cannot sync a folder is ignored.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EBADF) {
		return err
	}
	return nil
}
