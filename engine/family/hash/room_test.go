package hash

import (
	"slices"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/tests/testkit/commandtest"
)

// TestNothingIsLeft: HSCAN clears the buffer that it keeps for the next call.
func TestNothingIsLeft(t *testing.T) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heap.Close)
	s := &Settings{}
	s.Rows() // the defaults
	h := &commands{settings: s}
	core, err := commandtest.New(keyspace.New(heap, keyspace.Options{Databases: 16}), 1_700_000_000_000, h.family())
	if err != nil {
		t.Fatal(err)
	}
	fillThree(core)
	cl := core.Client(2)
	for _, key := range []string{"few", "timed", "many"} {
		core.Do(cl, "HSCAN", key, "0", "COUNT", "100")
		if cap(h.found) == 0 {
			t.Errorf("HSCAN %s keeps no room", key)
		}
		if slices.ContainsFunc(h.found[:cap(h.found)], func(e listpack.Element) bool { return e.Bytes() != nil }) {
			t.Errorf("HSCAN %s leaves what it has answered", key)
		}
	}
}
