package keyspace

import (
	"testing"

	"spindle/engine/data/memory"
)

func open(t testing.TB) *Keyspace {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return New(h, Options{StartMs: 1_000_000, Seed: 1})
}
