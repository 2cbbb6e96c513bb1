package commandtest

import (
	"runtime"
	"strings"
	"testing"
)

const (
	runs   = 1000
	strays = 5 // allocations of the runtime's own that may fall into them
)

// allocations is how many there are in n runs of f, after one that is not counted. Not testing.AllocsPerRun, whose mean
// is rounded down: what allocates every other time would show as nothing.
func allocations(n int, f func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// NoAllocations holds a core to its rule that commands in steady state leave nothing to the garbage collector. A case
// is one request or several parted by semicolons, of words parted by spaces. Requests that undo each other are one
// case, so that it can be repeated. A request that answers an error fails: it would have shown nothing. After that the
// core is mute.
func NoAllocations(t *testing.T, core *Core, cases ...string) {
	t.Helper()
	core.Mute = true
	cl := core.Client(2)
	for _, each := range cases {
		var requests [][][]byte
		for line := range strings.SplitSeq(each, ";") {
			requests = append(requests, Words(line))
		}
		for _, args := range requests {
			cl.Out.Reset()
			core.Serve(cl, args)
			for piece := range cl.Out.Pieces {
				if piece[0] == '-' {
					t.Errorf("%q: %s", args, piece)
				}
				break
			}
		}
		if n := allocations(runs, func() {
			for _, args := range requests {
				cl.Out.Reset()
				core.Serve(cl, args)
			}
		}); n > strays {
			t.Errorf("%s allocates %d times in %d runs", each, n, runs)
		}
	}
}
