package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"spindle/internal/disk"
)

// A Folder is a store in files, for trials on one machine. Each key has a file, which every process may read.
//
//	DIR/lock               held while a process reads or writes the others
//	DIR/revision           the revision
//	DIR/journal            a commit under way; the next holder of the lock completes it
//	DIR/keys/…/NAME.json   {"revision": …, "lease": …, "value": …}, with the key's parts as folders
//	DIR/leases/ID          when the lease lapses, in ms since 1970
//
// A watch reads the revision 20 times a second. There is no history: a watch from an old revision begins with a Reset.
type Folder struct{ dir string }

// poll is the interval at which a watch reads the revision. Before every fourth reading it takes the lock, which ends
// lapsed leases and completes a commit under way.
const (
	poll      = 50 * time.Millisecond
	tidyPolls = 4
)

// lockWait is the time limit for getting the lock. Tests raise it.
var lockWait = 5 * time.Second

// maxName is the maximum length of a key's last part as the name of a file: the file system's, less that of ".new".
const maxName = 255 - 4

// OpenFolder returns the store in dir. It creates dir if it does not exist.
func OpenFolder(dir string) (*Folder, error) {
	for _, sub := range []string{"keys", "leases"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	return &Folder{dir}, nil
}

func (f *Folder) String() string { return "folder " + f.dir }

// Close does nothing: no file stays open.
func (f *Folder) Close() {}

// kept is the content of a key's file, and of a line of the journal.
type kept struct {
	Key      string          `json:"key,omitempty"` // in the journal
	Revision int64           `json:"revision,omitempty"`
	Lease    Lease           `json:"lease,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	Text     []byte          `json:"text,omitempty"` // a value that is not JSON
	Delete   bool            `json:"delete,omitempty"`
}

func (k *kept) entry(key string) Entry {
	e := Entry{Key: key, Value: k.Value, Revision: k.Revision, Lease: k.Lease}
	if compact := (bytes.Buffer{}); k.Value != nil && json.Compact(&compact, k.Value) == nil {
		e.Value = compact.Bytes()
	} else if k.Value == nil {
		e.Value = append([]byte{}, k.Text...)
	}
	return e
}

// locked runs work while it holds the lock. Before that, it completes a commit under way and removes lapsed leases.
func (f *Folder) locked(ctx context.Context, work func() error) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("the lock of %s: %w", f.dir, err)
		}
		release, err := disk.OS.Lock(filepath.Join(f.dir, "lock"))
		if errors.Is(err, disk.ErrLocked) {
			select {
			case <-ctx.Done():
			case <-time.After(jitter(2 * time.Millisecond)):
			}
			continue
		}
		if err != nil {
			return err
		}
		defer release()
		if err := f.complete(); err != nil {
			return err
		}
		if err := f.expire(); err != nil {
			return err
		}
		return work()
	}
}

// revision returns the store's revision: 1 for a new one, as in etcd.
func (f *Folder) revision() (int64, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, "revision"))
	if errors.Is(err, fs.ErrNotExist) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s/revision is damaged: %.40q", f.dir, text)
	}
	return n, nil
}

func (f *Folder) replace(name string, content []byte) error {
	path := filepath.Join(f.dir, name)
	return disk.WriteWhole(disk.OS, path, path+".new", content)
}

// path returns the file of a key. Each part of the key is escaped, so that no part can name a file outside the folder.
func (f *Folder) path(key string) string {
	parts := strings.Split(strings.TrimPrefix(key, "/"), "/")
	for i, part := range parts {
		if part = url.PathEscape(part); part == "" || part[0] == '.' {
			part = "%" + part // PathEscape never returns a % without two digits after it
		}
		parts[i] = part
	}
	return filepath.Join(f.dir, "keys", filepath.Join(parts...)) + ".json"
}

// key returns the key of a file: the reverse of path. It returns "" for a file of another program.
func (f *Folder) key(path string) string {
	rest, ok := strings.CutPrefix(path, filepath.Join(f.dir, "keys")+string(filepath.Separator))
	rest, isKey := strings.CutSuffix(rest, ".json")
	if !ok || !isKey {
		return ""
	}
	key := ""
	for part := range strings.SplitSeq(rest, string(filepath.Separator)) {
		if special, ok := strings.CutPrefix(part, "%"); ok && (special == "" || special[0] == '.') {
			part = special
		} else if plain, err := url.PathUnescape(part); err == nil {
			part = plain
		} else {
			return ""
		}
		key += "/" + part
	}
	return key
}

// each calls see for every key with a prefix, in the order of the files.
func (f *Folder) each(prefix string, see func(Entry)) error {
	return filepath.WalkDir(filepath.Join(f.dir, "keys"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		key := f.key(path)
		if key == "" || !strings.HasPrefix(key, prefix) {
			return nil
		}
		e, err := f.read(key)
		if err == nil {
			see(e)
		}
		return err
	})
}

// read returns the entry of a key. If the file is damaged, the entry's value is its text, so that the reader refuses
// only that key.
func (f *Folder) read(key string) (Entry, error) {
	text, err := os.ReadFile(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, ErrNotFound
	}
	if err != nil {
		return Entry{}, err
	}
	var k kept
	if json.Unmarshal(text, &k) != nil || k.Revision <= 0 {
		return Entry{Key: key, Value: text, Revision: 1}, nil
	}
	return k.entry(key), nil
}

// Get returns an entry.
func (f *Folder) Get(ctx context.Context, key string) (e Entry, err error) {
	err = f.locked(ctx, func() error {
		e, err = f.read(key)
		return err
	})
	return e, err
}

// List returns the entries whose keys begin with prefix.
func (f *Folder) List(ctx context.Context, prefix string) (entries []Entry, revision int64, err error) {
	err = f.locked(ctx, func() error {
		if revision, err = f.revision(); err != nil {
			return err
		}
		return f.each(prefix, func(e Entry) { entries = append(entries, e) })
	})
	sortByKey(entries)
	return entries, revision, err
}

// Commit writes if all conditions hold.
func (f *Folder) Commit(ctx context.Context, conditions []Condition, writes []Write) (revision int64, err error) {
	if err := checkWrites(writes); err != nil {
		return 0, err
	}
	err = f.locked(ctx, func() error {
		for _, c := range conditions {
			e, err := f.read(c.Key)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			if e.Revision != c.Revision {
				return ErrConflict
			}
		}
		for _, w := range writes {
			if w.Lease != 0 && !disk.Exists(disk.OS, f.lease(w.Lease)) {
				return ErrLapsed
			}
		}
		revision, err = f.write(writes)
		return err
	})
	return revision, err
}

// write carries out the writes through the journal and returns the new revision.
func (f *Folder) write(writes []Write) (int64, error) {
	revision, err := f.revision()
	if err != nil {
		return 0, err
	}
	revision++
	journal := []kept{}
	for _, w := range writes {
		// A journal with such a key could never be completed.
		if name := filepath.Base(f.path(w.Key)); len(name) > maxName || strings.ContainsRune(w.Key, 0) {
			return 0, fmt.Errorf("%.80q has no name of a file: it would have %d bytes", w.Key, len(name))
		}
		switch {
		case w.Delete && w.Prefix:
			err = f.each(w.Key, func(e Entry) { journal = append(journal, kept{Key: e.Key, Delete: true}) })
		case w.Delete:
			journal = append(journal, kept{Key: w.Key, Delete: true})
		case json.Valid(w.Value):
			journal = append(journal, kept{Key: w.Key, Revision: revision, Lease: w.Lease, Value: w.Value})
		default:
			journal = append(journal, kept{Key: w.Key, Revision: revision, Lease: w.Lease, Text: w.Value})
		}
		if err != nil {
			return 0, err
		}
	}
	text, err := json.Marshal(struct {
		Revision int64
		Writes   []kept
	}{revision, journal})
	if err != nil {
		return 0, err
	}
	if err := f.replace("journal", text); err != nil {
		return 0, err
	}
	if err := f.complete(); err != nil {
		return 0, &MaybeError{err} // the next holder of the lock completes it
	}
	return revision, nil
}

// complete carries out the journal, if there is one. It is safe to repeat.
func (f *Folder) complete() error {
	name := filepath.Join(f.dir, "journal")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var journal struct {
		Revision int64
		Writes   []kept
	}
	if err := json.Unmarshal(text, &journal); err != nil {
		return fmt.Errorf("%s is damaged: %w", name, err)
	}
	for _, k := range journal.Writes {
		path := f.path(k.Key)
		if k.Delete {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		k.Key = ""
		content, err := json.MarshalIndent(k, "", "\t")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := disk.WriteWhole(disk.OS, path, path+".new", append(content, '\n')); err != nil {
			return err
		}
	}
	if err := f.replace("revision", strconv.AppendInt(nil, journal.Revision, 10)); err != nil {
		return err
	}
	return os.Remove(name)
}

func (f *Folder) lease(l Lease) string {
	return filepath.Join(f.dir, "leases", strconv.FormatInt(int64(l), 10))
}

// expire removes lapsed leases and their keys.
func (f *Folder) expire() error {
	names, err := disk.OS.ReadDir(filepath.Join(f.dir, "leases"))
	if err != nil {
		return err
	}
	over := map[Lease]bool{}
	now := time.Now().UnixMilli()
	for _, name := range names {
		id, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			continue // an unfinished file of another process
		}
		text, err := os.ReadFile(f.lease(Lease(id)))
		if err != nil {
			return err
		}
		if deadlineMs, err := strconv.ParseInt(string(text), 10, 64); err != nil || deadlineMs <= now {
			over[Lease(id)] = true
		}
	}
	return f.end(over)
}

// end removes leases and their keys.
func (f *Folder) end(over map[Lease]bool) error {
	if len(over) == 0 {
		return nil
	}
	var writes []Write
	err := f.each("", func(e Entry) {
		if over[e.Lease] {
			writes = append(writes, Write{Key: e.Key, Delete: true})
		}
	})
	if err != nil {
		return err
	}
	if len(writes) > 0 {
		if _, err := f.write(writes); err != nil {
			return err
		}
	}
	for l := range over {
		if err := os.Remove(f.lease(l)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// The lease's ID contains the time to live, so that KeepAlive can read it: the low 20 bits are a multiple of ttlUnit.
const (
	ttlBits = 20
	ttlUnit = 100 * time.Millisecond
)

// Grant makes a lease.
func (f *Folder) Grant(ctx context.Context, ttl time.Duration) (l Lease, err error) {
	l = Lease(time.Now().UnixMilli()<<ttlBits | max(1, min(int64((ttl+ttlUnit-1)/ttlUnit), 1<<ttlBits-1)))
	err = f.locked(ctx, func() error {
		for disk.Exists(disk.OS, f.lease(l)) {
			l += 1 << ttlBits
		}
		return f.renew(l)
	})
	return l, err
}

func (f *Folder) renew(l Lease) error {
	ttl := time.Duration(int64(l)&(1<<ttlBits-1)) * ttlUnit
	return f.replace(filepath.Join("leases", strconv.FormatInt(int64(l), 10)),
		strconv.AppendInt(nil, time.Now().Add(ttl).UnixMilli(), 10))
}

// KeepAlive restarts the lease's time.
func (f *Folder) KeepAlive(ctx context.Context, l Lease) error {
	return f.locked(ctx, func() error {
		if !disk.Exists(disk.OS, f.lease(l)) {
			return ErrLapsed
		}
		return f.renew(l)
	})
}

// Revoke ends the lease and deletes its entries.
func (f *Folder) Revoke(ctx context.Context, l Lease) error {
	return f.locked(ctx, func() error { return f.end(map[Lease]bool{l: true}) })
}

// Watch returns a channel of the changes.
func (f *Folder) Watch(ctx context.Context, prefix string, from int64) <-chan Change {
	return watch(ctx, f, prefix, from)
}

// stream waits until the store's revision is at least from, or has gone back. The watcher must then list all entries,
// because there is no history.
func (f *Folder) stream(ctx context.Context, _ string, from int64, heard func(), _ func([]Entry, int64)) error {
	ticks := time.NewTicker(poll)
	defer ticks.Stop()
	for n := 0; ; n++ {
		if n%tidyPolls == 0 {
			if err := f.locked(ctx, func() error { return nil }); err != nil {
				return err
			}
		}
		revision, err := f.revision() // a commit writes it last, as a whole
		if err != nil {
			return err
		}
		heard()
		if revision >= from || revision < from-1 {
			return errCompacted
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
	}
}
