package overview

import (
	"runtime"

	"spindle/engine"
	"spindle/engine/data/memory"
	"spindle/engine/part"
	"spindle/internal/process"
	"spindle/reactor"
)

// Threads are the threads of the process, as many as the present work needs. DESIGN.md has the states.
type Threads struct {
	process.Threads
	Core        *engine.Core
	Heap        *memory.Heap
	Need        func() part.Need
	Handshaking func() bool // clients do TLS handshakes
}

// Count sets the number that the present work needs.
func (c *Threads) Count() {
	need := c.Need()
	c.Follow(c.Heap.Holding() || c.Core.Lent() || need == part.Working, c.Core.Laden() || need == part.Laden)
}

// GreetTLS adds threads to those of the loops while a TLS handshake computes. It takes a turn.
func (c *Threads) GreetTLS() {
	c.Core.Do(func() {
		c.Greet(reactor.Handshakers())
		c.Count()
	})
}

// Listeners returns the listeners for events that change the number.
func (c *Threads) Listeners() part.Listeners {
	return part.Listeners{Order: part.Later,
		Tick: func(int64) {
			c.Tick(c.Core.Turns())
			if c.Handshaking() {
				c.Greet(reactor.Handshakers())
			}
			c.Count()
		},
		Frozen: func() { c.Follow(true, false) }, Lent: c.Count, Laden: c.Count}
}

// Serve sets the number of loops that serve. It takes a turn.
func (c *Threads) Serve(loops int, backend reactor.Backend) {
	busy, _ := BusyThreads(loops, backend)
	c.Core.Do(func() { c.Rebase(busy) })
}

// BusyThreads returns the number of threads of a busy server, one for each loop. waits is true if the Go runtime knows
// when a loop waits. It does not know this for the loops of epoll and io_uring. netpoll's goroutines run on any free
// thread.
func BusyThreads(loops int, backend reactor.Backend) (n int, waits bool) {
	switch backend {
	case reactor.Epoll, reactor.IOUring:
		return loops + 1, false
	case reactor.Netpoll:
		return max(loops, runtime.NumCPU()), false
	}
	return loops, true
}
