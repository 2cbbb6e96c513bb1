package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Threads is how many threads the Go runtime may run at once: one for each loop, and more only for these reasons.
//
// Few turns. The runtime wakes an idle thread to look for work each time that gnet yields. A busy loop then pays 15 to
// 20 % of CPU per unpipelined request. Without an idle thread, the runtime's monitor takes the place of each loop that
// waits for some 40 µs. Then it wakes two threads that have no work. At 500 requests a second a request costs 110 to
// 132 µs of CPU instead of 52 to 87. So there is one spare thread while turns are few.
//
// Rare turns of one loop get no spare thread. With a spare thread the monitor takes the place of a waiting loop only
// after 10 ms, and checks 50 times until then. At 50 requests a second this costs 1.2 to 1.4 ms of CPU each instead of
// 0.14 to 0.19. With several loops the place of a sleeping loop serves the others. Turns for duties count, too.
//
// Other work. Without a spare thread, Go's scheduler would let a saver delay a loop for 10 ms. So would a reclaimer in
// the kernel. A reclaimer would also free only while loops pause between two looks at their sockets.
//
// TLS handshakes compute beside the loops, for a millisecond and more at a time. They have threads while there are
// some, and for a while after that.
//
// A change of the number stops the process for some 20 to 100 µs, so a goroutine makes it between turns.
//
// Owner: the turn, and the main goroutine before turns begin.
type Threads struct {
	base  atomic.Int32
	extra int  // present number of threads in addition to the loops'
	fixed bool // the environment sets the number

	waits bool // loops give up their place while they wait
	turns uint64
	calm  int // ticks in a row with few turns
	still int // ticks in a row with rare turns, until a tick has twice as many

	greeters int // handshakes that compute at a time
	greeting int // ticks for which handshakes may still have threads

	wanted   atomic.Int32
	applying sync.Mutex
	under    sync.WaitGroup // waits for calls of apply
}

const (
	whileWorking = 3 // for savers, reclaimers and duties: the kernel then shares the core fairly
	whileLaden   = 1 // for a reclaimer in a call to the kernel, or with much to free
	whileCalm    = 1
	fewTurns     = 1000 // of 100 ms
	rareTurns    = 12   // of 100 ms: some waits are longer than 10 ms
	greetTicks   = 20   // threads for handshakes stay for this long afterwards
	calmTicks    = 5    // needed in a row: a pause between two loads is shorter
	// The Go heap holds connections and buffers, a few megabytes. The collector runs when there is four times as much
	// garbage.
	gcPercent = 400
)

// Start sets the number of threads for busy loops.
func (t *Threads) Start(base int, waits bool) {
	t.waits = waits
	t.base.Store(int32(base))
	if t.fixed = os.Getenv("GOMAXPROCS") != ""; !t.fixed {
		runtime.GOMAXPROCS(base)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// Greet sets how many TLS handshakes compute now.
func (t *Threads) Greet(greeters int) { t.greeters, t.greeting = greeters, greetTicks }

// Tick gets the number of turns so far, ten times a second.
func (t *Threads) Tick(turns uint64) {
	fresh := turns - t.turns
	t.turns = turns
	t.greeting = max(0, t.greeting-1)
	if fresh < fewTurns {
		t.calm++
	} else {
		t.calm = 0
	}
	switch {
	case fresh < rareTurns:
		t.still++
	case fresh >= 2*rareTurns || t.still < calmTicks:
		// A rate between the two limits changes nothing, because each change stops the world.
		t.still = 0
	}
}

// Spare adds one thread at once, until the next tick decides. Any goroutine.
func (t *Threads) Spare() {
	if t.fixed {
		return
	}
	t.applying.Lock()
	defer t.applying.Unlock()
	if base := int(t.base.Load()); runtime.GOMAXPROCS(0) <= base {
		runtime.GOMAXPROCS(base + whileLaden)
	}
}

// Follow sets which work runs: savers and other long work, or only reclaimers with much to free.
func (t *Threads) Follow(working, laden bool) {
	extra := 0
	switch {
	case working:
		extra = whileWorking
	case laden:
		extra = whileLaden
	case t.waits && t.calm >= calmTicks && (t.base.Load() > 1 || t.still < calmTicks):
		extra = whileCalm
	}
	if t.greeting > 0 {
		extra = max(extra, t.greeters)
	}
	if t.fixed || extra == t.extra {
		return
	}
	t.extra = extra
	t.want()
}

// Rebase sets another number of threads for busy loops.
func (t *Threads) Rebase(base int) {
	t.base.Store(int32(base))
	if !t.fixed {
		t.want()
	}
}

// want has the present number applied soon.
func (t *Threads) want() {
	t.wanted.Store(t.base.Load() + int32(t.extra))
	t.under.Go(t.apply)
}

// apply sets the number that was chosen last.
func (t *Threads) apply() {
	t.applying.Lock()
	defer t.applying.Unlock()
	runtime.GOMAXPROCS(int(t.wanted.Load()))
}
