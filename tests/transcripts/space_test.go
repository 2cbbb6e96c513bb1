package transcripts

import (
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
)

// newSpace returns an empty keyspace with its own memory.
func newSpace(t *testing.T) *keyspace.Keyspace {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return keyspace.New(heap, keyspace.Options{Databases: 16})
}
