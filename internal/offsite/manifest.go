package offsite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spindle/internal/objectstore"
)

// A Backup is a manifest: it lists the contents of one backup, and where they are.
type Backup struct {
	ID     string `json:"id"` // its time, and a checksum of its files
	Server string `json:"server"`
	AtMs   int64  `json:"at_ms"` // the moment of its data, Unix ms
	Files  []File `json:"files"` // the last one is the manifest of the append-only file

	key *Key // of its parts
}

// A File is one file of a backup.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Parts  []Part `json:"parts"` // in order
}

// A Part is a piece of a file.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"` // before encryption
}

// At returns the moment of the backup's data.
func (b *Backup) At() time.Time { return time.UnixMilli(b.AtMs) }

// Bytes returns the size of all files.
func (b *Backup) Bytes() (n int64) {
	for _, f := range b.Files {
		n += f.Bytes
	}
	return n
}

// idTime is the format of the time in an ID. IDs sort by time.
const idTime = "20060102T150405Z"

// setID gives the backup its ID. The same files of the same moment have the same ID.
func (b *Backup) setID() {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%d\n", b.Server, b.AtMs)
	for _, f := range b.Files {
		fmt.Fprintf(sum, "%s %d %s\n", f.Name, f.Bytes, f.SHA256)
	}
	if b.key != nil {
		fmt.Fprintln(sum, b.key.names) // without the key, it must not be a checksum of the files' contents
	}
	b.ID = b.At().UTC().Format(idTime) + "-" + hex.EncodeToString(sum.Sum(nil)[:4])
}

// each calls see for each part. A part that occurs in several places is passed once for each place.
func (b *Backup) each(see func(f *File, p Part)) {
	for i := range b.Files {
		for _, p := range b.Files[i].Parts {
			see(&b.Files[i], p)
		}
	}
}

// parse reads the body of the manifest of backup id into b.
func parse(body []byte, id string, b *Backup) error {
	if json.Unmarshal(body, b) != nil {
		return errDamaged
	}
	return b.check(id)
}

// check returns an error unless the manifest makes sense. So no name leads out of a folder, and no length fills the
// memory.
func (b *Backup) check(id string) error {
	if b.ID != id || len(b.Files) == 0 {
		return errDamaged
	}
	seen := map[string]bool{}
	for _, f := range b.Files {
		if f.Name != filepath.Base(f.Name) || strings.HasPrefix(f.Name, ".") || f.Name == "/" || seen[f.Name] {
			return fmt.Errorf("has a file of the name %q", f.Name)
		}
		seen[f.Name] = true
		left := f.Bytes
		for _, p := range f.Parts {
			if left -= p.Bytes; !isPartName(p.Name) || p.Bytes <= 0 || p.Bytes > PartBytes {
				return errDamaged
			}
		}
		if left != 0 {
			return errDamaged
		}
	}
	return nil
}

// ids returns the IDs of the backups, oldest first.
func (r *Repository) ids(ctx context.Context) (ids []string, err error) {
	err = r.Store.List(ctx, backupFolder, func(o objectstore.Object) {
		if id := strings.TrimPrefix(o.Key, backupFolder); !strings.Contains(id, "/") {
			ids = append(ids, id)
		}
	})
	slices.Sort(ids)
	return ids, err
}

// load reads a backup's manifest.
//
// Errors: *KeyError; objectstore.ErrMissing; *BrokenError; the store's.
func (r *Repository) load(ctx context.Context, id string) (*Backup, error) {
	object, err := r.Store.Get(ctx, backupFolder+id)
	if err != nil {
		return nil, err
	}
	body, key, err := openManifest(r.Keys, id, object)
	b := &Backup{}
	if err == nil {
		err = parse(body, id, b)
	}
	if err != nil && !errors.As(err, new(*KeyError)) {
		err = &BrokenError{Backup: id, What: "its manifest " + err.Error()}
	}
	b.key = key
	return b, err
}

// save writes a backup's manifest and reads it back.
func (r *Repository) save(ctx context.Context, b *Backup) error {
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	object, err := b.key.sealManifest(b.ID, body)
	if err != nil {
		return err
	}
	if _, err := r.Store.Put(ctx, backupFolder+b.ID, object); err != nil {
		return err
	}
	_, err = r.load(ctx, b.ID)
	return err
}

// A BrokenError means that a backup is incomplete.
type BrokenError struct {
	Backup string
	What   string // what is wrong
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("backup %s is not whole: %s", e.Backup, e.What)
}
