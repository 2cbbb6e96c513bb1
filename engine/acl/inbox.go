package acl

import (
	"sync"

	"spindle/protocol"
)

// An Inbox holds refusals of clients that the core does not know, until a turn moves the refusals to a Log. Any
// goroutine.
type Inbox struct {
	mu       sync.Mutex
	entries  []Entry
	overflow [DeniedChannel + 1]int64 // refusals that did not fit, by reason
}

// inboxSize bounds the entries of an Inbox. Past it, refusals are only counted.
const inboxSize = 1000

// Add stores a refusal at nowMs. e provides Reason, Origin, Object, User and Client.
func (b *Inbox) Add(e Entry, nowMs int64) {
	e.Count, e.CreatedMs, e.UpdatedMs = 1, nowMs, nowMs
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.entries) == inboxSize {
		b.overflow[e.Reason]++
		return
	}
	b.entries = append(b.entries, e)
}

// MoveTo moves the refusals to l. For each error reply, it calls count with the number of times it was sent.
func (b *Inbox) MoveTo(l *Log, count func(err error, n int64)) {
	b.mu.Lock()
	entries, overflow := b.entries, b.overflow
	b.entries, b.overflow = nil, [DeniedChannel + 1]int64{}
	b.mu.Unlock()
	for _, e := range entries {
		l.Merge(e)
		count(replyTo(e.Reason), e.Count)
	}
	for reason, n := range overflow {
		if n > 0 { // with a count of 0 INFO would show a line for the error
			l.Count(Reason(reason), n)
			count(replyTo(Reason(reason)), n)
		}
	}
}

// replyTo returns the error that clients get for a reason, without its text.
func replyTo(reason Reason) *protocol.Error {
	if reason == DeniedAuth {
		return errWrongPass
	}
	return errNoPerm
}
