package segments

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"spindle/internal/disk"
)

// A Folder is the directory of one server's logs. Any goroutine may use it.
type Folder struct {
	dir   string
	files disk.System

	mu   sync.Mutex
	lock func() // keeps the lock's file open; nil: the folder is not locked
}

// The names in a folder. A segment is backlog.NONCE.BEGIN.segment.
const (
	prefix   = "backlog."
	suffix   = ".segment"
	noteName = "backlog.note"
	tempName = "backlog.note.temp"
	lockName = "backlog.lock"
)

// NewFolder returns the folder dir.
func NewFolder(dir string, files disk.System) *Folder { return &Folder{dir: dir, files: files} }

// random returns the nonce of a new log.
func random() uint64 {
	var p [8]byte
	rand.Read(p[:])
	return binary.LittleEndian.Uint64(p[:])
}

func nameOf(nonce uint64, begin int64) string {
	return fmt.Sprintf("%s%016x.%020d%s", prefix, nonce, begin, suffix)
}

// parseName returns the nonce in a segment's name. ok is false for any other name.
func parseName(name string) (nonce uint64, ok bool) {
	var begin int64
	if n, _ := fmt.Sscanf(name, prefix+"%16x.%20d"+suffix, &nonce, &begin); n < 2 || begin < 0 {
		return 0, false
	}
	return nonce, name == nameOf(nonce, begin)
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// claim locks the folder for this process, until it ends.
func (f *Folder) claim() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock != nil {
		return nil
	}
	release, err := f.files.Lock(f.path(lockName))
	if errors.Is(err, disk.ErrLocked) {
		return ErrShared
	}
	if err == nil {
		f.lock = release // never called: the collector would close the file of a lock that nothing refers to
	}
	return err
}

func (f *Folder) create(nonce uint64, begin int64) (disk.File, error) {
	return f.files.Open(f.path(nameOf(nonce, begin)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (f *Folder) open(nonce uint64, begin int64) (disk.File, error) {
	return f.files.Open(f.path(nameOf(nonce, begin)), os.O_RDONLY, 0)
}

func (f *Folder) remove(nonce uint64, begin int64) error { return f.removeName(nameOf(nonce, begin)) }

func (f *Folder) removeName(name string) error {
	err := f.files.Remove(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// removeAll removes the segments of a log. Files that the disk does not remove stay.
func (f *Folder) removeAll(nonce uint64) {
	names, _ := f.files.ReadDir(f.dir)
	for _, name := range names {
		if of, ok := parseName(name); ok && of == nonce {
			_ = f.removeName(name) // the next start tries again
		}
	}
}

// A Note is written at an orderly end, for the next process.
type Note struct {
	ID       string // of the history
	Replicas []Replica

	Nonce    uint64 // of the log; Seal sets these
	Segments []segment
}

// A Replica is one that may come back, and then needs the stream after offset At.
type Replica struct {
	Host string
	Port int
	At   int64
}

// A note is one line with a version and the checksum of the rest, then JSON.
const noteVersion = "spindle-backlog 1 "

func (f *Folder) writeNote(n Note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	whole := fmt.Appendf(nil, "%s%016x\n%s\n", noteVersion, xxh3.Hash(text), text)
	return disk.WriteWhole(f.files, f.path(noteName), f.path(tempName), whole)
}

// readNote returns the note of the last process. It removes the note first, because the note is valid only once.
func (f *Folder) readNote() (n Note, err error) {
	file, err := f.files.Open(f.path(noteName), os.O_RDONLY, 0)
	if err != nil {
		return n, err
	}
	text, err := io.ReadAll(io.LimitReader(file, noteMost))
	_ = file.Close()
	if err == nil {
		err = f.removeName(noteName)
	}
	if err == nil {
		err = f.files.SyncDir(f.dir)
	}
	if err != nil {
		return n, err
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	rest = strings.TrimSuffix(rest, "\n")
	want, isNote := strings.CutPrefix(first, noteVersion)
	if sum, err := strconv.ParseUint(want, 16, 64); !isNote || err != nil || sum != xxh3.HashString(rest) {
		return n, errNote
	}
	if json.Unmarshal([]byte(rest), &n) != nil {
		return Note{}, errNote
	}
	return n, nil
}

// noteMost bounds the length of a note.
const noteMost = 16 << 20
