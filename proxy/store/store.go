// Package store is the coordination store of the proxies: which groups serve which slots, and which proxies know it.
//
// Owner: its caller; any goroutine may call a Store. No client's request waits for it.
// Never: knows the data servers, keeps their passwords, or trusts an entry that it has not validated.
// Start here; etcd.go and folder.go are the two stores, entries.go is the tree, client.go is a proxy's side.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Every store returns these errors. Other errors are the network's or the disk's.
var (
	ErrNotFound = errors.New("there is no such entry")
	ErrConflict = errors.New("the entry has changed meanwhile")
	ErrLapsed   = errors.New("the lease has lapsed")
	ErrLost     = errors.New("another dashboard leads")
)

// A MaybeError is the error of a write without an answer: the store may have carried it out.
type MaybeError struct{ Err error }

func (e *MaybeError) Error() string {
	return "the store may have carried out the write, but gave no answer: " + e.Err.Error()
}

func (e *MaybeError) Unwrap() error { return e.Err }

// An Entry is a key and its value.
type Entry struct {
	Key      string
	Value    []byte // nil in a Change: the key was deleted
	Revision int64  // of the key's last change
	Lease    Lease  // the entry is deleted with it; 0 means no lease
}

// A Condition holds while Revision is the revision of the key's last change. With revision 0, it holds while the key is
// absent.
type Condition struct {
	Key      string
	Revision int64
}

// A Write puts or deletes one key, or deletes all keys with a prefix.
type Write struct {
	Key    string
	Value  []byte
	Lease  Lease
	Delete bool
	Prefix bool // delete all keys with this prefix
}

// A Lease limits the lifetime of entries: when the lease lapses, its entries are deleted.
type Lease int64

// A Change is a set of changed entries, in the order of their revisions.
type Change struct {
	Reset    bool // Entries has all existing entries; all others are deleted
	Entries  []Entry
	Revision int64 // the revision of the store after this change
	// Err means that the store does not answer. The watch continues, and reports each outage once.
	Err error
}

// A Store keeps small entries under keys such as /spindle/shop/slots.
//
// store.S1. A revision numbers each change of the whole store, and ascends.
// store.S2. Commit does all its writes if all conditions hold, and otherwise none.
// store.S3. A watch reports the last value of every key. It may skip earlier values, and then starts again with a
// Reset.
//
// Every call has its own deadline within that of ctx.
type Store interface {
	// Get returns an entry. Errors: ErrNotFound.
	Get(ctx context.Context, key string) (Entry, error)
	// List returns the entries whose keys begin with prefix, ordered by key, and the revision of this state.
	List(ctx context.Context, prefix string) (entries []Entry, revision int64, err error)
	// Commit writes if all conditions hold and returns the new revision. Errors: ErrConflict; a *MaybeError; ErrLapsed
	// for a write whose lease is over.
	Commit(ctx context.Context, conditions []Condition, writes []Write) (revision int64, err error)
	// Watch returns a channel of the changes after revision from. If from is 0, the first change is a Reset. The
	// channel is closed when ctx ends.
	Watch(ctx context.Context, prefix string, from int64) <-chan Change
	// Grant makes a lease of at least ttl.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)
	// KeepAlive restarts the lease's time. Errors: ErrLapsed.
	KeepAlive(ctx context.Context, lease Lease) error
	// Revoke ends the lease and deletes its entries.
	Revoke(ctx context.Context, lease Lease) error
	// Close closes idle connections. Watches end with their contexts.
	Close()
	// String returns the store's name for logs, without passwords.
	String() string
}

// Put writes one entry if condition holds, and returns its revision.
func Put(ctx context.Context, s Store, key string, value []byte, condition Condition) (int64, error) {
	return s.Commit(ctx, []Condition{condition}, []Write{{Key: key, Value: value}})
}

// These limits bound the keys and values of every store.
const (
	maxKey   = 512
	maxValue = 1 << 20
	maxReply = 64 << 20
)

// checkWrites refuses writes that exceed the limits of stores.
func checkWrites(writes []Write) error {
	for _, w := range writes {
		switch {
		case w.Key == "" || len(w.Key) > maxKey:
			return fmt.Errorf("a key of %d bytes: 1 to %d are allowed", len(w.Key), maxKey)
		case len(w.Value) > maxValue:
			return fmt.Errorf("%s: a value of %d bytes: at most %d are allowed", w.Key, len(w.Value), maxValue)
		}
	}
	return nil
}

// pause waits before the try number n: 50 ms at first, 2 s at most.
func pause(ctx context.Context, n int) {
	wait := min(50*time.Millisecond<<min(n, 10), 2*time.Second)
	select {
	case <-ctx.Done():
	case <-time.After(jitter(wait)):
	}
}

func sortByKey(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
}
