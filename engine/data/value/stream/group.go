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
// Lifetime: that of its Stream. A Group that a [Writer] returned may be written to through that Writer until the stream
// is next opened.
type Group struct {
	epoch     uint64
	name      memory.Ref
	last      ID    // the greatest ID delivered
	read      int64 // how many of all entries ever added the group has read, or -1 if unknown
	pending   tree.State
	consumers tree.State
	destroyed uint64 // consumers that Destroy has freed
	oldest    int64  // no pending entry was delivered before this time, Unix ms
}

// A Consumer is a member of a group. It lies off the Go heap. Lifetime: that of its Group.
type Consumer struct {
	epoch   uint64
	name    memory.Ref
	seen    int64 // when it last asked for entries, Unix ms
	active  int64 // when it last received entries, or -1 for never
	pending tree.State
}

// ReadUnknown is the result of EntriesRead for a group whose count is unknown.
const ReadUnknown = -1

const (
	groupBytes    = 136
	consumerBytes = 72

	pendingWidth = 32 // bytes of a pending record of a group
	idWidth      = 16 // bytes of a pending record of a consumer
	nameWidth    = 16 // bytes of a record of a directory
)

func groupAt(ref memory.Ref) *Group       { return (*Group)(memory.Pointer(ref)) }
func consumerAt(ref memory.Ref) *Consumer { return (*Consumer)(memory.Pointer(ref)) }

func (g *Group) Name() []byte { return table.MemberKey(g.name) }

// LastID returns the greatest ID delivered.
func (g *Group) LastID() ID { return g.last }

// EntriesRead returns how many of all entries ever added the group has read, or ReadUnknown.
func (g *Group) EntriesRead() int64 { return g.read }

// Pending returns the number of entries that were delivered and not acknowledged.
func (g *Group) Pending() uint64 { return g.pending.Len() }

// Consumers returns the number of consumers.
func (g *Group) Consumers() uint64 { return g.consumers.Len() }

func (c *Consumer) Name() []byte { return table.MemberKey(c.name) }

// Pending returns the number of entries that were delivered to the consumer and not acknowledged.
func (c *Consumer) Pending() uint64 { return c.pending.Len() }

// Seen returns when the consumer last asked for entries, in Unix ms.
func (c *Consumer) Seen() int64 { return c.seen }

// Active returns when the consumer last received entries, in Unix ms. It returns -1 if it never did.
func (c *Consumer) Active() int64 { return c.active }

// IDs yields the IDs of the consumer's pending entries, in order.
func (c *Consumer) IDs(yield func(ID) bool) {
	var cur tree.Cursor
	for ok := c.pending.First(&cur); ok; ok = cur.Next() {
		if r := cur.Record(); !yield(ID{r[0], r[1]}) {
			return
		}
	}
}

// Assigned reports whether each pending entry has a consumer. A loader checks this at the end. O(consumers).
func (g *Group) Assigned() bool {
	n := uint64(0)
	for c := range g.All {
		n += c.Pending()
	}
	return n == g.Pending()
}

// A directory is a tree of groups or consumers in the order of their names. A record is the first bytes of a name, and
// the Ref of the block that has the name.

// nameOf returns the name of the group or consumer at ref.
func nameOf(ref memory.Ref) []byte { return table.MemberKey(*(*memory.Ref)(memory.Pointer(ref + 8))) }

// prefixOf returns the first 8 bytes of a name as a number. These numbers have the same order as the names.
func prefixOf(name []byte) uint64 {
	var b [8]byte
	copy(b[:], name)
	return binary.BigEndian.Uint64(b[:])
}

// lookUp puts c at the record of name and returns the block, or 0 if there is none.
func lookUp(s *tree.State, c *tree.Cursor, name []byte) memory.Ref {
	if !s.Find(c, tree.Probe{Word0: prefixOf(name),
		Tie: func(word1 uint64) int { return bytes.Compare(name, nameOf(memory.Ref(word1))) }}) {
		return 0
	}
	return memory.Ref(c.Record()[1])
}

// directory opens a directory for writing.
func (w *Writer) directory(s tree.State) tree.Records {
	return tree.OpenRecords(w.heap, value.KindTree, s, nameWidth, w.wide)
}

