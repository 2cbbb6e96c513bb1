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
	Path        string // of the file; its temporary stands beside it
	Temp        string // the temporary's name; "" is temp-<pid>.rdb, or one like it that is free
	Sync        bool   // give the disk what was written as it comes (rdb-save-incremental-fsync), not all at the end
	Compression FileCompression
	Disk        disk.System // nil: the operating system's
	Log         *logging.Logger
	// Told hears of each step's end, in place of the log; nil: the log gets the lines of an RDB file. Steps are
	// disk.StepOpen, StepWrite, which includes the sync, StepRename and StepSyncDir. What was called off tells nothing.
	Told func(step disk.Step, err error)
}

// done says that a step has succeeded.
func (f FileOptions) done(step disk.Step) {
	if f.Told != nil {
		f.Told(step, nil)
	}
}

// A purpose is what a temporary file is for, as a format for its name without the end. Each purpose has a name of its
// own: a save and a copy of the primary's that run at the same time must never write into one file.
type purpose string

const (
	forSave purpose = "temp-%d"      // a save of this process
	forCopy purpose = "temp-sync-%d" // a full copy that comes from the primary
)

// temporaries are the absolute names of the files that are being written.
var temporaries = struct {
	sync.Mutex
	names map[string]bool
}{names: map[string]bool{}}

// claimTemp finds an absolute name in the folder of path that nothing else uses until giveUpTemp. If a save that was
// called off has not removed its file yet, the next one is "temp-<pid>-1.rdb". It is absolute so
// that CONFIG SET dir moves no file that is being written, and that two names are equal if they are one file.
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

// absolute is path as it is meant now; path itself if the working folder is unknown.
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

// RemoveTemporaries takes away unfinished files when the process ends without waiting.
func RemoveTemporaries() {
	temporaries.Lock()
	defer temporaries.Unlock()
	for name := range temporaries.names {
		_ = os.Remove(name)
	}
}

// replacing is held from the last look at whether a save was called off until its file is in place: a save that begins
// after another was called off is never overwritten by that one.
var replacing sync.Mutex

// SaveFile writes v to a temporary file, gives it to the disk, and puts it in the place of Path: at every instant Path
// is a whole file, the old one or the new.
//
// Errors are logged as the reference server words them, and the temporary is removed; ctx's cause is returned without a
// line.
func SaveFile(ctx context.Context, v View, f FileOptions, o Options) (size int64, err error) {
	if f.Compression != CompressNone {
		o.Compress = false
	}
	return WriteFile(ctx, f, func(w io.Writer) error {
		_, err := WriteTo(ctx, w, v, o)
		return err
	})
}

// WriteFile is SaveFile of what fill writes.
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

// fails says that a step has failed. part is what of a write has.
func (f FileOptions) fails(step disk.Step, part string, err error) {
	switch why := reason.Of(err); {
	case f.Told != nil:
		f.Told(step, err)
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

// putInPlace renames the temporary, unless the save has been called off.
func putInPlace(ctx context.Context, f FileOptions) error {
	replacing.Lock()
	defer replacing.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f.Disk.Rename(f.Temp, f.Path)
}

// writeFile fills file and closes it. step names what failed.
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
	// What was written is not going to be read soon: the page cache has better use for the room.
	file.Forget()
	return disk.at, "fclose", file.Close()
}

// syncEvery is how much is written between two hand-overs to the disk; twice as much may be under way.
const syncEvery = 4 << 20

// A diskWriter writes a file and, with sync, has the kernel write it out behind us: otherwise the fsync at the end
// finds gigabytes.
type diskWriter struct {
	file disk.File
	sync bool
	at   int64 // written so far
	sent int64 // handed to the disk so far
}

func (d *diskWriter) Write(p []byte) (int, error) {
	n, err := d.file.Write(p)
	d.at += int64(n)
	if err == nil && d.sync && d.at-d.sent >= syncEvery {
		err = d.hand()
	}
	return n, err
}

// hand starts the writing of what came since the last time, and waits for what was handed over then.
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

// A CopyFile is a full copy of another server's data that is on this disk, but not yet in the place of this server's
// own file. That file stays until the copy has been loaded: a copy that cannot be loaded costs nothing.
type CopyFile struct {
	Name string // of the temporary file
	Size int64

	path   string   // of the server's own file
	old    *os.File // that file, kept open so that Place has no blocks to free; nil: there is none
	placed bool
}

// ReceiveFile has fill write a copy into a temporary file beside path, and gives it to the disk. After an error no
// temporary file is left.
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

// Place puts the copy in the place of the server's own file. It only renames, so that a turn may call it.
func (c *CopyFile) Place() error {
	replacing.Lock()
	defer replacing.Unlock()
	err := disk.OS.Rename(c.Name, c.path)
	c.placed = err == nil
	return err
}

// Close gives the disk the folder after Place, and removes a copy that was not placed. Not for a turn.
func (c *CopyFile) Close() (err error) {
	if c.placed {
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
