package stream

import (
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/internal/invariant"
)

// Limits are the settings that limit the size of a node.
type Limits struct {
	NodeBytes   int64 // stream-node-max-bytes; 0 means no limit
	NodeEntries int64 // stream-node-max-entries; 0 means no limit
}

// most returns the limit in bytes of a node.
func (l Limits) most() int64 {
	if l.NodeBytes <= 0 || l.NodeBytes > maxPayload {
		return maxPayload
	}
	return l.NodeBytes
}

// maxPayload is the most bytes of an entry's fields and values together. It keeps a node within the size of a listpack,
// however many fields there are.
const maxPayload = listpack.MaxBytes

// doubled is the size up to which a node grows by doubling. A larger node grows by a quarter.
const doubled = 64 << 10

// firstNode is the size of the smallest block of a new node. It holds some entries of a few bytes.
const firstNode = 256

// Append adds an entry with this ID, which must be after LastID. pairs are fields and values in turn, at least one
// pair. If they are too long, Append changes nothing and returns false.
//
// Cost: writing to one node. No allocation on the Go heap.
func (w *Writer) Append(id ID, pairs [][]byte, l Limits) bool {
	invariant.That(w.r.last.Less(id), "stream.S2: %v appended after %v", id, w.r.last)
	need := fitting(pairs)
	if need < 0 {
		return false
	}
	t := w.blocks()
	var p tree.Path
	if !t.LastLeaf(&p) || w.full(&t, &p, pairs, need, l) {
		w.appendNode(&t, &p, id, pairs, need)
	} else {
		w.appendEntry(&t, &p, id, pairs, need, l)
	}
	w.r.entries = t.State
	w.r.last = id
	w.r.added++
	if t.Len() == 1 {
		w.r.first = id
	}
	return true
}

// full reports whether an entry of these pairs, of at most need bytes, must begin a new node. If so, it moves the last
// node to a block of the right size.
func (w *Writer) full(t *tree.Blocks, p *tree.Path, pairs [][]byte, need int, l Limits) bool {
	lp := packAt(p.Leaf())
	payload := need - (len(pairs)+9)*listpack.MaxOverhead
	switch {
	case int64(len(lp)+payload) >= l.most():
	case len(lp)+need > maxPayload:
	case l.NodeEntries > 0 && intAt(lp, countAt)+intAt(lp, deletedAt(lp)) >= l.NodeEntries:
	default:
		return false
	}
	used := nodeHeader + len(lp)
	if memory.GoodSize(used) < memory.UsableSize(p.Leaf()) && *memory.Word(p.Leaf()) > w.heap.Frozen() {
		ref := t.NewLeaf(used)
		copy(memory.Bytes(ref, used)[nodeHeader:], lp)
		t.SetLeaf(p, ref, t.CountOf(p), t.KeyOf(p))
	}
	return true
}

// appendNode adds a node with its first entry. The master entry gets the fields of that entry.
func (w *Writer) appendNode(t *tree.Blocks, p *tree.Path, id ID, pairs [][]byte, need int) {
	ref := t.NewLeaf(max(nodeHeader+listpack.EmptyLen+need, firstNode))
	b := memory.Bytes(ref, memory.UsableSize(ref))[nodeHeader:]
	at := listpack.HeaderLen
	at += listpack.PutInt(b[at:], 1)
	at += listpack.PutInt(b[at:], 0)
	at += listpack.PutInt(b[at:], int64(len(pairs)/2))
	for i := 0; i < len(pairs); i += 2 {
		at += listpack.Put(b[at:], pairs[i])
	}
	at += listpack.PutInt(b[at:], 0)
	at += putEntry(b[at:], flagSame, 0, 0, pairs)
	listpack.Close(b[:at], 0, 4+len(pairs)/2+entryElements(flagSame, pairs))
	t.InsertAfter(p, ref, 1, tree.Key{id.Ms, id.Seq})
}

// entryElements returns how many elements an entry of these pairs has.
func entryElements(flags int64, pairs [][]byte) int {
	if flags&flagSame != 0 {
		return 4 + len(pairs)/2
	}
	return 5 + len(pairs)
}

// putEntry writes an entry and returns its length.
func putEntry(b []byte, flags int64, ms, seq uint64, pairs [][]byte) (at int) {
	at = listpack.PutInt(b, flags)
	at += listpack.PutInt(b[at:], int64(ms))
	at += listpack.PutInt(b[at:], int64(seq))
	if flags&flagSame == 0 {
		at += listpack.PutInt(b[at:], int64(len(pairs)/2))
		for _, p := range pairs {
			at += listpack.Put(b[at:], p)
		}
	} else {
		for i := 1; i < len(pairs); i += 2 {
			at += listpack.Put(b[at:], pairs[i])
		}
	}
	return at + listpack.PutInt(b[at:], int64(entryElements(flags, pairs)-1))
}

// appendEntry adds an entry to the last node, to which p leads.
func (w *Writer) appendEntry(t *tree.Blocks, p *tree.Path, id ID, pairs [][]byte, need int, l Limits) {
	lp := packAt(p.Leaf())
	used := nodeHeader + len(lp)
	need += used
	// Grow in proportion to the size, but not beyond the limit of a node.
	if have := memory.UsableSize(p.Leaf()); need > have {
		room := 2 * have
		if have > doubled {
			room = have + have/4
		}
		need = max(need, min(room, nodeHeader+int(l.most())))
	}
	ref := t.Writable(p, used, need)
	lp = packAt(ref)
	key := t.KeyOf(p)
	flags := int64(0)
	if sameFields(lp, pairs) {
		flags = flagSame
	}
	count := intAt(lp, countAt)
	setInt(lp, countAt, count+1)
	lp = packAt(ref)
	at := listpack.End(lp)
	b := unsafe.Slice(unsafe.SliceData(lp), memory.UsableSize(ref)-nodeHeader)
	n := putEntry(b[at:], flags, id.Ms-key[0], id.Seq-key[1], pairs)
	b[at+n] = listpackEnd
	listpack.SetHeader(b, at+n+1, entryElements(flags, pairs))
	t.SetCount(p, uint64(count+1))
}

const listpackEnd = 0xFF

// sameFields reports whether pairs have the same fields as the master entry of lp.
func sameFields(lp []byte, pairs [][]byte) bool {
	at := listpack.Next(lp, deletedAt(lp))
	if int64(len(pairs)/2) != intAt(lp, at) {
		return false
	}
	for i := 0; i < len(pairs); i += 2 {
		at = listpack.Next(lp, at)
		if !listpack.Equal(lp, at, pairs[i]) {
			return false
		}
	}
	return true
}

// Fits reports whether an entry of these fields and values, at least one pair, could be appended.
func Fits(pairs [][]byte) bool { return fitting(pairs) >= 0 }

// fitting returns the most bytes that an entry of these pairs takes in a new node, or -1 if that is too much.
func fitting(pairs [][]byte) int {
	need := (len(pairs) + 9) * listpack.MaxOverhead
	for _, p := range pairs {
		if need += len(p); need > maxPayload {
			return -1
		}
	}
	return need
}
