package stream

import (
	"math"

	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
)

// deliver replies the entries of the stream at key to a consumer. It returns false if there are none. after is an ID in
// the consumer's history, or MaxID for entries that no consumer has received.
func (h *commands) deliver(c *command.Context, r *reading, key []byte, after streams.ID) bool {
	e, err := editCounted(c, key)
	if e == nil || err != nil {
		return false
	}
	w := streams.Edit(e)
	g := w.Group(r.group)
	history := after != streams.MaxID
	fresh := !history && w.Len() > 0 && g.LastID().Less(w.LastValid())
	owner, created := consumer(c, &w, g, key, r.consumer)
	if created && r.noAck {
		propagateConsumer(c, key, r.group, r.consumer)
	}
	start := c.Reply.Mark()
	switch {
	case history:
		begin(c.Reply, key)
		from, _ := after.Next()
		if replyHistory(c, r, &w, g, owner, from) {
			return true
		}
		c.Reply.Rollback(start)
	case fresh || r.claims:
		begin(c.Reply, key)
		mark, n := c.Reply.Mark(), uint64(0)
		if r.claims {
			n = h.deliverIdle(c, r, key, &w, g, owner)
		}
		if fresh && (r.count == 0 || n < r.count) {
			n += deliverNew(c, r, key, &w, g, owner, n)
		}
		if n > 0 {
			c.Reply.ArrayAt(mark, int(n))
			return true
		}
		c.Reply.Rollback(start)
	}
	return false
}

// deliverNew replies the entries that the group has not read, and records their delivery. given is the number of
// entries of this stream already in the reply. It returns the number of entries that it replied.
func deliverNew(c *command.Context, r *reading, key []byte, w *streams.Writer, g *streams.Group,
	owner *streams.Consumer, given uint64) (n uint64) {
	from, _ := g.LastID().Next()
	var it streams.Iterator
	for w.Range(&it, from, streams.MaxID, false); it.Next() && r.allows(c.Reply, &it); {
		w.Advance(g, it.ID)
		if r.claims {
			replyClaimed(c, &it, 0, 0)
		} else {
			replyEntry(c.Reply, &it)
		}
		r.given++
		if !r.noAck {
			w.Deliver(g, owner, it.ID, c.Now, 1)
			w.Activate(owner, c.Now)
			propagateClaim(c, key, r.group, r.consumer, it.ID, c.Now, 1, g.LastID())
		}
		if n++; given+n == r.count {
			break
		}
	}
	if n > 0 {
		propagateGroup(c, key, g, r.group)
		c.Changed(1)
	}
	return n
}

// replyClaimed replies an entry with its idle time and its number of deliveries.
func replyClaimed(c *command.Context, it *streams.Iterator, idleMs int64, count uint64) {
	c.Reply.Array(4)
	replyBody(c.Reply, it)
	c.Reply.Int(idleMs)
	c.Reply.Uint(count)
}

// deliverIdle replies the pending entries that have been idle for long enough, and gives them to owner. It removes
// pending entries whose entry was deleted from the stream. It returns the number of entries that it replied.
func (h *commands) deliverIdle(c *command.Context, r *reading, key []byte, w *streams.Writer, g *streams.Group,
	owner *streams.Consumer) (n uint64) {
	most := uint64(math.MaxInt)
	if r.count > 0 {
		most = min(most, r.count)
	}
	if r.maxCount > 0 {
		most = min(most, r.maxCount-r.given)
	}
	h.findIdle(c, r, key, w, g, int(most))
	for i := range h.idle {
		p := &h.idle[i]
		var it streams.Iterator
		w.Range(&it, p.ID, p.ID, false)
		if !it.Next() || !r.allows(c.Reply, &it) {
			break
		}
		replyClaimed(c, &it, idleOf(c.Now, p), p.Count)
		r.given++
		n++
		w.Deliver(g, owner, p.ID, c.Now, oneMore(p.Count))
		w.Activate(owner, c.Now)
		propagateClaim(c, key, r.group, r.consumer, p.ID, c.Now, oneMore(p.Count), g.LastID())
		c.Changed(1)
	}
	return n
}

// findIdle stores in h.idle up to most pending entries that have been idle for long enough, the longest idle first. It
// removes pending entries before them whose entry was deleted from the stream.
//
// Cost: a walk of all pending entries. It is repeated while deleted entries take the place of others. Each walk then
// finds twice as many, up to idleAtOnce.
func (h *commands) findIdle(c *command.Context, r *reading, key []byte, w *streams.Writer, g *streams.Group, most int) {
	for size := most; ; size = max(size, min(2*size, idleAtOnce)) {
		h.idle = w.Idle(g, max(c.Now-r.idleMs, 0), size, h.idle[:0])
		more, found := len(h.idle) == size, 0
		for i := 0; i < len(h.idle) && found < most; i++ {
			p := h.idle[i]
			if w.Has(p.ID) {
				h.idle[found] = p
				found++
				continue
			}
			propagateClaim(c, key, r.group, p.Consumer(), p.ID, p.Time, p.Count, g.LastID())
			w.Acknowledge(g, p.ID)
			c.Changed(1)
		}
		if h.idle = h.idle[:found]; found == most || !more {
			return
		}
	}
}

// idleAtOnce bounds the pending entries that one walk finds in addition to those wanted.
const idleAtOnce = 1 << 16

// replyHistory replies the consumer's pending entries after an ID and counts another delivery. For a deleted entry it
// replies the ID and null. It returns false if a limit of the reply left no room for the first entry.
func replyHistory(c *command.Context, r *reading, w *streams.Writer, g *streams.Group, owner *streams.Consumer,
	from streams.ID) bool {
	mark, n := c.Reply.Mark(), uint64(0)
	var cur streams.PendingCursor
	var p streams.Pending
	for g.FromOf(&cur, owner, from); cur.Next(&p); {
		var it streams.Iterator
		w.Range(&it, p.ID, p.ID, false)
		switch found := it.Next(); {
		case found && r.allows(c.Reply, &it):
			replyEntry(c.Reply, &it)
			w.Redeliver(g, &p, c.Now, oneMore(p.Count))
		case !found && r.allows(c.Reply, nil):
			c.Reply.Array(2)
			replyID(c.Reply, p.ID)
			c.Reply.NullArray()
		default:
			c.Reply.ArrayAt(mark, int(n))
			return n > 0
		}
		r.given++
		if n++; n == r.count {
			break
		}
	}
	c.Reply.ArrayAt(mark, int(n))
	return true
}
