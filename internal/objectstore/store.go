// Package objectstore keeps objects of some megabytes under keys: in a folder, or in a store that speaks S3's protocol.
//
// Owner: its caller. A [Store] has any number of callers at a time.
// Never: shows half an object, or writes a secret into an error.
// Start here. folder.go is the folder, s3.go the client of S3, sigv4.go its signatures.
package objectstore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Store has objects. A key has letters, digits, "-", "." and "/".
type Store interface {
	// Put stores an object whole, or not at all. It takes the place of an older one. checked says that the store has
	// computed a checksum of the bytes it keeps, and that it is the body's.
	Put(ctx context.Context, key string, body []byte) (checked bool, err error)
	// Get returns an object. Errors: ErrMissing.
	Get(ctx context.Context, key string) ([]byte, error)
	// List calls see for each object whose key begins with prefix, a folder with its "/". The order is that of keys.
	List(ctx context.Context, prefix string, see func(Object)) error
	// Delete removes an object. It is no error if there is none.
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

// ErrMissing means that there is no such object.
var ErrMissing = errors.New("there is no such object")

// mostBytes bounds an object that Get returns.
const mostBytes = 1 << 30

// tooLarge is the error of an object of more than mostBytes.
func tooLarge(key string) error { return fmt.Errorf("%s has more than %d bytes", key, mostBytes) }
