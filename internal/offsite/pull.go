package offsite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spindle/internal/disk"
	"spindle/internal/objectstore"
)

// LogFolder is the folder of the append-only file below the folder that a pull makes. It is a server's default.
const LogFolder = "appendonlydir"

// pullMark begins the name of the folder of an unfinished pull. The backup's ID follows.
const pullMark = "temp-pull-"

// Pull writes a backup's files into LogFolder below into, so that a server can start on into. Each part is checked, and
// each file as a whole. The folder gets its name when all files are there and synced.
//
// into must not exist, or be empty, or be left by a pull of the same backup that broke off. Such a pull continues: its
// bytes are read and checked first. progress gets the number of bytes done.
//
// Errors: *BrokenError; the store's; the system's.
func (r *Repository) Pull(ctx context.Context, d disk.System, b *Backup, into string,
	progress func(bytes int64)) error {
	temp := filepath.Join(into, pullMark+b.ID)
	if err := d.Mkdir(into, 0o750); err != nil {
		return err
	}
	names, err := d.ReadDir(into)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != filepath.Base(temp) {
			return fmt.Errorf("%s is not empty: it has %s", into, name)
		}
	}
	if err := d.Mkdir(temp, 0o750); err != nil {
		return err
	}
	p := &pulling{r: r, disk: d, backup: b, progress: progress}
	for i := range b.Files {
		if err := p.file(ctx, &b.Files[i], filepath.Join(temp, b.Files[i].Name)); err != nil {
			return err
		}
	}
	if err := d.SyncDir(temp); err != nil {
		return err
	}
	if err := d.Rename(temp, filepath.Join(into, LogFolder)); err != nil {
		return err
	}
	return d.SyncDir(into)
}

// A pulling is a running pull.
type pulling struct {
	r        *Repository
	disk     disk.System
	backup   *Backup
	bytes    int64
	progress func(int64)
}

// file writes a file, or the rest of it.
func (p *pulling) file(ctx context.Context, f *File, path string) error {
	have, sum, err := p.kept(f, path)
	if err != nil {
		return err
	}
	out, err := p.disk.Open(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	kept := int64(0)
	for _, part := range f.Parts[:have] {
		kept += part.Bytes
	}
	if err = out.Truncate(kept); err == nil {
		p.add(kept)
		err = p.fetch(ctx, f, f.Parts[have:], func(content []byte) error {
			sum.Write(content)
			p.add(int64(len(content)))
			_, err := out.Write(content)
			return err
		})
	}
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		err = &BrokenError{p.backup.ID, "the checksum of " + f.Name + " is another one, although that of each part is right"}
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

func (p *pulling) add(n int64) {
	p.bytes += n
	p.progress(p.bytes)
}

// kept reads the bytes of a file that an earlier pull has left. It returns how many parts they are, and their checksum.
func (p *pulling) kept(f *File, path string) (parts int, sum hasher, err error) {
	sum = sha256.New()
	in, err := p.disk.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, sum, nil
	}
	if err != nil {
		return 0, nil, err
	}
	defer in.Close()
	for i, part := range f.Parts {
		content := make([]byte, part.Bytes)
		_, err := io.ReadFull(in, content)
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return i, sum, nil
		case err != nil:
			return 0, nil, err
		case p.backup.key.partName(content) != part.Name:
			return i, sum, nil
		}
		sum.Write(content)
	}
	return len(f.Parts), sum, nil
}

// A hasher is the part of hash.Hash that is used here.
type hasher interface {
	io.Writer
	Sum(b []byte) []byte
}

// fetch gets parts, some at a time, and passes them to take in order.
func (p *pulling) fetch(ctx context.Context, f *File, parts []Part, take func([]byte) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type got struct {
		content []byte
		err     error
	}
	ahead := make(chan chan got, atOnce)
	go func() {
		defer close(ahead)
		for _, part := range parts {
			one := make(chan got, 1)
			select {
			case <-ctx.Done():
				return
			case ahead <- one:
			}
			go func() {
				content, err := p.part(ctx, f, part)
				one <- got{content, err}
			}()
		}
	}()
	for one := range ahead {
		g := <-one
		if g.err != nil {
			return g.err
		}
		if err := take(g.content); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// part gets one part and checks it.
func (p *pulling) part(ctx context.Context, f *File, part Part) ([]byte, error) {
	object, err := p.r.Store.Get(ctx, partKey(part.Name))
	if errors.Is(err, objectstore.ErrMissing) {
		return nil, &BrokenError{p.backup.ID, fmt.Sprintf("the part %s of %s is missing", part.Name, f.Name)}
	}
	if err != nil {
		return nil, err
	}
	content, err := p.backup.key.openPart(part.Name, object)
	if err == nil && int64(len(content)) != part.Bytes {
		err = errDamaged
	}
	if err != nil {
		return nil, &BrokenError{p.backup.ID, fmt.Sprintf("the part %s of %s %v", part.Name, f.Name, err)}
	}
	return content, nil
}
