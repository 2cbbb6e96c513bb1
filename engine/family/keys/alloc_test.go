package keys

import (
	"testing"

	"spindle/engine/command"
	"spindle/engine/command/commandtest"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
)

func newCore(t testing.TB) *commandtest.Core {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := command.Family{Name: "test", Rows: []command.Spec{{Name: "put", Arity: 3, Flags: command.Write, Run: func(c *command.Context) error {
		c.DB.SetString(c.Args[1], c.Args[2], 0)
		return nil
	}}}}
	core, err := commandtest.New(keyspace.New(heap, keyspace.Options{Databases: 16}), 1_700_000_000_000, Family, Databases, put)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// TestNoAllocations: in steady state the common commands leave nothing to the garbage collector.
func TestNoAllocations(t *testing.T) {
	core := newCore(t)
	cl := core.Client(2)
	core.Do(cl, "PUT", "k1", "v1")
	core.Do(cl, "PUT", "k2", "v2")
	core.Mute = true
	put := [][]byte{[]byte("PUT"), []byte("gone"), []byte("v")}
	for _, words := range [][]string{
		{"EXISTS", "k1", "none"}, {"TYPE", "k1"}, {"TOUCH", "k1"}, {"TTL", "k1"}, {"EXPIRE", "k1", "100"}, {"EXPIRE", "k1", "200", "GT"},
		{"PEXPIREAT", "k1", "1800000000000"}, {"PTTL", "k1"}, {"PERSIST", "k1"}, {"DEL", "gone"}, {"UNLINK", "gone"},
		{"RENAME", "gone", "gone2"}, {"OBJECT", "ENCODING", "k1"}, {"DBSIZE"},
	} {
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		if n := testing.AllocsPerRun(200, func() {
			cl.Out.Reset()
			core.Serve(cl, put)
			core.Serve(cl, args)
		}); n != 0 {
			t.Errorf("%q allocates %v times", words, n)
		}
	}
}
