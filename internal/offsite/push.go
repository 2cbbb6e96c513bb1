package offsite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"spindle/internal/objectstore"
)

// A Set is the files of one moment, which are to be pushed.
type Set struct {
	Server string
	At     time.Time
	Files  []Source // the last one is the manifest of the append-only file
}

// A Source is a file to be pushed.
type Source struct {
	Name    string
	Content io.Reader
	Bytes   int64
	Changed func() error // called after the file was read; an error means that it has changed meanwhile
}

// Pushed describes what a push has done.
type Pushed struct {
	Backup    *Backup
	There     bool // the same backup existed already
	Sent, Had int  // parts that were sent; parts that the store had
	SentBytes int64
}

// Push sends a set. It does not send parts again that are there, so a push that broke off continues. With verify, each
// part of the backup is read back and compared, and sent again if it is damaged. Otherwise only the parts are read back
// for which the store computes no checksum. progress gets the number of bytes done.
//
// Errors: the store's; a file that changes.
func (r *Repository) Push(ctx context.Context, set Set, verify bool, progress func(bytes int64)) (*Pushed, error) {
	l, err := r.lock(ctx, pushFolder, set.Server)
	if err != nil {
		return nil, err
	}
	defer l.end()
	if err := r.awaitPrunes(ctx, l); err != nil {
		return nil, err
	}
	there, err := r.parts(ctx)
	if err != nil {
		return nil, err
	}
	p := &pushing{r: r, verify: verify, there: there, progress: progress, free: make(chan []byte, atOnce)}
	b := &Backup{Server: set.Server, AtMs: set.At.UnixMilli(), key: r.key()}
	if b.Files, err = p.files(ctx, set.Files); err != nil {
		return nil, err
	}
	b.setID()
	p.done.Backup = b
	if err := r.complete(ctx, l, b, &p.done); err != nil {
		return nil, err
	}
	return &p.done, nil
}

// awaitPrunes waits until no prune is running. It removes the locks of dead prunes, so that one that only slept stops.
func (r *Repository) awaitPrunes(ctx context.Context, l *lock) error {
	for told := false; ; told = true {
		live, dead, err := l.others(ctx, pruneFolder)
		for i := 0; i < len(dead) && err == nil; i++ {
			err = r.Store.Delete(ctx, dead[i].Key)
		}
		if err != nil || len(live) == 0 {
			return err
		}
		if !told {
			at := r.read(ctx, live[0].Key)
			r.tell("A prune is under way, on %s since %s: waiting for its end.", at.Host, at.Since.Format(time.DateTime))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(r.Times.Ask):
		}
	}
}

// complete writes the manifest once all parts are listed (offsite.B1).
func (r *Repository) complete(ctx context.Context, l *lock, b *Backup, done *Pushed) error {
	missing := func() error {
		there, err := r.parts(ctx)
		if err != nil {
			return err
		}
		if what := lacks(b, there); what != "" {
			return fmt.Errorf("%s, although it was sent or was there: push again", what)
		}
		return nil
	}
	if err := missing(); err != nil {
		return err
	}
	switch _, err := r.load(ctx, b.ID); {
	case err == nil:
		done.There = true
	case errors.Is(err, objectstore.ErrMissing) || errors.As(err, new(*BrokenError)):
		if err := r.save(ctx, b); err != nil {
			return err
		}
	default:
		return err
	}
	// This process may have slept for so long that a prune took it for dead. Then parts may be gone again.
	held, err := l.holds(ctx)
	if err != nil || held {
		return err
	}
	// That prune may still be removing parts. Later prunes see the manifest.
	err = l.write(ctx)
	if err == nil {
		err = r.awaitPrunes(ctx, l)
	}
	if err != nil {
		return err
	}
	if err := missing(); err != nil {
		return errors.Join(err, r.Store.Delete(ctx, backupFolder+b.ID))
	}
	return nil
}

