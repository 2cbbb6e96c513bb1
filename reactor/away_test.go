package reactor

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"spindle/protocol"
)

// apart makes serveHandler run most batches on goroutines other than their loop's.
var apart bool

// An awayHandler is a Combiner that publishes most batches. Its own goroutines run them, at once or slightly later.
type awayHandler struct {
	protocol.Handler
	always   bool // it publishes all of them
	mu       sync.Mutex
	outboxes []*protocol.Outbox
	away     atomic.Int64
}

func newAwayHandler(h protocol.Handler) *awayHandler { return &awayHandler{Handler: h} }

func (h *awayHandler) Join(ring func()) *protocol.Outbox {
	o := protocol.NewOutbox(ring)
	h.mu.Lock()
	h.outboxes = append(h.outboxes, o)
	h.mu.Unlock()
	return o
}

func (h *awayHandler) Offer(b *protocol.Batch, o *protocol.Outbox) (ran bool) {
	if !h.always && rand.N(8) == 0 {
		h.Serve(b)
		return true
	}
	o.Publish(b)
	h.away.Add(1)
	go func() {
		for range rand.N(20) {
			runtime.Gosched()
		}
		for b := o.Take(); b != nil; {
			next := b.Next()
			h.Serve(b)
			b.Return()
			b = next
		}
		o.Ring()
	}()
	return false
}

func (h *awayHandler) Help() {}

// Still implements protocol.Mover. The batches that are away hold the other handler's turn while they run.
func (h *awayHandler) Still(f func(may func(session any) bool)) { h.Handler.(protocol.Mover).Still(f) }
func (h *awayHandler) TurnTime() int64                          { return 0 }
