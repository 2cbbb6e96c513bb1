package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// threads is how many threads the Go runtime may run at once: one for each loop, and more only while savers and loaders work.
//
// Idle ones are not free. gnet yields before it waits, and the runtime then wakes a thread without work to look for some: at rest, one spare
// thread costs a loop 15 to 20 % of CPU per unpipelined request. Without one, however, Go's scheduler would let a saver keep
// a loop waiting for up to 10 ms, and for as long a reclaimer whose call to the kernel is not back yet. And a reclaimer would free only while
// loops pause between two looks at their sockets, two slices a request at most: a loop that waits in the kernel keeps its thread. So pages
// are touched and given back, and much is freed, with one thread to spare. Changing the number stops the process for some 20 to 100 µs, so
// that is left to a goroutine of its own: with one thread it runs between turns, and prolongs none.
//
// Owner: the turn, and the main goroutine while nobody else takes turns.
type threads struct {
	base   int
	beside int  // how many more there are now
	fixed  bool // the environment says how many

	wanted   atomic.Int32
	applying sync.Mutex
}

const (
	besideLoops = 3   // for savers, reclaimers and duties, so that the kernel shares the core out fairly
	whileLaden  = 1   // for a reclaimer in a call to the kernel, or with much to free
	gcPercent   = 400 // the Go heap holds connections and buffers, a few megabytes: a collection for every four heaps of garbage
)

// start sets the number for a server at rest.
func (t *threads) start(base int) {
	t.base = base
	if t.fixed = os.Getenv("GOMAXPROCS") != ""; !t.fixed {
		runtime.GOMAXPROCS(base)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// follow says what is under way: work beside the loops, or laden reclaimers alone.
func (t *threads) follow(working, laden bool) {
	beside := 0
	switch {
	case working:
		beside = besideLoops
	case laden:
		beside = whileLaden
	}
	if t.fixed || beside == t.beside {
		return
	}
	t.beside = beside
	t.wanted.Store(int32(t.base + beside))
	go t.apply()
}

// apply sets the number that was wanted last.
func (t *threads) apply() {
	t.applying.Lock()
	defer t.applying.Unlock()
	runtime.GOMAXPROCS(int(t.wanted.Load()))
}
