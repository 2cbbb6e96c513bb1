package stream

import (
	"math"

	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

// A claiming transfers pending entries of a group to owner, with the options of the command.
type claiming struct {
	c          *command.Context
	w          streams.Writer
	g          *streams.Group
	key, group []byte
	owner      *streams.Consumer
	idleMs     int64 // the least time an entry must have been pending; below 1: no limit
	time       int64 // of delivery, Unix ms
	retries    int64 // the new count of deliveries; -1 means one more than before
	justID     bool  // reply IDs only, and do not count a delivery
}

// open finds key and group. g stays nil if one is missing.
//
// Errors: ErrWrongType.
func (x *claiming) open(c *command.Context) error {
	x.c, x.key, x.group = c, c.Args[1], c.Args[2]
	e, err := editCounted(c, x.key)
	if e == nil || err != nil {
		return err
	}
	x.w = streams.Edit(e)
	x.g = x.w.Group(x.group)
	return nil
}

// claimer finds or makes the consumer that gets the entries. If a replica takes over entries that were given back, no
// client has used that consumer's name.
func (x *claiming) claimer(name []byte) {
	seen := int64(0)
	if was := x.g.Consumer(name); was != nil {
		seen = was.Seen()
	}
	x.owner, _ = consumer(x.c, &x.w, x.g, x.key, name)
	if len(name) == 0 && x.time == 0 {
		x.w.See(x.owner, seen)
	}
}

// drop removes a pending entry whose entry was deleted from the stream.
func (x *claiming) drop(p *streams.Pending) {
	propagateClaim(x.c, x.key, x.group, p.Consumer(), p.ID, p.Time, p.Count, x.g.LastID())
	x.w.Acknowledge(x.g, p.ID)
	x.c.Changed(1)
}

// assign assigns a pending entry to x.owner and replies it.
func (x *claiming) assign(p *streams.Pending) {
	p.Time = x.time
	if x.retries >= 0 {
		p.Count = uint64(x.retries)
	} else if !x.justID {
		p.Count = oneMore(p.Count)
	}
	x.w.Deliver(x.g, x.owner, p.ID, p.Time, p.Count)
	if x.justID {
		replyID(x.c.Reply, p.ID)
	} else {
		replyOne(x.c.Reply, x.w.Stream, p.ID)
	}
	if len(x.owner.Name()) > 0 || p.Time > 0 { // else a replica takes over an entry that was given back
		x.w.Activate(x.owner, x.c.Now)
	}
	propagateClaim(x.c, x.key, x.group, x.owner.Name(), p.ID, p.Time, p.Count, x.g.LastID())
	x.c.Changed(1)
}

// oneMore returns count+1, the number of deliveries after one more.
func oneMore(count uint64) uint64 { return min(count+1, math.MaxInt64) }

// claim is
//
//	XCLAIM key group consumer min-idle-time id [id …] [IDLE ms] [TIME unix-ms] [RETRYCOUNT count]
//	  [FORCE] [JUSTID] [LASTID id]
//
// Replies: an array of the claimed entries, or of their IDs.
// Errors: ErrWrongType, NOGROUP, those of the options.
// Propagates: XCLAIM of each entry that was claimed or no longer exists. If only LASTID moved the group, it propagates
// XGROUP SETID.
func (h *commands) claim(c *command.Context) error {
	var x claiming
	if err := x.open(c); err != nil {
		return err
	}
	if x.g == nil {
		return errNoKeyOrGroup(x.key, x.group)
	}
	idle, err := command.Int(c.Args[4])
	if err != nil {
		return errClaimIdle
	}
	x.idleMs = idle
	h.ids = h.ids[:0]
	for _, a := range c.Args[5:] {
		id, err := parseID(a, 0)
		if err != nil {
			break // the options begin here
		}
		h.ids = append(h.ids, id)
	}
	o := claimOptions{time: -1, retries: -1}
	if err := o.parse(c.Args[5+len(h.ids):], c.Now); err != nil {
		return err
	}
	moved := x.g.LastID().Less(o.last)
	if moved {
		x.w.SetGroup(x.g, o.last, x.g.EntriesRead())
	}
	if o.time < 0 || o.time > c.Now {
		o.time = c.Now
	}
	x.time, x.retries, x.justID = o.time, o.retries, o.justID
	x.claimer(c.Args[3])
	c.PropagateNothing()
	mark, n := c.Reply.Mark(), 0
	for _, id := range h.ids {
		p := streams.Pending{ID: id, Count: 1} // the entry that FORCE would make
		was := x.g.Lookup(id, &p)
		if !x.w.Has(id) {
			if was {
				x.drop(&p)
				moved = false
			}
			continue
		}
		if !was && !o.force || was && x.idleMs > 0 && c.Now-p.Time < x.idleMs && !p.Given() {
			continue
		}
		x.assign(&p)
		moved = false
		n++
	}
	if moved {
		propagateGroup(c, x.key, x.g, x.group)
		c.Changed(1)
	}
	c.Reply.ArrayAt(mark, n)
	return nil
}

type claimOptions struct {
	time, retries int64
	force, justID bool
	last          streams.ID
}

func (o *claimOptions) parse(args [][]byte, nowMs int64) (err error) {
	for i := 0; i < len(args); i++ {
		arg, more := args[i], i+1 < len(args)
		switch {
		case command.Is(arg, "FORCE"):
			o.force = true
		case command.Is(arg, "JUSTID"):
			o.justID = true
		case more && command.Is(arg, "IDLE"):
			i++
			if o.time, err = command.Int(args[i]); err != nil {
				return errClaimIdleOption
			}
			o.time = nowMs - o.time
		case more && command.Is(arg, "TIME"):
			i++
			if o.time, err = command.Int(args[i]); err != nil {
				return errClaimTime
			}
		case more && command.Is(arg, "RETRYCOUNT"):
			i++
			if o.retries, err = command.Int(args[i]); err != nil {
				return errClaimRetryCount
			}
		case more && command.Is(arg, "LASTID"):
			i++
			if o.last, err = parseID(args[i], 0); err != nil {
				return err
			}
		default:
			return errClaimOption(arg)
		}
	}
	return nil
}

const (
	defaultClaimed = 100
	attempts       = 10      // entries examined per entry of the reply
	mostClaimed    = 1 << 32 // above it Redis has no memory for the IDs of deleted entries
	countLimit     = maxLong / 16
)

// autoClaim is XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID].
//
// Replies: the ID from which to continue, 0-0 at the end; the claimed entries, or their IDs; the IDs of deleted
// entries.
// Errors: those of the options, ErrWrongType, NOGROUP.
// Propagates: XCLAIM of each entry that was claimed or no longer exists.
func (h *commands) autoClaim(c *command.Context) error {
	x := claiming{retries: -1, time: c.Now}
	idle, err := command.Int(c.Args[4])
	if err != nil {
		return errAutoClaimIdle
	}
	x.idleMs = idle
	from, open, err := parseBound(c.Args[5], 0)
	if err != nil {
		return err
	}
	if open {
		var ok bool
		if from, ok = from.Next(); !ok {
			return errIntervalStart
		}
	}
	count := int64(defaultClaimed)
	for i := 6; i < len(c.Args); i++ {
		switch {
		case i+1 < len(c.Args) && command.Is(c.Args[i], "COUNT"):
			i++
			if count, err = command.Int(c.Args[i]); err != nil || count < 1 || count > countLimit {
				return errAutoClaimCount
			}
		case command.Is(c.Args[i], "JUSTID"):
			x.justID = true
		default:
			return protocol.ErrSyntax
		}
	}
	if err := x.open(c); err != nil {
		return err
	}
	if x.g == nil {
		return errNoKeyOrGroup(x.key, x.group)
	}
	if count > mostClaimed {
		return errAutoClaimMemory
	}
	x.owner, _ = consumer(c, &x.w, x.g, x.key, c.Args[3])
	c.PropagateNothing()
	h.sweep(&x, from, count)
	return nil
}

// A step is XAUTOCLAIM's action on one entry.
type step struct {
	id   streams.ID
	gone bool // the entry was deleted; otherwise it is claimed
}

// sweep visits the pending entries from the ID from on, and replies for autoClaim. The reply begins with the next ID,
// so it collects all steps first.
func (h *commands) sweep(x *claiming, from streams.ID, count int64) {
	var cur streams.PendingCursor
	var p streams.Pending
	h.steps = h.steps[:0]
	gone := 0
	x.g.From(&cur, from)
	for tries := count * attempts; tries > 0 && count > 0 && cur.Next(&p); tries-- {
		if !x.w.Has(p.ID) {
			h.steps = append(h.steps, step{p.ID, true})
			gone++
		} else if x.idleMs > 0 && x.c.Now-p.Time < x.idleMs && !p.Given() {
			continue
		} else {
			h.steps = append(h.steps, step{id: p.ID})
		}
		count--
	}
	end := streams.ID{}
	if cur.Next(&p) {
		end = p.ID
	}
	r := x.c.Reply
	r.Array(3)
	replyID(r, end)
	r.Array(len(h.steps) - gone)
	for _, s := range h.steps {
		if x.g.Lookup(s.id, &p); s.gone {
			x.drop(&p)
		} else {
			x.assign(&p)
		}
	}
	r.Array(gone)
	for _, s := range h.steps {
		if s.gone {
			replyID(r, s.id)
		}
	}
}
