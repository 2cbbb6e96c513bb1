package server

import (
	"runtime"

	"spindle/engine"
	"spindle/engine/data/memory"
	"spindle/engine/part"
	"spindle/internal/process"
	"spindle/reactor"
)

// A crew is the threads of the process. It has as many as the work under way needs. It changes inside turns.
type crew struct {
	process.Threads
	core        *engine.Core
	heap        *memory.Heap
	need        func() part.Need
	handshaking func() bool // clients do TLS handshakes
}

// count has as many threads as what is under way needs.
func (c *crew) count() {
	need := c.need()
	c.Follow(c.heap.Holding() || c.core.Lent() || need == part.Working, c.core.Laden() || need == part.Laden)
}

// greet has threads beside the loops while a TLS handshake computes. It takes a turn.
func (c *crew) greet() {
	c.core.Do(func() {
		c.Greet(reactor.Handshakers())
		c.count()
	})
}

// listeners are what the core tells the crew.
func (c *crew) listeners() part.Listeners {
	return part.Listeners{Order: part.Later,
		Tick: func(int64) {
			c.Tick(c.core.Turns())
			if c.handshaking() {
				c.Greet(reactor.Handshakers())
			}
			c.count()
		},
		Frozen: func() { c.Follow(true, false) }, Lent: c.count, Laden: c.count}
}

// busyThreads is one for each loop. waits says that loops wait as the runtime knows. Our own loop does not; netpoll's
// goroutines run wherever there is room.
func busyThreads(loops int, backend reactor.Backend) (n int, waits bool) {
	switch backend {
	case reactor.Epoll:
		return loops + 1, false
	case reactor.Netpoll:
		return max(loops, runtime.NumCPU()), false
	}
	return loops, true
}
