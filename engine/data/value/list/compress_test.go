package list_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
	"spindle/internal/compress/lzf"
)

// expand returns the content of a piece, expanded if it is compressed.
func expand(t testing.TB, p list.Piece) []byte {
	if !p.Compressed() {
		return p.Bytes
	}
	text := make([]byte, p.Size)
	if n, err := lzf.Decompress(text, p.Bytes); err != nil || n != p.Size {
		t.Errorf("a piece of %d bytes expands to %d: %v", p.Size, n, err)
	}
	return text
}

// idle returns how many leaves between the outermost ones are uncompressed, although compression would make them
// smaller.
func idle(v value.Value) (n int) {
	var c lzf.Compressor
	depth, leaves, i := list.LimitsOf(v).Depth, list.LeafCount(v), -1
	list.Leaves(v, func(p list.Piece) bool {
		if i++; depth == 0 || min(i, leaves-1-i) < depth || p.Compressed() || p.Size < 48 || p.Size > 256<<10 {
			return true
		}
		packed := c.Compress(make([]byte, p.Size-8), p.Bytes)
		if packed > 0 && memory.GoodSize(16+packed) < memory.GoodSize(16+p.Size) {
			n++
		}
		return true
	})
	return n
}

func numbered(i int) []byte { return fmt.Appendf(nil, "an element with the number %07d", i) }

// TestEachChangeCompresses: after each single change, wherever it is, the outermost leaves are uncompressed and those
// inside are compressed.
func TestEachChangeCompresses(t *testing.T) {
	long := bytes.Repeat([]byte("long"), 10_000)
	for _, depth := range []int{1, 2, 5} {
		k, h := open(t)
		limits := list.Limits{Fill: 8, Plain: 20_000, Depth: depth}
		db, rng := k.DB(0), random(t)
		seen := func(did string) {
			t.Helper()
			v := db.Peek([]byte("l"))
			if err := list.Check(h, v); err != nil {
				t.Fatalf("depth %d, %s: %v", depth, did, err)
			}
			if n := idle(v); n != 0 {
				t.Fatalf("depth %d, %s: %d of %d leaves lie open inside", depth, did, n, list.LeafCount(v))
			}
		}
		db.CreateRoot([]byte("l"), value.List, value.Quicklist, list.New(k.Store(), limits))
		for i := range 200 {
			list.Push(db.Edit([]byte("l")), limits, list.End(i%3 == 0), [][]byte{numbered(i), numbered(-i)})
			seen("a push")
		}
		for range 1500 {
			e := db.Edit([]byte("l"))
			n := list.Len(e.Value())
			at, text := rng.IntN(n), numbered(rng.IntN(1000))
			if rng.IntN(10) == 0 {
				text = long
			}
			el, _ := list.At(e.Value(), int64(at))
			pivot := el.Append(nil)
			switch op := rng.IntN(12); {
			case op < 4:
				list.Set(e, limits, int64(at), text)
				seen("Set")
			case op < 8:
				list.Insert(e, limits, pivot, text, list.End(op < 6))
				seen("Insert")
			case op < 10:
				list.Remove(e, limits, pivot, list.End(op < 9), 1)
				seen("Remove")
			case n > 300:
				list.Pop(e, limits, list.End(op < 11), 1+rng.IntN(20))
				seen("Pop")
			default:
				list.Push(e, limits, list.End(op < 11), [][]byte{text, text, text})
				seen("Push")
			}
		}
	}
}

// TestCompressed: lists made in each possible way are compressed and take a fraction of their text. The reported memory
// is about equal to that.
func TestCompressed(t *testing.T) {
	const n = 30_000
	packed := func(i int) []byte {
		lp := listpack.Begin(nil)
		for j := range 100 {
			lp = listpack.AppendEntry(lp, listpack.Of(numbered(i+j)))
		}
		return listpack.Close(lp, 0, 100)
	}
	for _, depth := range []int{1, 4, 7} {
		limits := list.Limits{Fill: -2, Depth: depth}
		build := func(fill func(b *list.Builder)) func(k *keyspace.Keyspace) {
			return func(k *keyspace.Keyspace) {
				b := list.NewBuilder(k.Store(), limits)
				fill(&b)
				k.DB(0).PutRoot([]byte("l"), value.List, value.Quicklist, b.Root(), 0)
			}
		}
		pushed := func(k *keyspace.Keyspace) {
			var all [][]byte
			for i := range n {
				all = append(all, numbered(i))
			}
			e := k.DB(0).CreateRoot([]byte("l"), value.List, value.Quicklist, list.New(k.Store(), limits))
			list.Push(e, limits, list.Tail, all)
		}
		for _, c := range []struct {
			name string
			fill func(k *keyspace.Keyspace)
		}{
			{"pushed at once", pushed},
			{"one by one", func(k *keyspace.Keyspace) {
				e := k.DB(0).CreateRoot([]byte("l"), value.List, value.Quicklist, list.New(k.Store(), limits))
				for i := range n {
					if text := numbered(n - 1 - i); list.PushOne(e, limits, list.Head, text) == 0 {
						list.Push(e, limits, list.Head, [][]byte{text})
					}
				}
			}},
			{"built of elements", build(func(b *list.Builder) {
				for i := range n {
					b.Push(listpack.Of(numbered(i)))
				}
			})},
			{"built of listpacks", build(func(b *list.Builder) {
				for i := 0; i < n; i += 100 {
					b.AddPacked(packed(i))
				}
			})},
			{"built of plain ones", build(func(b *list.Builder) {
				for i := range n / 100 {
					b.AddPlain(bytes.Repeat(numbered(i), 100))
				}
			})},
			{"copied", func(k *keyspace.Keyspace) {
				pushed(k)
				k.DB(0).CopyTo([]byte("l"), k.DB(0), []byte("copy"))
				k.DB(0).Delete([]byte("l"))
				k.DB(0).Rename([]byte("copy"), []byte("l"))
			}},
		} {
			k, h := open(t)
			empty := h.Used()
			c.fill(k)
			m := &model{h: h}
			m.drain()
			took, plain := h.Used()-empty, int64(n*len(numbered(0)))
			if took > plain/3 {
				t.Errorf("depth %d, %s: %d bytes of text take %d", depth, c.name, plain, took)
			}
			v := k.DB(0).Peek([]byte("l"))
			if err := list.Check(h, v); err != nil || idle(v) != 0 {
				t.Errorf("depth %d, %s: %d leaves lie open inside; %v", depth, c.name, idle(v), err)
			}
			hold := h.Freeze()
			k.DB(0).Delete([]byte("l"))
			if kept := h.Retained(); kept < took*8/10 || kept > took*12/10 {
				t.Errorf("depth %d, %s: %d bytes are reported as retained, %d are", depth, c.name, kept, took)
			}
			hold.Close()
		}
	}
}

