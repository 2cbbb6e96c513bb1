package stream

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// A Group is a consumer group: how far it has read, its consumers and its pending entries. It lies off the Go heap.
//
// Lifetime: as that of its Stream. A Group that a [Writer] returned may be written to through that Writer until the
// stream is next opened.
type Group struct {
	epoch     uint64
	name      memory.Ref
	last      ID    // the greatest ID delivered
	read      int64 // entries read of all that were ever added, -1 if unknown
	pending   tree.State
	consumers tree.State
	destroyed uint64 // consumers that Destroy has freed
	oldest    int64  // no pending entry was delivered before this time, Unix ms
}

// A Consumer is a member of a group. It lies off the Go heap; lifetime as a Group's.
type Consumer struct {
	epoch   uint64
	name    memory.Ref
	seen    int64 // when it last asked, Unix ms
	active  int64 // when it last received entries, -1: never
	pending tree.State
}

// ReadUnknown is EntriesRead of a group whose count is unknown.
const ReadUnknown = -1

const (
	groupBytes    = 136
	consumerBytes = 72

	pendingWidth = 32 // of a group's records
	idWidth      = 16 // of a consumer's
	nameWidth    = 16 // of directories'
)

func groupAt(ref memory.Ref) *Group       { return (*Group)(memory.Pointer(ref)) }
func consumerAt(ref memory.Ref) *Consumer { return (*Consumer)(memory.Pointer(ref)) }

func (g *Group) Name() []byte { return table.MemberKey(g.name) }

// LastID is the greatest ID delivered.
func (g *Group) LastID() ID { return g.last }

// EntriesRead is how many of the entries ever added the group has read, or ReadUnknown.
func (g *Group) EntriesRead() int64 { return g.read }

// Pending is the number of entries that were delivered and not acknowledged.
func (g *Group) Pending() uint64 { return g.pending.Len() }

// Consumers is the number of consumers.
func (g *Group) Consumers() uint64 { return g.consumers.Len() }

func (c *Consumer) Name() []byte { return table.MemberKey(c.name) }

// Pending is the number of entries that were delivered to it and not acknowledged.
func (c *Consumer) Pending() uint64 { return c.pending.Len() }

// Seen is when it last asked for entries, Unix ms.
func (c *Consumer) Seen() int64 { return c.seen }

// Active is when it last received entries, Unix ms; -1 if it never did.
func (c *Consumer) Active() int64 { return c.active }

// IDs yields its pending IDs, in order.
func (c *Consumer) IDs(yield func(ID) bool) {
	var cur tree.Cursor
	for ok := c.pending.First(&cur); ok; ok = cur.Next() {
		if r := cur.Record(); !yield(ID{r[0], r[1]}) {
			return
		}
	}
}

// Assigned reports whether each pending entry has a consumer. A loader checks it at the end. O(consumers).
func (g *Group) Assigned() bool {
	n := uint64(0)
	for c := range g.All {
		n += c.Pending()
	}
	return n == g.Pending()
}

// A directory is a tree of (first bytes of a name, Ref of the block that has it), in the order of names.

// nameOf returns the name of the group or consumer at ref.
func nameOf(ref memory.Ref) []byte { return table.MemberKey(*(*memory.Ref)(memory.Pointer(ref + 8))) }

// prefixOf returns the first 8 bytes of a name as a number. Numbers order like names.
func prefixOf(name []byte) uint64 {
	var b [8]byte
	copy(b[:], name)
	return binary.BigEndian.Uint64(b[:])
}

// lookUp puts c at the record of name and returns the block; 0 if there is none.
func lookUp(s *tree.State, c *tree.Cursor, name []byte) memory.Ref {
	if !s.Find(c, tree.Probe{Word0: prefixOf(name),
		Tie: func(word1 uint64) int { return bytes.Compare(name, nameOf(memory.Ref(word1))) }}) {
		return 0
	}
	return memory.Ref(c.Record()[1])
}

// directory opens a directory to write to it.
func (w *Writer) directory(s tree.State) tree.Records {
	return tree.OpenRecords(w.heap, value.KindTree, s, nameWidth, w.wide)
}

// enter adds the block at ref, whose name is not there yet.
func (w *Writer) enter(s *tree.State, ref memory.Ref) {
	name := nameOf(ref)
	t := w.directory(*s)
	t.Insert([]uint64{prefixOf(name), uint64(ref)},
		func(word1 uint64) int { return bytes.Compare(name, nameOf(memory.Ref(word1))) })
	*s = t.State
}

// strike removes the record that c is at. The block stays.
func (w *Writer) strike(s *tree.State, c *tree.Cursor) {
	t := w.directory(*s)
	t.Delete(c)
	*s = t.State
}

// own makes the block of size bytes that c is at writable (stream.S6).
func (w *Writer) own(s *tree.State, c *tree.Cursor, size int) memory.Ref {
	old := memory.Ref(c.Record()[1])
	epoch := *memory.Word(old)
	if epoch > w.heap.Frozen() {
		return old
	}
	ref := w.heap.Alloc(size, memory.Values)
	copy(memory.Bytes(ref, size), memory.Bytes(old, size))
	*memory.Word(ref) = w.heap.Epoch()
	t := w.directory(*s)
	t.Replace(c, []uint64{c.Record()[0], uint64(ref)})
	*s = t.State
	w.release(old, epoch)
	return ref
}

// Group returns the group with this name, nil if there is none.
func (s Stream) Group(name []byte) *Group {
	var c tree.Cursor
	ref := lookUp(&s.r.groups, &c, name)
	if ref == 0 {
		return nil
	}
	return groupAt(ref)
}

