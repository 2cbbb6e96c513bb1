package stream

import (
	"math"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// A Pending is an entry that was delivered and not acknowledged. An entry that was given back (XNACK) is pending with
// the consumer whose name is empty, since the time 0. Files and replicas of Redis 7.0 can store it in this form. The
// greatest count that can be stored stands for math.MaxInt64, which marks an entry that no consumer can handle.
//
// A group stores it in four words:
//
//	word 0     word 1     word 2                          word 3
//	+----------+----------+------------------+----------+------------------+-----------+
//	| ID's ms  | ID's seq | delivered at: 48 | low : 16 | consumer: Ref 48 | high : 16 |   count = high, low
//	+----------+----------+------------------+----------+------------------+-----------+
//
// The consumer is the block of its name (stream.S5), or 0 until a loader assigns it. Time and count stop at their
// greatest values: the year 10889, and 2^32-1 deliveries.
type Pending struct {
	ID       ID
	Time     int64  // of the last delivery, Unix ms
	Count    uint64 // of deliveries
	consumer memory.Ref
}

const (
	maxTime  = 1<<48 - 1
	maxCount = 1<<32 - 1
	refBits  = 1<<48 - 1
)

// Consumer returns the name of the consumer to which the entry was delivered.
func (p *Pending) Consumer() []byte { return table.MemberKey(p.consumer) }

// Of reports whether the entry was delivered to c.
func (p *Pending) Of(c *Consumer) bool { return p.consumer == c.name }

func pendingOf(r []uint64) Pending {
	p := Pending{ID{r[0], r[1]}, int64(r[2] & maxTime), r[2]>>48 | r[3]>>48<<16, memory.Ref(r[3] & refBits)}
	if p.Count == maxCount {
		p.Count = math.MaxInt64
	}
	return p
}

// Given reports whether the entry was given back, and belongs to no consumer.
func (p *Pending) Given() bool { return p.Time == 0 && p.consumer != 0 && len(p.Consumer()) == 0 }

func (p *Pending) record() [4]uint64 {
	at, count := uint64(p.stored()), min(p.Count, maxCount)
	return [4]uint64{p.ID.Ms, p.ID.Seq, at | count<<48, uint64(p.consumer) | count>>16<<48}
}

// stored returns the time in the form in which a record stores it.
func (p *Pending) stored() int64 { return min(max(p.Time, 0), maxTime) }

func (w *Writer) records(s tree.State, width int) tree.Records {
	return tree.OpenRecords(w.heap, value.KindTree, s, width, w.wide)
}

func probe(id ID) tree.Probe { return tree.Probe{Word0: id.Ms, Word1: id.Seq} }

// A PendingCursor walks the pending entries of a group or a consumer, in the order of their IDs. It is a value for the
// stack.
//
// Lifetime: until the group's pending entries next change, except by Writer.Redeliver.
type PendingCursor struct {
	group *Group
	own   bool // the records are those of a consumer, which have only IDs
	c     tree.Cursor
	ok    bool
}

// From puts cur before the first pending entry of g with an ID of at least from.
func (g *Group) From(cur *PendingCursor, from ID) {
	cur.group, cur.own = g, false
	cur.ok = g.pending.SeekGE(&cur.c, probe(from))
}

// FromOf is From for the pending entries of c, a consumer of g.
func (g *Group) FromOf(cur *PendingCursor, c *Consumer, from ID) {
	cur.group, cur.own = g, true
	cur.ok = c.pending.SeekGE(&cur.c, probe(from))
}

// Next reads the next pending entry into p. It returns false if there is none.
func (cur *PendingCursor) Next(p *Pending) bool {
	if !cur.ok {
		return false
	}
	r := cur.c.Record()
	if cur.own {
		var at tree.Cursor
		id := ID{r[0], r[1]}
		if !cur.group.pending.Find(&at, probe(id)) {
			return false // stream.S4 rules this out
		}
		*p = pendingOf(at.Record())
	} else {
		*p = pendingOf(r)
	}
	cur.ok = cur.c.Next()
	return true
}

// Lookup reads the pending entry with this ID into p. It returns false if the entry is not pending.
func (g *Group) Lookup(id ID, p *Pending) bool {
	var c tree.Cursor
	if !g.pending.Find(&c, probe(id)) {
		return false
	}
	*p = pendingOf(c.Record())
	return true
}

// FirstPending returns the least pending ID, or 0-0 if there is none.
func (g *Group) FirstPending() ID {
	var c tree.Cursor
	if !g.pending.First(&c) {
		return ID{}
	}
	return ID{c.Record()[0], c.Record()[1]}
}

// LastPending returns the greatest pending ID, or 0-0 if there is none.
func (g *Group) LastPending() ID {
	var c tree.Cursor
	if !g.pending.Last(&c) {
		return ID{}
	}
	return ID{c.Record()[0], c.Record()[1]}
}

// Deliver makes id pending with c. The entry was last delivered at time, and count times in all. It may have been
// pending with another consumer. g and c must come from Writer.
func (w *Writer) Deliver(g *Group, c *Consumer, id ID, time int64, count uint64) {
	t := w.records(g.pending, pendingWidth)
	next := Pending{id, time, count, c.name}
	rec := next.record()
	g.oldest = min(g.oldest, next.stored())
	if t.Insert(rec[:], nil) {
		g.pending = t.State
		w.attach(c, id)
		return
	}
	var at tree.Cursor
	t.Find(&at, probe(id))
	was := memory.Ref(at.Record()[3] & refBits)
	t.Replace(&at, rec[:])
	g.pending = t.State
	if was != c.name {
		if was != 0 {
			w.detach(g, was, id)
		}
		w.attach(c, id)
	}
}

// attach adds id to c's pending IDs.
func (w *Writer) attach(c *Consumer, id ID) {
	t := w.records(c.pending, idWidth)
	t.Insert([]uint64{id.Ms, id.Seq}, nil)
	c.pending = t.State
}

// detach removes id from the pending IDs of the consumer whose name is at ref.
func (w *Writer) detach(g *Group, ref memory.Ref, id ID) {
	c := w.Consumer(g, table.MemberKey(ref))
	t := w.records(c.pending, idWidth)
	var at tree.Cursor
	if t.Find(&at, probe(id)) {
		t.Delete(&at)
		c.pending = t.State
	}
}

// Redeliver records another delivery, at time, of the pending entry p.
func (w *Writer) Redeliver(g *Group, p *Pending, time int64, count uint64) {
	t := w.records(g.pending, pendingWidth)
	var at tree.Cursor
	if t.Find(&at, probe(p.ID)) {
		p.Time, p.Count = time, count
		rec := p.record()
		g.oldest = min(g.oldest, p.stored())
		t.Replace(&at, rec[:])
		g.pending = t.State
	}
}

// Acknowledge removes id from the pending entries. It returns false if the entry was not pending. g must come from
// Writer.Group.
func (w *Writer) Acknowledge(g *Group, id ID) bool {
	t := w.records(g.pending, pendingWidth)
	var at tree.Cursor
	if !t.Find(&at, probe(id)) {
		return false
	}
	who := memory.Ref(at.Record()[3] & refBits)
	t.Delete(&at)
	g.pending = t.State
	if who != 0 {
		w.detach(g, who, id)
	}
	return true
}

// Activate records that c received entries. c must come from Writer.Consumer.
func (w *Writer) Activate(c *Consumer, now int64) { c.active = now }

// Expect adds a pending entry without a consumer, because RDB lists all entries first. Assign sets the consumer later.
// Expect returns false if the entry is pending already.
func (w *Writer) Expect(g *Group, id ID, time int64, count uint64) bool {
	t := w.records(g.pending, pendingWidth)
	next := Pending{ID: id, Time: time, Count: count}
	rec := next.record()
	g.oldest = min(g.oldest, next.stored())
	ok := t.Insert(rec[:], nil)
	g.pending = t.State
	return ok
}

// Assign gives a pending entry that Expect added to c. It returns false if the entry is not pending, or has a consumer.
func (w *Writer) Assign(g *Group, c *Consumer, id ID) bool {
	t := w.records(g.pending, pendingWidth)
	var at tree.Cursor
	if !t.Find(&at, probe(id)) {
		return false
	}
	p := pendingOf(at.Record())
	if p.consumer != 0 {
		return false
	}
	p.consumer = c.name
	rec := p.record()
	t.Replace(&at, rec[:])
	g.pending = t.State
	w.attach(c, id)
	return true
}
