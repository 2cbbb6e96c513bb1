package protocol

import "sync/atomic"

// An Outbox is where one loop publishes its batches when another goroutine holds the turn. The holder of the turn runs
// them in the loop's place. The loop serves other sockets, and the batches come back to it.
//
//	loop:    parse ─▶ publish ─▶ other sockets … ─▶ Back? ─▶ deliver
//	                     │                            ▲
//	holder:              └──▶ take all ─▶ run each ───┘ ─▶ ring, if the loop rests
//
// protocol.S1. A batch is run once, by the goroutine that took it from the outbox.
// protocol.S2. From publish to Back the batch, its requests and its reply belong to the holder.
// protocol.S3. The loop sets resting before its last look at its batches and at the turn. A holder returns batches, or
// releases the turn, before it looks at resting. So at least one of the two sees what the other did.
type Outbox struct {
	first   atomic.Pointer[Batch] // published batches, newest first
	resting atomic.Bool
	ring    func()
}

// NewOutbox returns the outbox of a loop. ring wakes the loop; it does not block, and any goroutine may call it.
func NewOutbox(ring func()) *Outbox { return &Outbox{ring: ring} }

// Publish offers b to the next holder of the turn. On the loop.
func (o *Outbox) Publish(b *Batch) {
	b.back.Store(false)
	o.push(b)
}

func (o *Outbox) push(b *Batch) {
	for {
		first := o.first.Load()
		b.next = first
		if o.first.CompareAndSwap(first, b) {
			return
		}
	}
}

// Take takes all published batches, as a list that Next walks.
func (o *Outbox) Take() *Batch { return o.first.Swap(nil) }

// PutBack publishes the rest of a list that Take returned again.
func (o *Outbox) PutBack(list *Batch) {
	for list != nil {
		next := list.next
		o.push(list)
		list = next
	}
}

// HasWork reports whether batches are published.
func (o *Outbox) HasWork() bool { return o.first.Load() != nil }

// Next returns the batch after b in the list that Take returned. The holder calls it before Return.
func (b *Batch) Next() *Batch { return b.next }

// Return gives a batch that has run back to its loop. The holder must not touch the batch afterwards.
func (b *Batch) Return() { b.back.Store(true) }

// Back reports whether a published batch has run.
func (b *Batch) Back() bool { return b.back.Load() }

// Rest notes that the loop is about to sleep. On the loop.
func (o *Outbox) Rest() { o.resting.Store(true) }

// Wake notes that the loop is awake again. On the loop.
func (o *Outbox) Wake() {
	if o.resting.Load() {
		o.resting.Store(false)
	}
}

// Ring wakes the loop if it rests.
func (o *Outbox) Ring() {
	if o.resting.Load() && o.resting.Swap(false) {
		o.ring()
	}
}

// A Combiner is a Handler that runs the batches of several loops. A loop that finds the turn taken does not wait.
type Combiner interface {
	Handler
	// Join gives a loop its outbox. ring is as for NewOutbox.
	Join(ring func()) *Outbox
	// Offer does the same as Serve if the turn is free. Otherwise it publishes the batch in o and returns false, and
	// the batch comes back later.
	Offer(b *Batch, o *Outbox) (ran bool)
	// Help runs the published batches, if the turn is free.
	Help()
}
