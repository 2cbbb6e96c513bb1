package stream

import (
	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

// ack is XACK key group id [id …]. Replies: the number of entries that were pending. Errors: ErrWrongType, errID.
// Propagates as written.
func (h *commands) ack(c *command.Context) error {
	e, err := editCounted(c, c.Args[1])
	if err != nil {
		return err
	}
	acknowledged := 0
	if e != nil {
		w := streams.Edit(e)
		if g := w.Group(c.Args[2]); g != nil {
			ids, err := h.parseIDs(c.Args[3:])
			if err != nil {
				return err
			}
			for _, id := range ids {
				if w.Acknowledge(g, id) {
					acknowledged++
				}
			}
		}
	}
	c.Changed(acknowledged)
	c.Reply.Int(int64(acknowledged))
	return nil
}

// pending is XPENDING key group [[IDLE ms] start end count [consumer]].
//
// Replies, without a range: the number of pending entries, the least and greatest ID, the number for each consumer.
// With a range, for each entry: ID, consumer, ms since its delivery, number of deliveries.
// Errors: ErrSyntax, ErrNotInteger, errID, those of the interval, ErrWrongType, NOGROUP.
func pending(c *command.Context) error {
	args := c.Args
	if len(args) != 3 && (len(args) < 6 || len(args) > 9) {
		return protocol.ErrSyntax
	}
	var o pendingOptions
	if len(args) > 3 {
		if err := o.parse(args); err != nil {
			return err
		}
	}
	v, err := lookup(c, args[1])
	if err != nil {
		return err
	}
	var g *streams.Group
	if v.Exists() {
		g = streams.Of(v).Group(args[2])
	}
	switch {
	case g == nil:
		return errNoKeyOrGroup(args[1], args[2])
	case len(args) == 3:
		replySummary(c.Reply, g)
	default:
		o.reply(c, g)
	}
	return nil
}

func replySummary(r *protocol.Reply, g *streams.Group) {
	r.Array(4)
	r.Int(int64(g.Pending()))
	if g.Pending() == 0 {
		r.Null()
		r.Null()
		r.NullArray()
		return
	}
	replyID(r, g.FirstPending())
	replyID(r, g.LastPending())
	mark, n := r.Mark(), 0
	for owner := range g.All {
		if owner.Pending() > 0 && !owner.Hidden() {
			r.Array(2)
			r.Bulk(owner.Name())
			r.BulkInt(int64(owner.Pending()))
			n++
		}
	}
	r.ArrayAt(mark, n)
}

// idleOf returns how long p has been idle, in ms. It returns -1 if p was given back.
func idleOf(c *command.Context, p *streams.Pending) int64 {
	if p.Given() {
		return -1
	}
	return max(c.Now-p.Time, 0)
}

type pendingOptions struct {
	idleMs   int64
	from, to streams.ID
	count    uint64
	consumer []byte
}

func (o *pendingOptions) parse(args [][]byte) (err error) {
	at := 3
	if command.Is(args[3], "IDLE") {
		if o.idleMs, err = command.Int(args[4]); err != nil {
			return err
		}
		if len(args) < 8 {
			return protocol.ErrSyntax
		}
		at = 5
	}
	if o.count, err = parseCount(args[at+2]); err != nil {
		return err
	}
	if o.from, o.to, err = parseRange(args[at], args[at+1]); err != nil {
		return err
	}
	if at+3 < len(args) {
		o.consumer = args[at+3]
	}
	return nil
}

func (o *pendingOptions) reply(c *command.Context, g *streams.Group) {
	r := c.Reply
	var cur streams.PendingCursor
	if o.consumer == nil {
		g.From(&cur, o.from)
	} else if owner := g.Consumer(o.consumer); owner != nil {
		g.FromOf(&cur, owner, o.from)
	} else {
		r.Array(0)
		return
	}
	mark, n := r.Mark(), uint64(0)
	var p streams.Pending
	for n < o.count && cur.Next(&p) && !o.to.Less(p.ID) {
		idle := idleOf(c, &p)
		if o.idleMs != 0 && idle < o.idleMs && idle != -1 {
			continue
		}
		r.Array(4)
		replyID(r, p.ID)
		r.Bulk(p.Consumer())
		r.Int(idle)
		r.Uint(p.Count)
		n++
	}
	r.ArrayAt(mark, int(n))
}
