// Package queue is a bounded queue that many goroutines put into and one takes from, without locks.
//
// Owner: any goroutine puts; exactly one at a time takes.
// Never: blocks, grows or allocates after New. A full queue says so, and the producer finds its own way to slow down (R5).
// Start here.
package queue

import "sync/atomic"

// A Queue is a ring whose places say themselves whose turn they are. Source: Dmitry Vyukov, "Bounded MPMC queue".
//
//	place i:  sequence == position       free for the producer of position
//	          sequence == position + 1   filled, for the consumer at position
//	          sequence == position + n   taken, free for the producer one round later
//
// Q1. A place's value is touched only by the one whose turn its sequence says it is.
// Q2. Positions only grow; a place is position & (n-1).
type Queue[T any] struct {
	places []place[T]
	_      [64]byte // producers and the consumer write to lines of their own
	put    atomic.Uint64
	_      [56]byte
	take   atomic.Uint64
	_      [56]byte
}

type place[T any] struct {
	sequence atomic.Uint64
	value    T
}

// New returns an empty queue with room for n values, rounded up to a power of two.
func New[T any](n int) *Queue[T] {
	size := 2
	for size < n {
		size *= 2
	}
	q := &Queue[T]{places: make([]place[T], size)}
	for i := range q.places {
		q.places[i].sequence.Store(uint64(i))
	}
	return q
}

// Put appends v, unless the queue is full.
func (q *Queue[T]) Put(v T) bool {
	position := q.put.Load()
	for {
		p := &q.places[position&uint64(len(q.places)-1)]
		switch behind := int64(p.sequence.Load() - position); {
		case behind == 0:
			if q.put.CompareAndSwap(position, position+1) {
				p.value = v
				p.sequence.Store(position + 1)
				return true
			}
			position = q.put.Load()
		case behind < 0:
			return false
		default:
			position = q.put.Load()
		}
	}
}

// Take removes the oldest value. Not ok: there is none, or the oldest is being put at this moment.
func (q *Queue[T]) Take() (v T, ok bool) {
	position := q.take.Load()
	p := &q.places[position&uint64(len(q.places)-1)]
	if p.sequence.Load() != position+1 {
		return v, false
	}
	var none T
	v, p.value = p.value, none // what was taken is not kept alive by its place
	p.sequence.Store(position + uint64(len(q.places)))
	q.take.Store(position + 1)
	return v, true
}

// Len is how many values are in the queue, those being put included. It may be out of date when it returns.
func (q *Queue[T]) Len() int {
	taken := q.take.Load() // first: so that the difference is never negative
	return int(q.put.Load() - taken)
}

// Cap is how many fit.
func (q *Queue[T]) Cap() int { return len(q.places) }
