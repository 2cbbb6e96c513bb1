package str

import (
	"fmt"
	"testing"

	"spindle/engine/command/commandtest"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
)

func newCore(t testing.TB) *commandtest.Core {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	core, err := commandtest.New(keyspace.New(heap, keyspace.Options{Databases: 16}), 1_700_000_000_000, Family)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// TestNoAllocations: in steady state the common commands do not allocate on the Go heap.
func TestNoAllocations(t *testing.T) {
	core := newCore(t)
	cl := core.Client(2)
	for i := range 100 {
		core.Do(cl, "SET", fmt.Sprintf("k%d", i), "some value of usual length, a name")
	}
	commandtest.NoAllocations(t, core,
		"GET k1", "GET none", "SET k1 another_value_of_the_same_length_.", "SET n 12345",
		"SET k2 v EX 100", "SET k2 v XX GET KEEPTTL", "SETEX k3 100 v", "SETNX k3 v",
		"INCR count", "INCRBY count 10", "GET count", "MGET k1 k2 k3 none", "MSET k1 a k2 b",
		"STRLEN k1", "GETRANGE k4 0 10", "SETRANGE k5 3 abc", "GETEX k6 EX 100", "GETSET k7 v",
		"INCRBYFLOAT f 0.5",
	)
}

// BenchmarkGet and BenchmarkSet are the handlers with lookup and reply, without loop and parser. Watch ns/op; allocs/op
// is 0.
func BenchmarkGet(b *testing.B) { benchmark(b, "GET", "k1") }

func BenchmarkSet(b *testing.B) { benchmark(b, "SET", "k1", "some other value of 34 bytes, a name") }

func BenchmarkSetEx(b *testing.B) { benchmark(b, "SET", "k1", "some value of 34 bytes", "EX", "100") }

func BenchmarkIncr(b *testing.B) { benchmark(b, "INCR", "n") }

func benchmark(b *testing.B, words ...string) {
	core := newCore(b)
	cl := core.Client(2)
	core.Do(cl, "SET", "k1", "some value of usual length, a name")
	core.Mute = true
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	b.ReportAllocs()
	for b.Loop() {
		cl.Out.Reset()
		core.Serve(cl, args)
	}
}
