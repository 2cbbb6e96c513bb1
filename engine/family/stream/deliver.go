package stream

import (
	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
)

// deliver answers what the stream at key has for a consumer of a group; false says that there is nothing. after is an
// ID of its history, or MaxID for what was not delivered to anybody.
func (h *commands) deliver(c *command.Context, r *reading, key []byte, after streams.ID) bool {
	e, err := editCounted(c, key)
	if e == nil || err != nil {
		return false
	}
	w := streams.Edit(e)
	g := w.Group(r.group)
	history := after != streams.MaxID
	fresh := !history && w.Len() > 0 && g.LastID().Less(w.LastValid())
	who, created := consumer(c, &w, g, key, r.consumer)
	if created && r.noAck {
		propagateConsumer(c, key, r.group, r.consumer)
	}
	switch {
	case history:
		begin(c, key)
		from, _ := after.Next()
		replyHistory(c, &w, g, who, from, r.count)
	case fresh:
		begin(c, key)
		deliverNew(c, r, key, &w, g, who)
	default:
		return false
	}
	return true
}

// deliverNew answers the entries the group has not read, and notes that they were delivered.
func deliverNew(c *command.Context, r *reading, key []byte, w *streams.Writer, g *streams.Group,
	who *streams.Consumer) {
	mark, n := c.Reply.Mark(), uint64(0)
	from, _ := g.LastID().Next()
	var it streams.Iterator
	for w.Range(&it, from, streams.MaxID, false); it.Next(); {
		w.Advance(g, it.ID)
		replyEntry(c.Reply, &it)
		if !r.noAck {
			w.Deliver(g, who, it.ID, c.Now, 1)
			w.Activate(who, c.Now)
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

// replyHistory answers what is pending with a consumer, from an ID on, and counts it as delivered again; of entries
// that are no more it answers the ID and nil.
func replyHistory(c *command.Context, w *streams.Writer, g *streams.Group, who *streams.Consumer,
	from streams.ID, count uint64) {
	mark, n := c.Reply.Mark(), uint64(0)
	var cur streams.PendingCursor
	var p streams.Pending
	for g.FromOf(&cur, who, from); cur.Next(&p); {
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