// enter adds the block at ref to a directory that does not have its name yet.
func (w *Writer) enter(s *tree.State, ref memory.Ref) {
	name := nameOf(ref)
	t := w.directory(*s)
	t.Insert([]uint64{prefixOf(name), uint64(ref)},
		func(word1 uint64) int { return bytes.Compare(name, nameOf(memory.Ref(word1))) })
	*s = t.State
}

// strike removes the record at c. It does not free the block.
func (w *Writer) strike(s *tree.State, c *tree.Cursor) {
	t := w.directory(*s)
	t.Delete(c)
	*s = t.State
}

// own makes the block at c, of size bytes, writable (stream.S6).
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

// Group returns the group with this name, or nil if there is none.
func (s Stream) Group(name []byte) *Group {
	var c tree.Cursor
	ref := lookUp(&s.r.groups, &c, name)
	if ref == 0 {
		return nil
	}
	return groupAt(ref)
}

func (s Stream) GroupCount() uint64 { return s.r.groups.Len() }

// Groups yields every group, sorted by name.
func (s Stream) Groups(yield func(*Group) bool) {
	var c tree.Cursor
	for ok := s.r.groups.First(&c); ok; ok = c.Next() {
		if !yield(groupAt(memory.Ref(c.Record()[1]))) {
			return
		}
	}
}

// Consumer returns the consumer with this name, or nil if there is none.
func (g *Group) Consumer(name []byte) *Consumer {
	var c tree.Cursor
	ref := lookUp(&g.consumers, &c, name)
	if ref == 0 {
		return nil
	}
	return consumerAt(ref)
}

// All yields every consumer, sorted by name.
func (g *Group) All(yield func(*Consumer) bool) {
	var c tree.Cursor
	for ok := g.consumers.First(&c); ok; ok = c.Next() {
		if !yield(consumerAt(memory.Ref(c.Record()[1]))) {
			return
		}
	}
}

// Group returns the group with this name, writable, or nil if there is none.
func (w *Writer) Group(name []byte) *Group {
	var c tree.Cursor
	if lookUp(&w.r.groups, &c, name) == 0 {
		return nil
	}
	return groupAt(w.own(&w.r.groups, &c, groupBytes))
}

// CreateGroup adds a group that has delivered entries up to last, and has read read entries. It returns nil if the name
// exists.
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

// SetGroup sets how far g has read. g must come from Writer.Group.
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

// freeConsumer frees a consumer that is no longer in a directory.
func (w *Writer) freeConsumer(ref memory.Ref) {
	c := consumerAt(ref)
	p := w.records(c.pending, idWidth)
	p.Clear()
	w.release(c.name, 0)
	w.release(ref, c.epoch)
}

// Consumer returns the consumer of g with this name, writable, or nil if there is none. g must come from Writer.Group.
func (w *Writer) Consumer(g *Group, name []byte) *Consumer {
	var c tree.Cursor
	if lookUp(&g.consumers, &c, name) == 0 {
		return nil
	}
	return consumerAt(w.own(&g.consumers, &c, consumerBytes))
}

// CreateConsumer adds a consumer to g, which must come from Writer.Group and have no consumer with this name.
func (w *Writer) CreateConsumer(g *Group, name []byte, seen int64) *Consumer {
	ref := w.heap.Alloc(consumerBytes, memory.Values)
	*consumerAt(ref) = Consumer{epoch: w.heap.Epoch(), name: table.NewMember(w.heap, name), seen: seen, active: -1}
	w.enter(&g.consumers, ref)
	return consumerAt(ref)
}

// DeleteConsumer removes a consumer of g with its pending entries. g must come from Writer.Group. pending is the number
// of these entries. ok is false if there is no consumer with this name.
//
// Cost: O(pending × log) in the turn, because each entry is also removed from the group's pending entries.
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

// SetTimes sets when c was last seen and active, for loaders. c must come from Writer.Consumer.
func (w *Writer) SetTimes(c *Consumer, seen, active int64) { c.seen, c.active = seen, active }

// See records that c has asked for entries. c must come from Writer.Consumer.
func (w *Writer) See(c *Consumer, now int64) { c.seen = now }

var (
	_ [groupBytes]byte    = [unsafe.Sizeof(Group{})]byte{}
	_ [consumerBytes]byte = [unsafe.Sizeof(Consumer{})]byte{}
)
