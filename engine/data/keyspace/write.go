package keyspace

import (
	"slices"
	"sync/atomic"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A Writer writes the entries of strings for a [Loader], on its own goroutine, outside the turn:
//
//	turn: blocks of one size ─▶ stock ─▶ Writer: pages, entry, hash ─▶ Written ─▶ turn: AddWritten
//
// Most of a load is writing keys and values, and waiting for the first touches of their memory. With a Writer, neither
// takes the turn, and a load can use two cores. In a load of ten million keys, the Writer needs a turn a few thousand
// times.
//
// keyspace.B1. A block in a stock, and a Written that no loader has taken, belongs to its writer. It counts as used
// memory, and nothing else refers to it.
// keyspace.B2. The heap changes a block only inside a turn. A Writer writes only to its own blocks.
// keyspace.B3. The spare belongs to the turn while its state is spareWanted, otherwise to the writer.
type Writer struct {
	k      *Keyspace
	turn   func(f func())
	clock  atomic.Uint32 // clock of new keys, set by the last turn
	stocks [memory.MaxSmall/8 + 1]stock
	empty  *stock // the stock that refill fills
	size   int    // the size of the stock's blocks
	refill func() // runs in a turn; made once, so that it does not allocate
	next   spare
}

// A spare is the stock that the Writer will probably need next. The other turns of the load fill it in passing (Serve).
// A separate turn would switch threads twice if another goroutine holds the turn. On two cores those switches took a
// fifth of the CPU of the benchmark scenario loading.
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

type stock struct {
	refs []memory.Ref
	most int // the blocks of the next refill; it grows, so that rare sizes cost little
}

const (
	stockFirst = 8
	stockMost  = 2048      // about 10 µs of a turn
	stockBytes = 256 << 10 // of a refill at most
)

// A Written is an entry that is in no database yet. The zero value means no entry.
type Written struct {
	hash uint64
	word uint64 // the block's Ref, and the bits below
}

// The bits of Written.word that are 0 in a block's Ref.
const (
	isVolatile = 1 << iota
	mayBeLarge // bigkeys.go

	writtenType  = 48 // shift: the value's type
	writtenClass = 56 // shift: its size class (keyspace.Z2)
	writtenRef   = 1<<writtenType - 8
)

func (w *Written) ref() memory.Ref { return memory.Ref(w.word & writtenRef) }

// Writer makes a Writer. turn must run the function that it is given inside a turn. Close ends the Writer.
func (k *Keyspace) Writer(turn func(f func())) *Writer {
	w := &Writer{k: k, turn: turn}
	w.refill = func() {
		w.empty.refs = w.allocBlocks(w.empty.refs, w.size, w.empty.most)
		w.clock.Store(k.newClock())
	}
	return w
}

// allocBlocks appends n blocks to refs. Turn only.
func (w *Writer) allocBlocks(refs []memory.Ref, size, n int) []memory.Ref {
	w.k.assertHeld()
	for range n {
		refs = append(refs, w.k.heap.Alloc(size, memory.Keys))
	}
	// A stock is used from its end, and blocks should be written in ascending order.
	slices.Reverse(refs)
	return refs
}

// Serve gives the writer the current time, and the blocks that it will probably need. Turn only.
func (w *Writer) Serve() {
	w.k.assertHeld()
	w.clock.Store(w.k.newClock())
	if x := &w.next; x.state.Load() == spareWanted {
		x.refs = w.allocBlocks(x.refs, x.size, x.most)
		x.state.Store(spareReady)
	}
}

// fill fills the empty stock s with blocks of size bytes.
func (w *Writer) fill(s *stock, size int) {
	s.most = min(max(stockFirst, 2*s.most), stockMost, stockBytes/size)
	x := &w.next
	state := x.state.Load()
	if state == spareReady {
		of := &w.stocks[x.size>>3] // s itself, or the stock of another size, which needed one last
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

// String writes a string as SetString stores it. If the string does not fit an entry, it writes nothing and returns the
// zero Written. Then Loader.AddString must add it.
func (w *Writer) String(key, val []byte, deadline int64) Written {
	var f value.Form
	n := f.OfText(len(key), val, deadline != 0)
	if f.Rooted {
		return Written{}
	}
	return w.write(key, &f, memory.Ref(n), val, deadline)
}

// Int writes a string, the decimal form of n. If the key is too long, it writes nothing and returns the zero Written.
// Then Loader.AddInt must add it.
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

// Discard frees entries that no loader has taken. Turn only.
func (w *Writer) Discard(entries []Written) {
	w.k.assertHeld()
	for i := range entries {
		if entries[i].word != 0 {
			w.k.heap.Free(entries[i].ref(), memory.Keys)
			entries[i] = Written{}
		}
	}
}

// Close frees the writer's blocks, in turns. The writer must not be used any more.
func (w *Writer) Close() {
	w.freeBlocks(w.next.refs)
	for i := range w.stocks {
		w.freeBlocks(w.stocks[i].refs)
	}
}

func (w *Writer) freeBlocks(refs []memory.Ref) {
	if len(refs) == 0 {
		return
	}
	w.turn(func() {
		for _, ref := range refs {
			w.k.heap.Free(ref, memory.Keys)
		}
	})
}

// compose writes an entry of form f to the block at ref. The payload is inline if f stores it inline, otherwise word.
func (k *Keyspace) compose(ref memory.Ref, key []byte, f *value.Form, word memory.Ref, inline []byte, deadline int64,
	clock uint32) Written {
	f.Fill(value.Compose(ref, f, key, deadline, clock), word, inline)
	v := value.At(ref)
	class := k.store.SizeOf(v)
	v.SetSizeClass(class)
	w := Written{table.HashOf(key, k.bySlot), uint64(ref) | uint64(f.Type)<<writtenType | uint64(class)<<writtenClass}
	if f.Volatile {
		w.word |= isVolatile
	}
	if f.Rooted || f.Inline >= bigLeast {
		w.word |= mayBeLarge
	}
	return w
}
