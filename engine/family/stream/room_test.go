package stream

import (
	"fmt"
	"testing"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/tests/testkit/commandtest"
)

// TestRoomIsLetGo: the shared buffers keep no argument, because arguments are lent. A large call does not leave large
// buffers.
func TestRoomIsLetGo(t *testing.T) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heap.Close)
	h := &commands{settings: &Settings{}}
	h.settings.Rows() // sets the defaults
	core, err := commandtest.New(keyspace.New(heap, keyspace.Options{Databases: 1}), 1_700_000_000_000, h.family())
	if err != nil {
		t.Fatal(err)
	}
	const n = 2 * command.ItemsKept
	fill(core, "s", n)
	run(core, fmt.Sprintf("XGROUP CREATE s g 0;XREADGROUP GROUP g ann STREAMS s >;XAUTOCLAIM s g bob 0 0 COUNT %d;XADD "+
		"s MAXLEN ~ %d * a b", n, n))
	if cap(h.steps) > command.ItemsKept {
		t.Errorf("room for %d steps", cap(h.steps))
	}
	for _, arg := range h.args[:cap(h.args)] {
		if arg != nil {
			t.Fatalf("the argument %q is kept", arg)
		}
	}
	del := commandtest.Words("XDEL s")
	for i := range n {
		del = append(del, fmt.Appendf(nil, "%d-0", i+1))
	}
	core.Serve(core.Client(2), del)
	if cap(h.ids) > command.ItemsKept {
		t.Errorf("room for %d IDs", cap(h.ids))
	}
}
