package list

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/engine/data/keyspace"
	"spindle/internal/invariant"
	"spindle/tests/testkit/commandtest"
)

func newCore(t testing.TB) (*commandtest.Core, *keyspace.Keyspace) {
	core := commandtest.Start(t, Family)
	return core, core.Space
}

// fill makes key a list of n elements of 14 bytes.
func fill(core *commandtest.Core, key string, n int) {
	cl := core.Client(2)
	push := commandtest.Words("RPUSH " + key)
	for i := range n {
		if push = append(push, fmt.Appendf(nil, "element%07d", i)); len(push) == 1002 || i == n-1 {
			cl.Out.Reset()
			core.Serve(cl, push)
			push = push[:2]
		}
	}
}

// TestNoAllocations: in steady state no command on lists allocates on the Go heap.
func TestNoAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	core, _ := newCore(t)
	fill(core, "short", 50)
	fill(core, "long", 20_000)
	fill(core, "other", 20_000)
	fill(core, "stays", 20_000)
	commandtest.NoAllocations(t, core,
		"LPUSH short a; LPOP short", "RPUSH short 12; RPOP short",
		"LMOVEM short short LEFT RIGHT COUNT 3 OBO", "LMOVEM short new LEFT LEFT; LMOVEM new short LEFT LEFT",
		"LMOVEM long other LEFT RIGHT EXACTLY 2 BULK; LMOVEM other long RIGHT LEFT COUNT 2 BULK",
		"LPUSHX short a b; LPOP short 2", "RPUSH new a; LPOP new", "LPOP none",
		"LPUSH long a; LPOP long", "RPUSH long 12; RPOP long", "RPUSH long some-longer-element b c; RPOP long 3",
		"RPUSH long a", "LPUSH other a", "LPOP long", "RPOP long", // across leaves
		"LLEN short", "LLEN long", "LINDEX short 20", "LINDEX stays 12345", "LINDEX stays -3", "LRANGE short 0 -1",
		"LRANGE stays 10000 10010",
		"LSET short 3 another", "LSET stays 12345 another", "LSET stays 12345 23",
		"LPOS stays element0000777", "LPOS short element0000007 RANK -1 COUNT 0",
		"LINSERT stays BEFORE element0000003 x; LREM stays 1 x", "LMOVE short short LEFT RIGHT",
		"LMOVE long long LEFT RIGHT", "LMOVE long other LEFT RIGHT",
		"RPOPLPUSH other long", "LMPOP 2 none short LEFT; RPUSH short x", "BLPOP none stays 0", "BRPOP stays 0",
		"LTRIM stays 1 -2", "LTRIM short 0 -1",
	)
}

// TestCutsAreShort: when a command removes much of a long list, it removes whole subtrees. So the turn does not grow
// with the list.
func TestCutsAreShort(t *testing.T) {
	const n = 200_000
	for _, line := range []string{"LTRIM l 99990 100009", "LTRIM l 0 9", "LTRIM l -10 -1", "LTRIM l 5 3", "LPOP l 100"} {
		const limit = 20 * time.Millisecond // a walk over all leaves takes longer, the cut about 20 µs
		best := time.Hour
		for range 3 { // another process may use the processor
			core, space := newCore(t)
			fill(core, "l", n)
			core.Mute = true
			cl := core.Client(2)
			began := time.Now()
			core.Serve(cl, commandtest.Words(line))
			best = min(best, time.Since(began))
			pending, _ := space.Heap().LazyObjects()
			t.Logf("%s of %d elements: %v, %d objects left", line, n, best, pending)
			if best < limit {
				break
			}
		}
		if best > limit {
			t.Errorf("%s took %v", line, best)
		}
	}
}

// BenchmarkEnds pushes to and pops from the ends of a list of 1000 elements and of a million. Watch ns/op; allocs/op is
// 0.
func BenchmarkEnds(b *testing.B) {
	for _, n := range []int{100, 1_000_000} {
		for _, line := range []string{"LPUSH l abc", "RPUSH l abc", "LPUSH l abc; LPOP l", "RPUSH l abc; LPOP l",
			"LMOVE l l LEFT RIGHT"} {
			b.Run(fmt.Sprintf("n=%d/%s", n, strings.ReplaceAll(line, " ", "_")), func(b *testing.B) { benchmark(b, n, line) })
		}
	}
}

// BenchmarkReads measures LRANGE with the ranges of redis-benchmark, and LINDEX in the middle.
func BenchmarkReads(b *testing.B) {
	for _, line := range []string{"LRANGE l 0 99", "LRANGE l 0 599", "LINDEX l 500000", "LRANGE l 500000 500009"} {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) { benchmark(b, 1_000_000, line) })
	}
}

// BenchmarkMiddle changes elements in the middle.
func BenchmarkMiddle(b *testing.B) {
	benchmark(b, 1_000_000, "LSET l 500000 abc; LSET l 500000 element0500000")
}

func benchmark(b *testing.B, n int, lines string) {
	core, _ := newCore(b)
	fill(core, "l", n)
	core.Mute = true
	cl := core.Client(2)
	var requests [][][]byte
	for line := range strings.SplitSeq(lines, ";") {
		requests = append(requests, commandtest.Words(line))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		cl.Out.Reset()
		core.Serve(cl, requests[i%len(requests)])
		i++
	}
}
