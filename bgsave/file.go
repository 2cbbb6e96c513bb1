package bgsave

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/reason"
)

// FileOptions say where and how a file is written.
type FileOptions struct {
	Path        string // the file; its temporary is in the same folder
	Temp        string // the temporary's name; "": temp-<pid>.rdb, or a similar free name
	Sync        bool   // start writing to the disk during the save (rdb-save-incremental-fsync), not only at the end
	Compression FileCompression
	Disk        disk.System // nil: the operating system's
	Log         *logging.Logger
	// StepDone, if not nil, gets the result of each step. If it is nil, the log gets the lines of an RDB save. The
	// steps are disk.StepOpen, StepWrite (with the sync), StepRename and StepSyncDir. A cancelled save does not call
	// StepDone.
	StepDone func(step disk.Step, err error)
}

// done reports a step that succeeded.
func (f FileOptions) done(step disk.Step) {
	if f.StepDone != nil {
		f.StepDone(step, nil)
	}
}

// A purpose is the format of a temporary file's name, without its extension. Each purpose has another format, so that a
// save and a full copy from the primary never write the same file.
type purpose string

const (
	forSave purpose = "temp-%d"      // a save by this process
	forCopy purpose = "temp-sync-%d" // a full copy from the primary
)

// temporaries has the absolute names of the files that are being written.
var temporaries = struct {
	sync.Mutex
	names map[string]bool
}{names: map[string]bool{}}

// claimTemp returns an unused absolute name in the folder of path. The name stays reserved until giveUpTemp. While a
// cancelled save still has its file, the next one is "temp-<pid>-1.rdb". The name is absolute, so that CONFIG SET dir
// does not move a file while it is written. It also makes names comparable.
func claimTemp(path string, what purpose) string {
	stem := filepath.Join(absolute(filepath.Dir(path)), fmt.Sprintf(string(what), os.Getpid()))
	temporaries.Lock()
	defer temporaries.Unlock()
	name := stem + ".rdb"
	for n := 1; temporaries.names[name]; n++ {
		name = fmt.Sprintf("%s-%d.rdb", stem, n)
	}
	temporaries.names[name] = true
	return name
}

// absolute returns path as an absolute path. If the working directory is unknown, it returns path itself.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func giveUpTemp(name string) {
	temporaries.Lock()
	delete(temporaries.names, name)
	temporaries.Unlock()
}

// RemoveTemporaries deletes unfinished files when the process exits without waiting for saves.
func RemoveTemporaries() {
	temporaries.Lock()
	defer temporaries.Unlock()
	for name := range temporaries.names {
		_ = os.Remove(name)
	}
}

// replacing is held from the last check for cancellation until the file is renamed. Thus a cancelled save never
// overwrites the file of a later save.
var replacing sync.Mutex

// SaveFile writes v to a temporary file, syncs it and renames it to Path. At every instant Path is a complete file, the
// old one or the new one.
//
// Errors are logged in Redis's words, and the temporary file is removed. If ctx was cancelled, its cause is returned
// without a log line.
func SaveFile(ctx context.Context, v View, f FileOptions, o Options) (size int64, err error) {
	if f.Compression != CompressNone {
		o.Compress = false
	}
	return WriteFile(ctx, f, func(w io.Writer) error {
		_, err := WriteTo(ctx, w, v, o)
		return err
	})
}

// WriteFile does the same as SaveFile for the bytes that fill writes.
func WriteFile(ctx context.Context, f FileOptions, fill func(w io.Writer) error) (size int64, err error) {
	if f.Temp == "" {
		f.Temp = claimTemp(f.Path, forSave)
		defer giveUpTemp(f.Temp)
	}
	if f.Disk == nil {
		f.Disk = disk.OS
	}
	file, err := f.Disk.Open(f.Temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		f.fails(disk.StepOpen, "", err)
		return 0, err
	}
	size, step, err := writeFile(file, f, fill)
	if err != nil {
		_ = file.Close()
		_ = f.Disk.Remove(f.Temp)
		if ctx.Err() == nil {
			f.fails(disk.StepWrite, step, err)
		}
		return 0, err
	}
	f.done(disk.StepWrite)
	if err := putInPlace(ctx, f); err != nil {
		if ctx.Err() != nil {
			_ = f.Disk.Remove(f.Temp)
			return 0, context.Cause(ctx)
		}
		f.fails(disk.StepRename, "", err)
		_ = f.Disk.Remove(f.Temp)
		return 0, err
	}
	f.done(disk.StepRename)
	if err := f.Disk.SyncDir(filepath.Dir(f.Path)); err != nil {
		f.fails(disk.StepSyncDir, "", err)
		return 0, err
	}
	return size, nil
}

