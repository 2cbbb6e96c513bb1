package bitmap

import (
	"strings"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/str"
	"spindle/internal/invariant"
	"spindle/tests/testkit/commandtest"
)

// newCore returns a core with the commands on bits, and those on strings to fill and read the keys.
func newCore(t testing.TB) (*commandtest.Core, *keyspace.Keyspace) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	space := keyspace.New(heap, keyspace.Options{Databases: 16})
	core, err := commandtest.New(space, 1_700_000_000_000, Family, str.Family)
	if err != nil {
		t.Fatal(err)
	}
	return core, space
}

// TestNoAllocations: in steady state no command on bits allocates on the Go heap.
func TestNoAllocations(t *testing.T) {
	core, _ := newCore(t)
	cl := core.Client(2)
	core.Do(cl, "SET", "n", "12345")
	core.Do(cl, "SET", "k", "some value of usual length, a name")
	core.Do(cl, "SET", "long", strings.Repeat("0123456789", 20_000))
	core.Mute = true
	requests := []string{
		"GETBIT k 7", "GETBIT none 7", "GETBIT n 7", "GETBIT long 1000000", "SETBIT k 7 1", "SETBIT k 7 0",
		"SETBIT long 1000000 1",
		"SETBIT long 1000000 0", "BITCOUNT k", "BITCOUNT n", "BITCOUNT long 3 -4 BIT", "BITPOS k 1", "BITPOS n 0 1",
		"BITPOS long 1 100000",
		"BITFIELD k GET u8 0 SET i5 3 2 OVERFLOW SAT INCRBY u4 #2 3",
		"BITFIELD_RO n GET i8 3", "BITFIELD long INCRBY u63 524280 12345",
		"BITOP AND d k n", "BITOP DIFF d k n", "BITOP DIFF1 d k n", "BITOP ANDOR d k n", "BITOP ONE d k n n",
	}
	if !invariant.Enabled { // checked builds record the use of chunks on the Go heap
		requests = append(requests, "BITOP NOT d long", "BITOP XOR d long k n none")
	}
	commandtest.NoAllocations(t, core, requests...)
}

// BenchmarkSetBit runs the handler with lookup and reply, on a string of several chunks. Watch ns/op; allocs/op is 0.
func BenchmarkSetBit(b *testing.B) {
	benchmark(b, 1<<20, []string{"SETBIT", "k", "4000000", "1"}, []string{"SETBIT", "k", "4000000", "0"})
}

// BenchmarkField reads and writes one field of 63 bits across a chunk border.
func BenchmarkField(b *testing.B) {
	benchmark(b, 1<<20, []string{"BITFIELD", "k", "INCRBY", "u63", "524270", "1234567"})
}

// BenchmarkCount, BenchmarkPos and BenchmarkOr read 64 MB. Watch MB/s; the speed of memory limits it.
func BenchmarkCount(b *testing.B) { benchmark(b, 64<<20, []string{"BITCOUNT", "k"}) }

func BenchmarkPos(b *testing.B) { benchmark(b, 64<<20, []string{"BITPOS", "k", "0"}) }

func BenchmarkOr(b *testing.B) { benchmark(b, 64<<20, []string{"BITOP", "OR", "d", "k", "k"}) }

func benchmark(b *testing.B, size int, requests ...[]string) {
	core, _ := newCore(b)
	cl := core.Client(2)
	core.Do(cl, "SET", "k", strings.Repeat("\xff", size-1)+"\x00")
	core.Mute = true
	var all [][][]byte
	for _, words := range requests {
		var args [][]byte
		for _, w := range words {
			args = append(args, []byte(w))
		}
		all = append(all, args)
	}
	if size > 1<<20 {
		b.SetBytes(int64(size))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		cl.Out.Reset()
		core.Serve(cl, all[i%len(all)])
		i++
	}
}