// lacks describes which parts of a backup are missing or incomplete in the store, or returns "".
func lacks(b *Backup, there map[string]objectstore.Object) string {
	missing, short, first := 0, 0, ""
	b.each(func(f *File, p Part) {
		o, has := there[p.Name]
		switch {
		case !has:
			missing++
		case o.Size != p.Bytes+b.key.overhead():
			short++
		default:
			return
		}
		if first == "" {
			first = f.Name
		}
	})
	switch {
	case missing+short == 0:
		return ""
	case short == 0:
		return fmt.Sprintf("%d parts are missing, the first one of %s", missing, first)
	}
	return fmt.Sprintf("%d parts are missing or have another length, the first one of %s", missing+short, first)
}

// A pushing is a running push. Some goroutines send parts, and one reads the files.
type pushing struct {
	r      *Repository
	verify bool
	there  map[string]objectstore.Object // never changed
	free   chan []byte                   // memory for parts

	mu       sync.Mutex
	done     Pushed
	bytes    int64
	progress func(int64)
}

// files sends all files, and describes them.
func (p *pushing) files(ctx context.Context, sources []Source) (files []File, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var senders sync.WaitGroup
	for range atOnce {
		p.free <- make([]byte, p.r.part)
	}
	for _, source := range sources {
		f, err := p.file(ctx, source, func(name string, content, memory []byte) {
			senders.Go(func() {
				if err := p.send(ctx, name, content); err != nil {
					stop(fmt.Errorf("%s: %w", source.Name, err))
				}
				p.free <- memory
			})
		})
		if err != nil {
			stop(err)
			break
		}
		files = append(files, f)
	}
	senders.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, source := range sources {
		if err := source.Changed(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// file reads a file and passes its parts to send.
func (p *pushing) file(ctx context.Context, source Source, send func(name string, content, memory []byte)) (File,
	error) {
	f := File{Name: source.Name, Bytes: source.Bytes}
	sum := sha256.New()
	for left := source.Bytes; left > 0; {
		var memory []byte
		select {
		case <-ctx.Done():
			return f, context.Cause(ctx)
		case memory = <-p.free:
		}
		content := memory[:min(left, int64(len(memory)))]
		if _, err := io.ReadFull(source.Content, content); err != nil {
			p.free <- memory
			return f, fmt.Errorf("%s: %d bytes before its end: %w", source.Name, left, err)
		}
		sum.Write(content)
		name := p.r.key().partName(content)
		f.Parts = append(f.Parts, Part{name, int64(len(content))})
		left -= int64(len(content))
		send(name, content, memory)
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return f, nil
}

// send stores a part, unless the store has it.
func (p *pushing) send(ctx context.Context, name string, content []byte) error {
	o, had := p.there[name]
	had = had && o.Size == int64(len(content))+p.r.key().overhead()
	if had && p.verify {
		same, err := p.readBack(ctx, name, content)
		if err != nil {
			return err
		}
		if had = same; !same {
			p.r.tell("The part %s was damaged in the store: it is sent again.", name)
		}
	}
	if !had {
		object, err := p.r.key().sealPart(name, content)
		if err != nil {
			return err
		}
		checked, err := p.r.Store.Put(ctx, partKey(name), object)
		if err != nil {
			return err
		}
		if !checked || p.verify {
			if same, err := p.readBack(ctx, name, content); err != nil || !same {
				return errors.Join(err, fmt.Errorf("the part %s comes back from the store otherwise than it was sent", name))
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if had {
		p.done.Had++
	} else {
		p.done.Sent++
		p.done.SentBytes += int64(len(content))
	}
	p.bytes += int64(len(content))
	p.progress(p.bytes)
	return nil
}

// readBack reads a part from the store, and reports whether it is unchanged.
func (p *pushing) readBack(ctx context.Context, name string, content []byte) (same bool, err error) {
	object, err := p.r.Store.Get(ctx, partKey(name))
	if err != nil {
		if errors.Is(err, objectstore.ErrMissing) {
			err = nil
		}
		return false, err
	}
	back, err := p.r.key().openPart(name, object)
	return err == nil && bytes.Equal(back, content), nil
}
