// Package disk gives access to the data files: the append-only file, its manifest and RDB files.
//
// Owner: its caller. A [File] has one user at a time, a [System] any number.
// Never: retries, buffers, or hides an error.
// Start here: OS is the real system. Package faulty is a simulated one that loses data, fails and stalls by seed.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// A System is a file system.
//
// Errors are the operating system's, as *fs.PathError, *os.LinkError or syscall.Errno.
type System interface {
	// Open is os.OpenFile.
	Open(name string, flag int, mode fs.FileMode) (File, error)
	Rename(from, to string) error
	// Link gives a file a second name (a hard link), in the same file system.
	Link(from, to string) error
	Remove(name string) error
	// Mkdir makes a folder. An existing folder is not an error.
	Mkdir(name string, mode fs.FileMode) error
	// Size returns the file's length.
	Size(name string) (int64, error)
	// Shared reports whether a file has several names. Its content then belongs to all of them.
	Shared(name string) (bool, error)
	// ReadDir returns the names in a folder, in order.
	ReadDir(name string) ([]string, error)
	// SyncDir makes the names in a folder survive a power cut.
	SyncDir(name string) error
	// Lock creates an empty file if needed, and locks it for this process until release is called or the process ends.
	// The file stays.
	// Errors: ErrLocked, if the file is locked already.
	Lock(name string) (release func(), err error)
}

// ErrLocked is the error for a lock that this or another process holds.
var ErrLocked = errors.New("the lock is held")

// A File is one open file.
type File interface {
	io.Reader
	io.Writer
	io.Closer
	// Truncate cuts the file to size. Files opened to append continue at the new end.
	Truncate(size int64) error
	// Sync makes the written data survive a power cut. After an error no earlier write is reliable.
	Sync() error
	// WriteOut starts to write n bytes, from offset from, to the disk. With wait it also waits for them. It guarantees
	// nothing.
	WriteOut(from, n int64, wait bool) error
	// Forget promises that the written data will not be read soon.
	Forget()
}

// OS is the operating system's files.
var OS System = system{}

type system struct{}

type file struct{ *os.File }

func (system) Open(name string, flag int, mode fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (system) Rename(from, to string) error { return os.Rename(from, to) }
func (system) Link(from, to string) error   { return os.Link(from, to) }
func (system) Remove(name string) error     { return os.Remove(name) }

func (system) Mkdir(name string, mode fs.FileMode) error {
	err := os.Mkdir(name, mode)
	if errors.Is(err, fs.ErrExist) {
		if stat, failed := os.Stat(name); failed == nil && stat.IsDir() {
			return nil
		}
	}
	return err
}

func (system) Size(name string) (int64, error) {
	stat, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return stat.Size(), nil
}

func (system) Shared(name string) (bool, error) {
	var stat unix.Stat_t
	err := unix.Stat(name, &stat)
	return stat.Nlink > 1, err
}

func (system) ReadDir(name string) (names []string, err error) {
	entries, err := os.ReadDir(name)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (system) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // the file system does not support it
	}
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}

// Lock also succeeds on file systems without locks. There it protects nothing.
func (system) Lock(name string) (release func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		_ = f.Close()
		return nil, ErrLocked
	}
	return func() { _ = f.Close() }, nil
}

// Sync does not sync timestamps.
func (f file) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			if err != nil {
				err = &fs.PathError{Op: "sync", Path: f.Name(), Err: err}
			}
			return err
		}
	}
}

func (f file) WriteOut(from, n int64, wait bool) error {
	how := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		how |= unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	}
	err := unix.SyncFileRange(int(f.Fd()), from, n, how)
	if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ESPIPE) {
		return f.Sync() // a file system without ranges
	}
	return err
}

func (f file) Forget() { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// Exists reports whether name exists. A file that cannot be examined counts as existing.
func Exists(s System, name string) bool {
	_, err := s.Size(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// WriteWhole replaces the small file name. At every instant name is the old file or the new one, complete.
//
// temp is a name in the same folder.
// Errors: a *StepError. After an error temp is gone and name is unchanged, unless only the sync of the folder failed.
func WriteWhole(s System, name, temp string, content []byte) error {
	return writeWhole(s, name, temp, content, 0o644, File.Sync)
}

// WriteLike is WriteWhole for a file that an operator also edits. The new file gets the old one's mode, and its owner
// and group if the system allows.
func WriteLike(name, temp string, content []byte) error {
	old, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return WriteWhole(OS, name, temp, content)
	}
	if err != nil {
		return &StepError{StepOpen, err}
	}
	return writeWhole(OS, name, temp, content, 0o600, func(f File) error {
		if owner, ok := old.Sys().(*syscall.Stat_t); ok {
			if f.(file).Chown(int(owner.Uid), int(owner.Gid)) != nil {
				_ = f.(file).Chown(-1, int(owner.Gid)) // giving a file away requires root
			}
		}
		if err := f.(file).Chmod(old.Mode().Perm()); err != nil {
			return err
		}
		return f.Sync()
	})
}

func writeWhole(s System, name, temp string, content []byte, mode fs.FileMode, finish func(File) error) error {
	f, err := s.Open(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return &StepError{StepOpen, err}
	}
	step := StepWrite
	_, err = f.Write(content)
	if err == nil {
		step, err = StepSync, finish(f)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		step, err = StepRename, s.Rename(temp, name)
	}
	if err != nil {
		_ = s.Remove(temp)
		return &StepError{step, err}
	}
	if err := s.SyncDir(filepath.Dir(name)); err != nil {
		return &StepError{StepSyncDir, err}
	}
	return nil
}

// A Step is one of the steps of replacing a file.
type Step string

const (
	StepOpen    Step = "open"
	StepWrite   Step = "write"
	StepSync    Step = "sync"
	StepRename  Step = "rename"
	StepSyncDir Step = "sync of the folder"
)

// A StepError is the error of a step. Error returns the text of the underlying error.
type StepError struct {
	Step Step
	Err  error
}

func (e *StepError) Error() string { return e.Err.Error() }
func (e *StepError) Unwrap() error { return e.Err }
