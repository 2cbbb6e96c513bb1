package keys

import (
	"testing"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/tests/testkit/commandtest"
)

func newCore(t testing.TB) *commandtest.Core {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := command.Family{Name: "test", Rows: []command.Spec{{Name: "put", Arity: 3, Flags: command.Write,
		Run: func(c *command.Context) error {
			c.DB.SetString(c.Args[1], c.Args[2], 0)
			return nil
		}}}}
	core, err := commandtest.New(keyspace.New(heap, keyspace.Options{Databases: 16}), 1_700_000_000_000,
		Family, Databases, put)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// TestNoAllocations: in steady state the common commands do not allocate on the Go heap.
func TestNoAllocations(t *testing.T) {
	core := newCore(t)
	cl := core.Client(2)
	core.Do(cl, "PUT", "k1", "v1")
	core.Do(cl, "PUT", "k2", "v2")
	commandtest.NoAllocations(t, core,
		"PUT gone v; EXISTS k1 none", "PUT gone v; TYPE k1", "PUT gone v; TOUCH k1", "PUT gone v; TTL k1",
		"PUT gone v; EXPIRE k1 100", "PUT gone v; EXPIRE k1 200 GT",
		"PUT gone v; PEXPIREAT k1 1800000000000", "PUT gone v; PTTL k1",
		"PUT gone v; PERSIST k1", "PUT gone v; DEL gone", "PUT gone v; UNLINK gone",
		"PUT gone v; RENAME gone gone2", "PUT gone v; OBJECT ENCODING k1", "PUT gone v; DBSIZE",
	)
}
