package stream

import (
	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
)

// deliver replies the entries of the stream at key for a consumer; false if there are none. after is an ID in its
// history, or MaxID for entries that no consumer has received.
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
	switch {
	case history:
		begin(c, key)
		from, _ := after.Next()
		replyHistory(c, &w, g, owner, from, r.count)
	case fresh:
		begin(c, key)
		deliverNew(c, r, key, &w, g, owner)
	default:
		return false
	}
	return true
}

// deliverNew replies the entries that the group has not read, and records their delivery.
func deliverNew(c *command.Context, r *reading, key []byte, w *streams.Writer, g *streams.Group,
	owner *streams.Consumer) {
	mark, n := c.Reply.Mark(), uint64(0)
	from, _ := g.LastID().Next()
	var it streams.Iterator
	for w.Range(&it, from, streams.MaxID, false); it.Next(); {
		w.Advance(g, it.ID)
		replyEntry(c.Reply, &it)
		if !r.noAck {
			w.Deliver(g, owner, it.ID, c.Now, 1)
			w.Activate(owner, c.Now)
			propagateClaim(c, key, r.group, r.consumer, it.ID, c.Now, 1, g.LastID())
		}
		if n++; n == r.count {
			break
		}
	}
	c.Reply.ArrayAt(mark, int(n))
	if n > 0 {
		propagateGroup(c, key, g, r.group)
		c.Changed(1)
	}
}

// replyHistory replies the consumer's pending entries after an ID and counts another delivery. For a deleted entry it
// replies the ID and null.
func replyHistory(c *command.Context, w *streams.Writer, g *streams.Group, owner *streams.Consumer,
	from streams.ID, count uint64) {
	mark, n := c.Reply.Mark(), uint64(0)
	var cur streams.PendingCursor
	var p streams.Pending
	for g.FromOf(&cur, owner, from); cur.Next(&p); {
		if replyOne(c.Reply, w.Stream, p.ID) {
			w.Redeliver(g, &p, c.Now, p.Count+1)
		} else {
			c.Reply.Array(2)
			replyID(c.Reply, p.ID)
			c.Reply.NullArray()
		}
		if n++; n == count {
			break
		}
	}
	c.Reply.ArrayAt(mark, int(n))
}
