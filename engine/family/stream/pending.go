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
		return answerSummary(c, g)
	}
	return o.answer(c, g)
}

func answerSummary(c *command.Context, g *streams.Group) error {
	if c.IsLong(int(g.Consumers())) {
		return c.ReadBeside(func(r *command.Reading) error {
			replySummary(r, g)
			return nil
		})
	}
	replySummary(c.Inline(), g)
	return nil
}

func replySummary(at *command.Reading, g *streams.Group) {
	r := at.Reply
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
		at.Step()
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
func idleOf(now int64, p *streams.Pending) int64 {
	if p.Given() {
		return -1
	}
	return max(now-p.Time, 0)
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

// idleReads is the number of pending entries that cost as much as a replied one if IDLE leaves them out.
const idleReads = 4

// answer replies the pending entries of g, or of a consumer, that the options name.
func (o pendingOptions) answer(c *command.Context, g *streams.Group) error {
	owner, n := (*streams.Consumer)(nil), g.Pending()
	if o.consumer != nil {
		if owner = g.Consumer(o.consumer); owner == nil {
			c.Reply.Array(0)
			return nil
		}
		n = owner.Pending()
	}
	if o.idleMs != 0 {
		n = max(n/idleReads, min(n, o.count))
	} else {
		n = min(n, o.count)
	}
	if c.IsLong(int(n)) {
		return c.ReadBeside(func(r *command.Reading) error {
			o.reply(r, g, owner)
			return nil
		})
	}
	o.reply(c.Inline(), g, owner)
	return nil
}

// reply replies pending entries of owner, or of all consumers of g if owner is nil.
func (o pendingOptions) reply(at *command.Reading, g *streams.Group, owner *streams.Consumer) {
	r := at.Reply
	var cur streams.PendingCursor
	if owner == nil {
		g.From(&cur, o.from)
	} else {
		g.FromOf(&cur, owner, o.from)
	}
	mark, n := r.Mark(), uint64(0)
	var p streams.Pending
	for n < o.count && cur.Next(&p) && !o.to.Less(p.ID) {
		at.Step()
		idle := idleOf(at.Now, &p)
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
