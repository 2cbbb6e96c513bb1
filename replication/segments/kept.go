package segments

import (
	"errors"
	"io/fs"
)

// Reasons why the files of an earlier process cannot be used.
var (
	errNoNote  = errors.New("the last process did not end in order")
	errNote    = errors.New("the note of the last process is damaged")
	errMissing = errors.New("a segment is missing, or has another length")
)

// A Kept is a log that an earlier process has sealed.
type Kept struct {
	Note
	folder *Folder
}

// Begin and End return the offsets of the stream between which the log has its bytes.
func (k *Kept) Begin() int64 { return k.Segments[0].Begin }
func (k *Kept) End() int64   { return k.Segments[len(k.Segments)-1].End }

// Find looks for the log of an earlier process. It removes the note, and all files of logs that cannot be continued.
// The caller then continues the log or drops it. removed is the number of removed files, and err says why they were
// removed.
//
// Errors: ErrShared, if another server uses the folder; the disk's. Find then returns no log.
func (f *Folder) Find() (k *Kept, removed int, err error) {
	names, err := f.files.ReadDir(f.dir)
	if err != nil {
		return nil, 0, err
	}
	ours := names[:0:0]
	for _, name := range names {
		if _, ok := parseName(name); ok || name == noteName || name == tempName {
			ours = append(ours, name)
		}
	}
	if len(ours) == 0 {
		return nil, 0, nil
	}
	if err := f.claim(); err != nil {
		return nil, 0, err
	}
	n, why := f.readNote()
	if errors.Is(why, fs.ErrNotExist) {
		why = errNoNote
	}
	if why == nil {
		why = f.check(n)
	}
	wanted := map[string]bool{noteName: true} // removed already
	if why == nil {
		k = &Kept{n, f}
		for _, s := range n.Segments {
			wanted[nameOf(n.Nonce, s.Begin)] = true
		}
	}
	for _, name := range ours {
		if wanted[name] {
			continue
		}
		if err := f.removeName(name); err != nil && why == nil {
			why = err
		}
		removed++
	}
	return k, removed, why
}

// check returns why a note's segments cannot be used. Their bytes are checked only when they are read.
func (f *Folder) check(n Note) error {
	if len(n.Segments) == 0 {
		return errMissing
	}
	for i, s := range n.Segments {
		size, err := f.files.Size(f.path(nameOf(n.Nonce, s.Begin)))
		if err != nil || size != s.Bytes || s.Begin < 0 || s.End <= s.Begin || i > 0 && n.Segments[i-1].End != s.Begin {
			return errMissing
		}
	}
	return nil
}

// Continue returns the log, to which the stream after End can be appended. See New for limit and release.
func (k *Kept) Continue(limit int64, release func(p []byte)) *Log {
	l := k.folder.newLog(k.Nonce, limit, release)
	l.segments = k.Segments
	l.begin, l.written, l.end, l.need = k.Begin(), k.End(), k.End(), k.Begin()
	for _, s := range k.Segments {
		l.inFiles += s.Bytes
	}
	go l.run()
	return l
}

// Drop removes the log.
func (k *Kept) Drop() { k.folder.removeAll(k.Nonce) }
