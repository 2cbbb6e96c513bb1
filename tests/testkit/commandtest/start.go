package commandtest

import (
	"strings"
	"testing"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
)

// Start returns a core with an empty keyspace of 16 databases, at a fixed time. Its memory is freed when the test ends.
func Start(t testing.TB, families ...command.Family) *Core {
	t.Helper()
	return StartIn(t, keyspace.Options{Databases: 16}, families...)
}

// StartIn is Start with other options of the keyspace.
func StartIn(t testing.TB, options keyspace.Options, families ...command.Family) *Core {
	t.Helper()
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heap.Close)
	const now = 1_700_000_000_000
	if options.StartMs == 0 {
		options.StartMs = now - 1_000_000 // as in a server: after it, deadlines are counted exactly
	}
	core, err := New(keyspace.New(heap, options), now, families...)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// Words returns the words of a line as the arguments of a request.
func Words(line string) (args [][]byte) {
	for _, w := range strings.Fields(line) {
		args = append(args, []byte(w))
	}
	return args
}
