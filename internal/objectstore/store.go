// Package objectstore keeps objects of some megabytes under keys: in a folder, or in a store with S3's protocol.
//
// Owner: its caller. A [Store] may have any number of callers at a time.
// Never: shows half an object, or writes a secret into an error.
// Start here. folder.go is the folder, s3.go the client of S3, sigv4.go its signatures.
package objectstore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Store has objects. A key may have letters, digits, "-", "." and "/".
type Store interface {
	// Put stores an object whole, or not at all. It replaces an older object with this key. checked means that the
	// store has computed a checksum of the stored bytes, which is the body's.
	Put(ctx context.Context, key string, body []byte) (checked bool, err error)
	// Get returns an object. Errors: ErrMissing.
	Get(ctx context.Context, key string) ([]byte, error)
	// List calls see for each object whose key begins with prefix, which is a folder with its "/". The objects are
	// sorted by key.
	List(ctx context.Context, prefix string, see func(Object)) error
	// Delete removes an object. A missing object is not an error.
	Delete(ctx context.Context, key string) error
	// String names the store for people.
	String() string
}

// An Object is one line of a list.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time // by the store's clock
}

// ErrMissing is the error for an object that does not exist.
var ErrMissing = errors.New("there is no such object")

// mostBytes bounds an object that Get returns.
const mostBytes = 1 << 30

// tooLarge returns the error for an object of more than mostBytes.
func tooLarge(key string) error { return fmt.Errorf("%s has more than %d bytes", key, mostBytes) }