// fails reports a step that failed. part names the part of a write that failed.
func (f FileOptions) fails(step disk.Step, part string, err error) {
	switch why := reason.Of(err); {
	case f.StepDone != nil:
		f.StepDone(step, err)
	case step == disk.StepOpen:
		f.Log.Warning("Failed opening the temp RDB file %s (in server root dir %s) for saving: %s", f.Temp, workingDir(), why)
	case step == disk.StepWrite:
		f.Log.Warning("Write error while saving DB to the disk(%s): %s", part, why)
	case step == disk.StepRename:
		f.Log.Warning("Error moving temp DB file %s on the final destination %s (in server root dir %s): %s",
			f.Temp, f.Path, workingDir(), why)
	default:
		f.Log.Warning("Failed to fsync directory while saving DB: %s", why)
	}
}

// putInPlace renames the temporary, unless the save was cancelled.
func putInPlace(ctx context.Context, f FileOptions) error {
	replacing.Lock()
	defer replacing.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f.Disk.Rename(f.Temp, f.Path)
}

// writeFile fills file and closes it. On an error, step names the part that failed.
func writeFile(file disk.File, f FileOptions, fill func(w io.Writer) error) (size int64, step string, err error) {
	disk := &diskWriter{file: file, sync: f.Sync}
	w, err := wrapWriter(disk, f.Compression)
	if err != nil {
		return 0, "rdbSaveRio", err
	}
	err = fill(w)
	if closed := w.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return 0, "rdbSaveRio", err
	}
	if err := file.Sync(); err != nil {
		return 0, "fsync", err
	}
	// The file will not be read soon, so the kernel may drop its pages from the page cache.
	file.Forget()
	return disk.at, "fclose", file.Close()
}

// syncEvery is how many bytes are written between two calls of hand. Up to twice as many may be in flight.
const syncEvery = 4 << 20

// A diskWriter writes a file. With sync it makes the kernel write pages to disk during the save. Otherwise the final
// fsync would have to write gigabytes.
type diskWriter struct {
	file disk.File
	sync bool
	at   int64 // bytes written
	sent int64 // bytes handed to the disk
}

func (d *diskWriter) Write(p []byte) (int, error) {
	n, err := d.file.Write(p)
	d.at += int64(n)
	if err == nil && d.sync && d.at-d.sent >= syncEvery {
		err = d.hand()
	}
	return n, err
}

// hand starts to write the bytes since the last call to disk, and waits for the bytes of the call before that.
func (d *diskWriter) hand() error {
	from := d.sent
	d.sent = d.at
	err := d.file.WriteOut(from, d.at-from, false)
	if before := from - syncEvery; err == nil && before >= 0 {
		err = d.file.WriteOut(before, syncEvery, true)
	}
	return err
}

func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "unknown"
	}
	return dir
}

// A CopyFile is a full copy of another server's data in a temporary file on this disk. The server's own file stays
// until the copy is loaded. So a copy that cannot be loaded does no harm.
type CopyFile struct {
	Name string // the temporary file
	Size int64

	path    string   // the server's own file
	old     *os.File // the server's own file, kept open so that Rename frees no blocks; nil: there is none
	renamed bool
}

// ReceiveFile calls fill to write a copy into a temporary file in the folder of path, and syncs it. After an error it
// leaves no temporary file.
func ReceiveFile(path string, fill func(io.Writer) error) (*CopyFile, error) {
	c := &CopyFile{path: absolute(path)}
	c.Name = claimTemp(c.path, forCopy)
	file, err := disk.OS.Open(c.Name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		giveUpTemp(c.Name)
		return nil, err
	}
	err = fill(file)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		c.Size, err = disk.OS.Size(c.Name)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	if old, err := os.Open(c.path); err == nil {
		c.old = old
	}
	return c, nil
}

// Rename renames the copy to the server's own file. It only renames, so a turn may call it.
func (c *CopyFile) Rename() error {
	replacing.Lock()
	defer replacing.Unlock()
	err := disk.OS.Rename(c.Name, c.path)
	c.renamed = err == nil
	return err
}

// Close syncs the folder after Rename, or removes a copy that was not renamed. It is too slow for a turn.
func (c *CopyFile) Close() (err error) {
	if c.renamed {
		err = disk.OS.SyncDir(filepath.Dir(c.path))
	} else {
		_ = disk.OS.Remove(c.Name)
	}
	giveUpTemp(c.Name)
	if c.old != nil {
		_ = c.old.Close()
	}
	return err
}
