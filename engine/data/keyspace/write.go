package keyspace

import (
	"slices"
	"sync/atomic"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A Writer writes the entries of strings for a [Loader], on a goroutine of its own, beside the turns:
//
//	turn: blocks of one size ─▶ stock ─▶ Writer: pages, entry, hash ─▶ Written ─▶ turn: AddWritten
//
// Keys and values are most of what a load moves, and first touches of their memory most of what it waits for: here they
// take no turn, and a load has two cores for its work. Turns and a Writer meet a few thousand times in ten million
// keys.
//
// keyspace.B1. A block in a stock, and a Written that no loader has taken, is its writer's: it counts as used memory
// and is known to nobody else.
// keyspace.B2. What the heap does to a block it does inside a turn; a Writer writes to nothing but blocks that are its
// own.
// keyspace.B3. The spare is the turn's while it is wanted, else the writer's.
type Writer struct {
	k      *Keyspace
	turn   func(f func())
	clock  atomic.Uint32 // of keys that are being made, by the last turn
	stocks [memory.MaxSmall/8 + 1]stock
	empty  *stock // what refill fills
	size   int    // of its blocks
	refill func() // a turn; made once
	next   spare
}

// A spare is the stock that is likely to be needed next. Turns that the load has anyway fill it in passing (Serve): a
// turn of its own is two switches of threads when the other goroutine holds it, and those took a fifth of the CPU of
// the bench's scenario loading on two cores.
type spare struct {
	state atomic.Int32 // keyspace.B3
	refs  []memory.Ref
	size  int
	most  int
}

const (
	spareNone = iota
	spareWanted
	spareReady
)

// A stock is blocks of one size.
type stock struct {
	refs []memory.Ref
	most int // of a refill: more each time, so that sizes which are rare cost little
}

const (
	stockFirst = 8
	stockMost  = 2048      // some 10 us of a turn
	stockBytes = 256 << 10 // of a refill at most
)

// Written is an entry that is in no database yet, or, as its zero value, none.
type Written struct {
	hash uint64
	word uint64 // the block, and bits
}

// Bits of word that no block's address has.
const (
	isVolatile = 1 << iota
	mayBeLarge // bigkeys.go
)

func (w *Written) ref() memory.Ref { return memory.Ref(w.word &^ (isVolatile | mayBeLarge)) }

// Writer makes a writer; turn runs a function inside a turn. Close ends it.
func (k *Keyspace) Writer(turn func(f func())) *Writer {
	w := &Writer{k: k, turn: turn}
	w.refill = func() {
		w.empty.refs = w.take(w.empty.refs, w.size, w.empty.most)
		w.clock.Store(k.newClock())
	}
	return w
}

// take appends n blocks to refs. Turn only.
func (w *Writer) take(refs []memory.Ref, size, n int) []memory.Ref {
	w.k.assertHeld()
	for range n {
		refs = append(refs, w.k.heap.Alloc(size, memory.Keys))
	}
	// A stock is used from its end, and blocks are to be written in their order.
	slices.Reverse(refs)
	return refs
}

// Serve gives the writer the time, and blocks that it is going to need. Turn only.
func (w *Writer) Serve() {
	w.k.assertHeld()
	w.clock.Store(w.k.newClock())
	if x := &w.next; x.state.Load() == spareWanted {
		x.refs = w.take(x.refs, x.size, x.most)
		x.state.Store(spareReady)
	}
}

// fill fills a stock of blocks of a size, which is empty.
func (w *Writer) fill(s *stock, size int) {
	s.most = min(max(stockFirst, 2*s.most), stockMost, stockBytes/size)
	x := &w.next
	state := x.state.Load()
	if state == spareReady {
		of := &w.stocks[x.size>>3] // s itself, or that of another size, which was the last to need one
		of.refs = append(of.refs, x.refs...)
		x.refs = x.refs[:0]
	}
	if len(s.refs) == 0 {
		w.empty, w.size = s, size
		w.turn(w.refill)
	}
	if state != spareWanted {
		x.size, x.most = size, s.most
		x.state.Store(spareWanted)
	}
	memory.TouchSlabs(s.refs)
}

// String writes a string as SetString keeps it. One that takes more than an entry is not written: it is left to
// Loader.AddString.
func (w *Writer) String(key, val []byte, deadline int64) Written {
	var f value.Form
	n := f.OfText(len(key), val, deadline != 0)
	if f.Rooted {
		return Written{}
	}
	return w.write(key, &f, memory.Ref(n), val, deadline)
}

// Int writes a string that is n's decimal form, or leaves it to Loader.AddInt if the key is a long one.
func (w *Writer) Int(key []byte, n, deadline int64) Written {
	f := value.IntForm(len(key), deadline != 0)
	return w.write(key, &f, memory.Ref(n), nil, deadline)
}

func (w *Writer) write(key []byte, f *value.Form, word memory.Ref, inline []byte, deadline int64) Written {
	size := f.Size()
	if size > memory.MaxSmall {
		return Written{}
	}
	size = memory.GoodSize(size)
	s := &w.stocks[size>>3]
	if len(s.refs) == 0 {
		w.fill(s, size)
	}
	last := len(s.refs) - 1
	ref := s.refs[last]
	s.refs = s.refs[:last]
	return w.k.compose(ref, key, f, word, inline, deadline, w.clock.Load())
}

// Discard lets go of entries that no loader has taken. Turn only.
func (w *Writer) Discard(entries []Written) {
	w.k.assertHeld()
	for i := range entries {
		if entries[i].word != 0 {
			w.k.heap.Free(entries[i].ref(), memory.Keys)
			entries[i] = Written{}
		}
	}
}

// Close lets go of the stock, in turns, when nobody uses the writer any more.
func (w *Writer) Close() {
	w.letGo(w.next.refs)
	for i := range w.stocks {
		w.letGo(w.stocks[i].refs)
	}
}

func (w *Writer) letGo(refs []memory.Ref) {
	if len(refs) == 0 {
		return
	}
	w.turn(func() {
		for _, ref := range refs {
			w.k.heap.Free(ref, memory.Keys)
		}
	})
}

// compose writes an entry of form f to the block at ref. Its payload is inline, where f keeps it there, else word.
func (k *Keyspace) compose(ref memory.Ref, key []byte, f *value.Form, word memory.Ref, inline []byte, deadline int64,
	clock uint32) Written {
	f.Fill(value.Compose(ref, f, key, deadline, clock), word, inline)
	w := Written{table.HashOf(key, k.bySlot), uint64(ref)}
	if f.Volatile {
		w.word |= isVolatile
	}
	if f.Rooted || f.Inline >= bigLeast {
		w.word |= mayBeLarge
	}
	return w
}
