package stream

import (
	"bytes"
	"errors"
	"fmt"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Check returns an error if the stream breaks one of these rules: stream.S1 to stream.S4, stream.S7, and the rules
// stream.N1 to stream.N3 of nodes. O(n): for tests.
func (s Stream) Check(h *memory.Heap) error {
	t := tree.OpenBlocks(h, value.KindTree, s.r.entries, false)
	if err := t.Check(); err != nil {
		return err
	}
	last, first := ID{}, ID{}
	var p tree.Path
	for ok := s.r.entries.FirstLeaf(&p); ok; ok = p.Next() {
		key := s.r.entries.KeyOf(&p)
		end, live, least, err := ValidateNode(packAt(p.Leaf()), ID{key[0], key[1]})
		switch {
		case err != nil:
			return fmt.Errorf("node %v: %w", key, err)
		case live == 0 || live != s.r.entries.CountOf(&p):
			return fmt.Errorf("stream.S1: node %v counts %d, has %d", key, s.r.entries.CountOf(&p), live)
		case !last.Less(ID{key[0], key[1]}):
			return fmt.Errorf("stream.S2: node %v after %v", key, last)
		}
		if last = end; first == (ID{}) {
			first = least
		}
	}
	if s.r.last.Less(last) || first != s.r.first {
		return fmt.Errorf("stream.S2, stream.S3: entries %v to %v, noted %v to %v", first, last, s.r.first, s.r.last)
	}
	if err := checkNames(h, s.r.groups); err != nil {
		return err
	}
	name := []byte(nil)
	for g := range s.Groups {
		if name != nil && bytes.Compare(name, g.Name()) >= 0 {
			return fmt.Errorf("group %q after %q", g.Name(), name)
		}
		name = g.Name()
		if err := g.check(h); err != nil {
			return fmt.Errorf("group %q: %w", name, err)
		}
	}
	return s.checkMemo(h)
}

// checkMemo checks stream.S7.
func (s Stream) checkMemo(h *memory.Heap) error {
	if s.r.memo == 0 {
		return nil
	}
	m := memoAt(s.r.memo)
	if err := checkNames(h, m.producers); err != nil {
		return err
	}
	messages, size := uint64(0), uint64(0)
	var c, each, at tree.Cursor
	for ok := m.producers.First(&c); ok; ok = c.Next() {
		ref := memory.Ref(c.Record()[1])
		p := producerAt(ref)
		name := table.MemberKey(p.name)
		size += uint64(memory.UsableSize(ref) + memory.UsableSize(p.name))
		for _, s := range []tree.State{p.order, p.messages} {
			t := tree.OpenRecords(h, value.KindTree, s, nameWidth, false)
			var tie func(a, b uint64) int
			if s == p.messages {
				tie = func(a, b uint64) int { return bytes.Compare(sentName(memory.Ref(a)), sentName(memory.Ref(b))) }
			}
			if err := t.Check(tie); err != nil {
				return fmt.Errorf("producer %q: %w", name, err)
			}
		}
		if p.order.Len() == 0 || p.order.Len() != p.messages.Len() || p.order.Len() > uint64(m.limits.Most) {
			return fmt.Errorf("stream.S7: producer %q has %d messages in order, %d by name", name, p.order.Len(),
				p.messages.Len())
		}
		for more := p.order.First(&each); more; more = each.Next() {
			ref := memory.Ref(each.Record()[1])
			x := messageAt(ref)
			messages++
			size += uint64(memory.UsableSize(ref))
			if x.producer != p.name || x.number != each.Record()[0] || p.find(&at, sentName(ref)) != ref ||
				!m.ages.Find(&at, tree.Probe{Word0: x.time, Word1: uint64(ref)}) {
				return fmt.Errorf("stream.S7: message %q of producer %q", sentName(ref), name)
			}
		}
	}
	if messages != m.ages.Len() || size != m.bytes {
		return fmt.Errorf("stream.S7: %d messages of %d bytes, noted %d of %d", messages, size, m.ages.Len(), m.bytes)
	}
	return nil
}

func checkNames(h *memory.Heap, s tree.State) error {
	t := tree.OpenRecords(h, value.KindTree, s, nameWidth, false)
	return t.Check(func(a, b uint64) int { return bytes.Compare(nameOf(memory.Ref(a)), nameOf(memory.Ref(b))) })
}

func (g *Group) check(h *memory.Heap) error {
	t := tree.OpenRecords(h, value.KindTree, g.pending, pendingWidth, false)
	if err := t.Check(nil); err != nil {
		return err
	}
	if err := checkNames(h, g.consumers); err != nil {
		return err
	}
	var all PendingCursor
	var each Pending
	for g.From(&all, ID{}); all.Next(&each); {
		if each.Time < g.oldest {
			return fmt.Errorf("%v was delivered at %d, before the oldest time %d", each.ID, each.Time, g.oldest)
		}
	}
	pending := uint64(0)
	name := []byte(nil)
	for c := range g.All {
		if name != nil && bytes.Compare(name, c.Name()) >= 0 {
			return fmt.Errorf("consumer %q after %q", c.Name(), name)
		}
		name = c.Name()
		pending += c.Pending()
		var cur tree.Cursor
		for ok := c.pending.First(&cur); ok; ok = cur.Next() {
			var p Pending
			id := ID{cur.Record()[0], cur.Record()[1]}
			if !g.Lookup(id, &p) || !p.Of(c) {
				return fmt.Errorf("stream.S4: %v of consumer %q", id, name)
			}
		}
	}
	if pending != g.Pending() {
		return fmt.Errorf("stream.S4: %d pending in the group, %d with its consumers", g.Pending(), pending)
	}
	return nil
}

// ValidateNode checks that all of lp is the listpack of a node with this key (stream.N1 to stream.N3). It returns the
// last live ID, the number of live entries and the first live ID. Bytes from outside must pass it before other code
// reads them.
func ValidateNode(lp []byte, master ID) (last ID, live uint64, first ID, err error) {
	if err := listpack.Validate(lp, true, nil); err != nil {
		return ID{}, 0, ID{}, err
	}
	r := reader{lp: lp, at: listpack.First(lp)}
	count, deleted, fields := r.int(), r.int(), r.int()
	if count < 0 || deleted < 0 || fields < 0 {
		return ID{}, 0, ID{}, errNode
	}
	r.skip(fields)
	if r.int() != 0 || r.bad {
		return ID{}, 0, ID{}, errNode
	}
	var total, marked int64
	for r.at != 0 && !r.bad {
		flags, ms, seq := r.int(), r.int(), r.int()
		n, elements := fields, fields+3
		if flags&flagSame == 0 {
			n = r.int()
			elements = 2*n + 4
			r.skip(n)
		}
		r.skip(n)
		if r.int() != elements || r.bad || n < 0 || flags&^(flagSame|flagDeleted) != 0 {
			return ID{}, 0, ID{}, errNode
		}
		id := ID{master.Ms + uint64(ms), master.Seq + uint64(seq)}
		if total++; flags&flagDeleted != 0 {
			marked++
			continue
		}
		switch {
		case id.Less(master) || last != (ID{}) && !last.Less(id):
			return ID{}, 0, ID{}, errOrder
		case first == (ID{}):
			first = id
		}
		last = id
	}
	if r.bad || total-marked != count || marked != deleted {
		return ID{}, 0, ID{}, errNode
	}
	return last, uint64(count), first, nil
}

// A reader reads a listpack's elements one by one. bad is set if there were too few elements, or if one that should be
// an integer is not.
type reader struct {
	lp  []byte
	at  int
	bad bool
}

func (r *reader) int() int64 {
	if r.at == 0 {
		r.bad = true
		return 0
	}
	var e listpack.Element
	e, r.at = listpack.GetNext(r.lp, r.at)
	n, ok := e.Integer()
	r.bad = r.bad || !ok
	return n
}

func (r *reader) skip(n int64) {
	for ; n > 0 && !r.bad; n-- {
		if r.at == 0 {
			r.bad = true
			return
		}
		r.at = listpack.Next(r.lp, r.at)
	}
}

var (
	errNode  = errors.New("stream: a node's listpack is not one of entries")
	errOrder = errors.New("stream: the IDs of a node do not ascend")
)
