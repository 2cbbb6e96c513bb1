package str

import (
	"fmt"
	"strings"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/tests/testkit/commandtest"
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
		"INCRBYFLOAT f 0.5", "DIGEST k8", "INCREX x EX 100", "INCREX y UBOUND 5", "INCREX z BYFLOAT 0.5 UBOUND 5 SATURATE",
		"SET k9 v; SET k9 w IFEQ v", "SET k9 v IFDNE 0123456789abcdef EX 100", "SET none v IFEQ x",
		"SET k9 v; DELEX k9 IFEQ v", "MSETEX 2 k10 a k11 b EX 100", "MSETEX 2 k10 a k11 b NX",
	)
}

// BenchmarkGet and BenchmarkSet run the handlers with lookup and reply, without loop and parser. Watch ns/op; allocs/op
// is 0.
func BenchmarkGet(b *testing.B) { benchmark(b, "GET", "k1") }

func BenchmarkSet(b *testing.B) { benchmark(b, "SET", "k1", "some other value of 34 bytes, a name") }

func BenchmarkSetEx(b *testing.B) { benchmark(b, "SET", "k1", "some value of 34 bytes", "EX", "100") }

func BenchmarkIncr(b *testing.B) { benchmark(b, "INCR", "n") }

// BenchmarkDigest measures DIGEST of a string of 1 MB. Watch ns/op: the turn takes as long.
func BenchmarkDigest(b *testing.B) {
	core := newCore(b)
	core.Do(core.Client(2), "SET", "k1", strings.Repeat("x", 1<<20))
	b.SetBytes(1 << 20)
	measure(b, core, "DIGEST", "k1")
}

func benchmark(b *testing.B, words ...string) {
	core := newCore(b)
	core.Do(core.Client(2), "SET", "k1", "some value of usual length, a name")
	measure(b, core, words...)
}

func measure(b *testing.B, core *commandtest.Core, words ...string) {
	cl := core.Client(2)
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
