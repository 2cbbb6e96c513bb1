package commandtest

import (
	"strings"
	"testing"
)

// NoAllocations holds a core to its rule that commands in steady state leave nothing to the garbage collector. A case is one request or
// several parted by semicolons, of words parted by spaces; requests that undo each other are one case, so that it can be repeated.
// A request that answers an error fails: it would have shown nothing. The core is mute from here on.
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
		if n := testing.AllocsPerRun(1000, func() {
			for _, args := range requests {
				cl.Out.Reset()
				core.Serve(cl, args)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times", each, n)
		}
	}
}