func (s Stream) GroupCount() uint64 { return s.r.groups.Len() }

// Groups yields every group, in the order of their names.
func (s Stream) Groups(yield func(*Group) bool) {
	var c tree.Cursor
	for ok := s.r.groups.First(&c); ok; ok = c.Next() {
		if !yield(groupAt(memory.Ref(c.Record()[1]))) {
			return
		}
	}
}

// Consumer returns the consumer with this name, nil if there is none.
func (g *Group) Consumer(name []byte) *Consumer {
	var c tree.Cursor
	ref := lookUp(&g.consumers, &c, name)
	if ref == 0 {
		return nil
	}
	return consumerAt(ref)
}

// All yields every consumer, in the order of their names.
func (g *Group) All(yield func(*Consumer) bool) {
	var c tree.Cursor
	for ok := g.consumers.First(&c); ok; ok = c.Next() {
		if !yield(consumerAt(memory.Ref(c.Record()[1]))) {
			return
		}
	}
}

// Group returns the group with this name, writable; nil if there is none.
func (w *Writer) Group(name []byte) *Group {
	var c tree.Cursor
	if lookUp(&w.r.groups, &c, name) == 0 {
		return nil
	}
	return groupAt(w.own(&w.r.groups, &c, groupBytes))
}

// CreateGroup adds a group that has delivered up to last, and read entries. It returns nil if the name exists.
func (w *Writer) CreateGroup(name []byte, last ID, read int64) *Group {
	var c tree.Cursor
	if lookUp(&w.r.groups, &c, name) != 0 {
		return nil
	}
	ref := w.heap.Alloc(groupBytes, memory.Values)
	*groupAt(ref) = Group{epoch: w.heap.Epoch(), name: table.NewMember(w.heap, name), last: last, read: read,
		oldest: maxTime}
	w.enter(&w.r.groups, ref)
	return groupAt(ref)
}

// SetGroup sets how far g, from Writer.Group, has read.
func (w *Writer) SetGroup(g *Group, last ID, read int64) { g.last, g.read = last, read }

// DestroyGroup removes a group with its pending entries. It returns false if there is none with this name.
//
// Cost: O(consumers). A reclaimer frees the pending entries.
func (w *Writer) DestroyGroup(name []byte) bool {
	var at tree.Cursor
	ref := lookUp(&w.r.groups, &at, name)
	if ref == 0 {
		return false
	}
	g := groupAt(ref)
	w.strike(&w.r.groups, &at)
	var c tree.Cursor
	for ok := g.consumers.First(&c); ok; ok = c.Next() {
		w.freeConsumer(memory.Ref(c.Record()[1]))
	}
	t := w.directory(g.consumers)
	t.Clear()
	p := w.records(g.pending, pendingWidth)
	p.Clear()
	w.release(g.name, 0)
	w.release(ref, g.epoch)
	return true
}

// freeConsumer frees a consumer that is in no directory any more.
func (w *Writer) freeConsumer(ref memory.Ref) {
	c := consumerAt(ref)
	p := w.records(c.pending, idWidth)
	p.Clear()
	w.release(c.name, 0)
	w.release(ref, c.epoch)
}

// Consumer returns the consumer of g, from Writer.Group, writable; nil if there is none with this name.
func (w *Writer) Consumer(g *Group, name []byte) *Consumer {
	var c tree.Cursor
	if lookUp(&g.consumers, &c, name) == 0 {
		return nil
	}
	return consumerAt(w.own(&g.consumers, &c, consumerBytes))
}

// CreateConsumer adds a consumer to g, from Writer.Group. There is none with this name.
func (w *Writer) CreateConsumer(g *Group, name []byte, seen int64) *Consumer {
	ref := w.heap.Alloc(consumerBytes, memory.Values)
	*consumerAt(ref) = Consumer{epoch: w.heap.Epoch(), name: table.NewMember(w.heap, name), seen: seen, active: -1}
	w.enter(&g.consumers, ref)
	return consumerAt(ref)
}

// DeleteConsumer removes a consumer of g, from Writer.Group, with its pending entries. It returns their number. ok is
// false if there is none with this name.
//
// Cost: O(pending × log) in the turn: each one is also removed from the group's pending entries.
func (w *Writer) DeleteConsumer(g *Group, name []byte) (pending uint64, ok bool) {
	var at tree.Cursor
	ref := lookUp(&g.consumers, &at, name)
	if ref == 0 {
		return 0, false
	}
	c := consumerAt(ref)
	pending = c.Pending()
	if pending == g.Pending() {
		p := w.records(g.pending, pendingWidth)
		p.Clear()
		g.pending = p.State
	} else {
		p := w.records(g.pending, pendingWidth)
		var id, rec tree.Cursor
		for more := c.pending.First(&id); more; more = id.Next() {
			r := id.Record()
			if p.Find(&rec, tree.Probe{Word0: r[0], Word1: r[1]}) {
				p.Delete(&rec)
			}
		}
		g.pending = p.State
	}
	w.strike(&g.consumers, &at)
	w.freeConsumer(ref)
	return pending, true
}

// SetTimes sets when c, from Writer.Consumer, was last seen and active: for loaders.
func (w *Writer) SetTimes(c *Consumer, seen, active int64) { c.seen, c.active = seen, active }

// See records that c, from Writer.Consumer, has asked for entries.
func (w *Writer) See(c *Consumer, now int64) { c.seen = now }

var (
	_ [groupBytes]byte    = [unsafe.Sizeof(Group{})]byte{}
	_ [consumerBytes]byte = [unsafe.Sizeof(Consumer{})]byte{}
)
