package reactor

import (
	"sync"

	"spindle/internal/histogram"
	"spindle/protocol"
)

// This file measures how long replies take: from the time when the loop has read a request to the time when its reply
// was sent.
//
//	read ──▶ conn.readAt ──▶ run: what ran, per row ──▶ loop.ran ──▶ the connection's output has left ──▶ timings
//
// reactor.D1. In that time a request waits for the loop, the turn, earlier requests of its pipeline, the log's gate and
// the socket. Later replies of blocked or lent commands are not timed.
// reactor.D2. All requests of an iteration count as read when its first bytes are read. The loop reads the clock then,
// and once more after its writes. Every iteration ends with endIteration, also one without a reply. With io_uring the
// second reading comes before the writes.
// reactor.D3. Requests without a reply are not timed: the core leaves them out of Batch.Ran.

// A timings has a histogram for each row of commands. Any goroutine, under mu.
type timings struct {
	mu   sync.Mutex
	rows []*histogram.H // by protocol.Ran.Row; nil: none has run
}

// A sent is a number of requests of a connection whose replies are on their way.
type sent struct {
	c      *conn
	ran    protocol.Ran
	readAt int64
}

// untimedMost bounds the sent records that are kept while sockets are full. Further requests are not measured.
const untimedMost = 4096

// beganAt returns when the loop read the first bytes of this iteration, in nanoseconds of its clock.
func (l *loop) beganAt() int64 {
	if l.readAt == 0 {
		l.readAt = l.wall.Nanos()
	}
	return l.readAt
}

// noteRan keeps the counts of a batch until its replies were sent.
func (c *conn) noteRan(ran []protocol.Ran) {
	l := c.loop
	if len(l.ran) >= untimedMost {
		return
	}
	for _, r := range ran {
		l.ran = append(l.ran, sent{c, r, c.readAt})
	}
}

// timeReplies measures the replies that were sent. It comes after the writes.
func (l *loop) timeReplies() {
	if len(l.ran) == 0 {
		return
	}
	now := l.wall.Nanos()
	l.repliedAt = now
	t := &l.reactor.timings
	t.mu.Lock()
	left := l.ran[:0]
	for _, s := range l.ran {
		if s.c.out.bytes > 0 && s.c.life != lifeClosed {
			left = append(left, s)
			continue
		}
		t.row(int(s.ran.Row)).Add(now-s.readAt, uint64(s.ran.Calls))
	}
	t.mu.Unlock()
	clear(l.ran[len(left):])
	l.ran = left
}

// row returns the histogram of a row. The caller holds mu.
func (t *timings) row(i int) *histogram.H {
	for i >= len(t.rows) {
		t.rows = append(t.rows, nil)
	}
	if t.rows[i] == nil {
		t.rows[i] = &histogram.H{}
	}
	return t.rows[i]
}

// Timings yields a copy of the histogram of each row that has run, in the order of rows. Any goroutine.
func (r *Reactor) Timings(yield func(row int, h *histogram.H) bool) {
	var rows []histogram.H
	var ids []int
	r.timings.mu.Lock()
	for i, h := range r.timings.rows {
		if h != nil {
			rows, ids = append(rows, *h), append(ids, i)
		}
	}
	r.timings.mu.Unlock()
	for i := range rows {
		if !yield(ids[i], &rows[i]) {
			return
		}
	}
}

// reset forgets all measurements.
func (t *timings) reset() {
	t.mu.Lock()
	t.rows = nil
	t.mu.Unlock()
}