// TestDeep: a depth greater than the number of leaves costs next to nothing, and is limited as in Redis.
func TestDeep(t *testing.T) {
	k, h := open(t)
	limits := list.Limits{Fill: 1, Depth: 1 << 20}
	e := k.DB(0).CreateRoot([]byte("l"), value.List, value.Quicklist, list.New(k.Store(), limits))
	const n = 150_000
	for i := range n {
		list.Push(e, limits, list.Tail, [][]byte{bytes.Repeat(numbered(i), 3)})
	}
	v := k.DB(0).Peek([]byte("l"))
	if got := list.LimitsOf(v).Depth; got != 1<<16-1 {
		t.Errorf("the depth is %d", got)
	}
	if err := list.Check(h, v); err != nil || idle(v) != 0 {
		t.Errorf("%d of %d leaves lie open inside; %v", idle(v), list.LeafCount(v), err)
	}
}

// TestIncompressible: a leaf that would not become smaller stays uncompressed, and so does a very long one. A long
// plain leaf is compressed.
func TestIncompressible(t *testing.T) {
	k, h := open(t)
	rng := random(t)
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	nearly := bytes.Repeat([]byte("n"), 80) // shorter when compressed, but in a block of the same size
	for c := new(lzf.Compressor); ; nearly = append(nearly, noise[len(nearly)]) {
		packed := c.Compress(make([]byte, len(nearly)), nearly)
		if packed > 0 && packed <= len(nearly)-8 && memory.GoodSize(16+packed) == memory.GoodSize(16+len(nearly)) {
			break
		}
	}
	for _, c := range []struct {
		name    string
		text    []byte
		smaller bool
	}{
		{"noise", noise, false}, {"nearly noise", nearly, false}, {"very long", bytes.Repeat([]byte("h"), 1<<20), false},
		{"long", bytes.Repeat([]byte("l"), 100_000), true}, {"short", []byte("x"), false},
	} {
		limits := list.Limits{Fill: -2, Plain: 1, Depth: 1}
		e := k.DB(0).CreateRoot([]byte(c.name), value.List, value.Quicklist, list.New(k.Store(), limits))
		for range 3 {
			list.Push(e, limits, list.Tail, [][]byte{c.text})
		}
		v := k.DB(0).Peek([]byte(c.name))
		if err := list.Check(h, v); err != nil {
			t.Error(err)
		}
		for i := range int64(3) {
			if el, ok := list.At(v, i); !ok || !el.Equal(c.text) {
				t.Errorf("%s: element %d differs", c.name, i)
			}
		}
		compressed := 0
		list.Leaves(v, func(p list.Piece) bool {
			if p.Compressed() {
				compressed++
			}
			return true
		})
		if (compressed == 1) != c.smaller {
			t.Errorf("%s: %d leaves are compressed", c.name, compressed)
		}
	}
}

// TestViewsOfCompressed: goroutines read views while the core writes.
func TestViewsOfCompressed(t *testing.T) {
	const n = 3000
	k, _ := open(t)
	db, limits := k.DB(0), list.Limits{Fill: 16, Depth: 2}
	e := db.CreateRoot([]byte("l"), value.List, value.Quicklist, list.New(k.Store(), limits))
	var is []string
	for i := range n {
		list.Push(e, limits, list.Tail, [][]byte{numbered(i)})
		is = append(is, string(numbered(i)))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		view, want, done := k.Freeze(), slices.Clone(is), make(chan bool)
		go func() {
			defer close(done)
			view.Walk(0, 0, 1, func(v value.Value) bool {
				if !slices.Equal(elements(v), want) {
					t.Error("a view has changed")
				}
				return true
			})
		}()
		for range 300 {
			e := db.Edit([]byte("l"))
			at := rng.IntN(n)
			is[at] = string(numbered(rng.IntN(n)))
			list.Set(e, limits, int64(at), []byte(is[at]))
			list.Pop(e, limits, list.Head, 1)
			list.Push(e, limits, list.Tail, [][]byte{[]byte(is[0])})
			is = append(is[1:], is[0])
		}
		<-done
		view.Close()
	}
}
