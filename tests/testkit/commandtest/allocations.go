package commandtest

import (
	"runtime"
	"strings"
	"testing"
)

const (
	runs   = 1000
	strays = 5 // allocations by the runtime that may happen during the runs
)

// allocations returns the number of allocations in n runs of f, after one run that is not counted. It does not use
// testing.AllocsPerRun, which rounds the mean down: an allocation in every other run would not show.
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

// NoAllocations fails the test if commands in steady state allocate memory on the Go heap. A case is one request, or
// several separated by semicolons, of words separated by spaces. Requests that undo each other are one case, so that
// the case can be repeated. A request with an error reply fails the test, because it would measure nothing. Afterwards
// the core is mute.
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
