// Package offsite keeps backups of servers in an object store: parts of files under their checksums, and a manifest for
// each backup.
//
//	parts/ab/ab34…      up to 16 MB of a file; the name is a checksum of the content
//	backups/ID          a backup's manifest: its files, and their parts in order
//	pushing/…           a push is running
//	pruning/…           a prune is running
//
// Owner: its caller. One call at a time in a process; any number of processes share a store.
// Never: changes an object, or lists a backup as complete that lacks a part.
//
// offsite.B1. A backup exists when its manifest does. The manifest is written after all its parts.
// offsite.B2. A part's name is the checksum of its content. So a part is written once, and many backups may need it. A
// part in the store does not change.
// offsite.B3. A prune removes no part while a push is running, see lock.go. It removes manifests first.
// offsite.B4. With a key, no content, name or size of a file is readable in the store, see key.go.
//
// Parts are whole objects, not parts of S3's multipart uploads. A broken push leaves nothing that a list does not show,
// and each part has its checksum. An increment that has grown shares its beginning with the last backup.
//
// Start here. push.go, pull.go, list.go and prune.go are the four calls.
package offsite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"spindle/internal/objectstore"
)

// PartBytes is the length of a part before encryption. The last part of a file may be shorter.
const PartBytes = 16 << 20

// atOnce is how many parts are transferred at a time. Each takes PartBytes of memory, twice that with a key.
const atOnce = 4

const (
	partFolder   = "parts/"
	backupFolder = "backups/"
	pushFolder   = "pushing/"
	pruneFolder  = "pruning/"
)

// A Repository has the backups of one store.
type Repository struct {
	Store objectstore.Store
	Keys  []*Key       // the first one encrypts; all of them decrypt; empty: nothing is encrypted
	Tell  func(string) // gets sentences for the operator
	Times Times

	part int // PartBytes, or less in tests
}

// Times are the intervals of locks. The zero value is for tests that do not wait.
type Times struct {
	Beat  time.Duration // how often a lock is written again
	Stale time.Duration // a lock that was not written for this long belongs to a dead process
	Ask   time.Duration // how often a push checks whether a prune is over
}

// UsualTimes are the Times of a real repository.
var UsualTimes = Times{Beat: 5 * time.Minute, Stale: time.Hour, Ask: 2 * time.Second}

// Open returns the repository of a store.
func Open(store objectstore.Store, keys []*Key, tell func(string)) *Repository {
	return &Repository{Store: store, Keys: keys, Tell: tell, Times: UsualTimes, part: PartBytes}
}

// key returns the key that encrypts, or nil if there is none.
func (r *Repository) key() *Key {
	if len(r.Keys) == 0 {
		return nil
	}
	return r.Keys[0]
}

// partKey returns the key of a part in the store.
func partKey(name string) string { return partFolder + name[:2] + "/" + name }

// parts lists the parts in the store, with their names and sizes.
func (r *Repository) parts(ctx context.Context) (map[string]objectstore.Object, error) {
	found := map[string]objectstore.Object{}
	err := r.Store.List(ctx, partFolder, func(o objectstore.Object) {
		name := o.Key[strings.LastIndexByte(o.Key, '/')+1:]
		if isPartName(name) && o.Key == partKey(name) {
			found[name] = o
		}
	})
	return found, err
}

// isPartName reports whether name is 64 hex digits.
func isPartName(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

func (r *Repository) tell(format string, args ...any) { r.Tell(fmt.Sprintf(format, args...)) }
