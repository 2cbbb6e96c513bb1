package list_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
	"spindle/internal/invariant"
	"spindle/tests/testkit/memorytest"
)

func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay with SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func open(t testing.TB) (*keyspace.Keyspace, *memory.Heap) {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return keyspace.New(h, keyspace.Options{StartMs: 1_000_000}), h
}

// model is real lists, and the same lists as slices.
type model struct {
	defrag keyspace.Defrag
	t      testing.TB
	rng    *rand.Rand
	k      *keyspace.Keyspace
	h      *memory.Heap
	db     *keyspace.DB
	limits list.Limits
	want   map[string][]string
	views  []view
}

type view struct {
	v    *keyspace.View
	want map[string][]string
}

func TestModel(t *testing.T) {
	for _, l := range []list.Limits{{Fill: -2}, {Fill: -1, Plain: 300}, {Fill: 4}, {Fill: 100}, {Fill: 0},
		{Fill: 5, Plain: 1}, {Fill: -3},
		{Fill: -2, Depth: 1}, {Fill: 4, Depth: 2}, {Fill: -1, Plain: 300, Depth: 1}, {Fill: 5, Plain: 100, Depth: 3}} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			k, h := open(t)
			m := &model{t: t, rng: random(t), k: k, h: h, db: k.DB(0), limits: l, want: map[string][]string{}}
			empty := h.Used()
			steps := 12_000
			if testing.Short() || invariant.Enabled {
				steps = 4_000
			}
			for step := range steps {
				m.step()
				if m.rng.IntN(40) == 0 {
					m.compare()
				}
				if t.Failed() {
					t.Fatalf("at step %d", step)
				}
			}
			for len(m.views) > 0 {
				m.close()
			}
			m.db.Flush()
			m.drain()
			if used := h.Used(); used != empty {
				t.Errorf("%d bytes are left", used-empty)
			}
			if err := h.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func (m *model) drain() {
	for m.h.Drain(1 << 20) {
	}
	for {
		job, _ := m.h.TakeJob()
		if job == nil {
			break
		}
		for !job(1000) {
		}
	}
	for m.h.Drain(1 << 20) {
	}
}

// text returns an element: mostly short, sometimes long, now and then longer than any leaf.
func (m *model) text() string {
	switch n := m.rng.IntN(100); {
	case n < 30:
		return strconv.Itoa(m.rng.IntN(30) - 10)
	case n < 40:
		return strconv.FormatInt(int64(m.rng.Uint64())>>m.rng.IntN(64), 10)
	case n < 80:
		return string(rune('a' + m.rng.IntN(8)))
	case n < 97:
		return strings.Repeat(string(rune('a'+m.rng.IntN(3))), m.rng.IntN(700))
	case n < 99:
		return strings.Repeat("p", m.rng.IntN(9000))
	}
	return strings.Repeat("l", m.rng.IntN(20_000))
}

func (m *model) texts() (raw [][]byte, texts []string) {
	n := 1
	switch m.rng.IntN(10) {
	case 0:
		n = 200
	case 1, 2:
		n = 8
	}
	for range 1 + m.rng.IntN(n) {
		s := m.text()
		raw, texts = append(raw, []byte(s)), append(texts, s)
	}
	return raw, texts
}

func (m *model) key() string { return "key" + strconv.Itoa(m.rng.IntN(4)) }

func (m *model) end() list.End { return list.End(m.rng.IntN(2) == 0) }

// changed ends a change as commands do: an empty list is removed, a short one shrinks.
func (m *model) changed(e *value.Edit, key string, is []string) {
	if len(is) == 0 {
		m.db.Remove(e)
		delete(m.want, key)
		return
	}
	list.Shrink(e, m.limits)
	m.want[key] = is
}

func (m *model) step() {
	if m.rng.IntN(16) == 0 {
		m.relocate()
	}
	rng, key := m.rng, m.key()
	was := m.want[key]
	e := m.db.Edit([]byte(key))
	if (e != nil) != (len(was) > 0) {
		m.t.Fatalf("%s is there: %t", key, e != nil)
	}
	op := rng.IntN(100)
	if e == nil && op >= 30 && op < 90 {
		op = 0
	}
	switch {
	case op < 30:
		m.push(e, key)
	case op < 42:
		n, end := 1, m.end()
		if rng.IntN(3) == 0 {
			n += rng.IntN(len(was))
		}
		m.pop(e, was, end, n)
		if end == list.Head {
			m.changed(e, key, slices.Clone(was[n:]))
		} else {
			m.changed(e, key, slices.Clone(was[:len(was)-n]))
		}
	case op < 52:
		index, text := rng.IntN(len(was)), m.text()
		list.Grow(e, m.limits, len(text), 1)
		at := int64(index)
		if rng.IntN(2) == 0 {
			at -= int64(len(was))
		}
		if !list.Set(e, m.limits, at, []byte(text)) || list.Set(e, m.limits, int64(len(was)), []byte(text)) {
			m.t.Errorf("Set at %d of %d", at, len(was))
		}
		is := slices.Clone(was)
		is[index] = text
		m.changed(e, key, is)
	case op < 65:
		pivot, text, side := was[rng.IntN(len(was))], m.text(), m.end()
		if rng.IntN(10) == 0 {
			pivot = "none"
		}
		list.Grow(e, m.limits, len(text), 1)
		at := slices.Index(was, pivot)
		if list.Insert(e, m.limits, []byte(pivot), []byte(text), side) != (at >= 0) {
			m.t.Errorf("Insert next to %q", pivot)
		}
		if at >= 0 {
			if side == list.Tail {
				at++
			}
			m.want[key] = slices.Insert(slices.Clone(was), at, text)
		}
	case op < 72:
		text, from, most := m.text(), m.end(), rng.IntN(4)
		if rng.IntN(2) == 0 {
			text = was[rng.IntN(len(was))]
		}
		is, n := remove(was, text, from, most)
		if got := list.Remove(e, m.limits, []byte(text), from, most); got != n {
			m.t.Errorf("Remove: %d, want %d", got, n)
		}
		m.changed(e, key, is)
	case op < 76:
		from := rng.IntN(len(was))
		n := 1 + rng.IntN(len(was)-from)
		list.Trim(e, m.limits, from, n)
		m.changed(e, key, slices.Clone(was[from:from+n]))
	case op < 82:
		end := m.end()
		el := list.First(e.Value(), end)
		text := string(el.Append(nil))
		list.Pop(e, m.limits, end, 1)
		list.Grow(e, m.limits, len(text), 1)
		list.PushElement(e, m.limits, !end, listpack.Of([]byte(text)))
		if end == list.Head {
			m.changed(e, key, append(slices.Clone(was[1:]), text))
		} else {
			m.changed(e, key, append([]string{text}, was[:len(was)-1]...))
		}
	case op < 85:
		to := m.key()
		if to != key {
			m.db.Rename([]byte(key), []byte(to))
			m.want[to] = was
			delete(m.want, key)
		}
	case op < 88:
		to := m.key()
		if to != key {
			m.db.CopyTo([]byte(key), m.db, []byte(to))
			m.want[to] = was
		}
	case op < 90:
		m.db.Delete([]byte(key))
		delete(m.want, key)
	case op < 93:
		m.views = append(m.views, view{m.k.Freeze(), maps.Clone(m.want)})
		if len(m.views) > 4 {
			m.close()
		}
	case op < 95 && len(m.views) > 0:
		m.close()
	default:
		m.drain()
	}
}

func (m *model) push(e *value.Edit, key string) {
	raw, texts := m.texts()
	end := m.end()
	if e == nil {
		if n, ok := list.PackedBytes(m.limits, raw); ok {
			e = m.db.Create([]byte(key), value.List, value.Listpack, n)
			list.Write(e.Packed(), end, raw)
		} else {
			e = m.db.CreateRoot([]byte(key), value.List, value.Quicklist, list.New(m.k.Store(), m.limits))
			list.Push(e, m.limits, end, raw)
		}
	} else if was := list.Len(e.Value()); len(raw) != 1 || m.rng.IntN(2) == 0 {
		list.Push(e, m.limits, end, raw)
	} else if n := list.PushOne(e, m.limits, end, raw[0]); n == 0 {
		list.Push(e, m.limits, end, raw)
	} else if n != was+1 {
		m.t.Errorf("PushOne to %d makes %d", was, n)
	}
	if end == list.Tail {
		m.want[key] = append(slices.Clone(m.want[key]), texts...)
	} else {
		slices.Reverse(texts)
		m.want[key] = append(texts, m.want[key]...)
	}
}

// pop removes n elements at an end. A single element is removed by Pop or by an Outermost.
func (m *model) pop(e *value.Edit, was []string, end list.End, n int) {
	var o list.Outermost
	if n > 1 || m.rng.IntN(2) == 0 || !o.Find(e, end) {
		list.Pop(e, m.limits, end, n)
		return
	}
	want := was[0]
	if end == list.Tail {
		want = was[len(was)-1]
	}
	if got := string(o.Element.Append(nil)); got != want {
		m.t.Errorf("the outermost element is %q, want %q", got, want)
	}
	o.Remove(end)
}

// remove does what Remove does, in the simplest way.
func remove(was []string, text string, from list.End, most int) (is []string, n int) {
	if from == list.Tail {
		was = slices.Clone(was)
		slices.Reverse(was)
	}
	for _, s := range was {
		if s == text && (most == 0 || n < most) {
			n++
		} else {
			is = append(is, s)
		}
	}
	if from == list.Tail {
		slices.Reverse(is)
	}
	return is, n
}

// close compares the oldest view with its expected content and closes it.
func (m *model) close() {
	v := m.views[0]
	m.views = m.views[1:]
	got := map[string][]string{}
	v.v.Walk(0, 0, 1, func(val value.Value) bool {
		got[string(val.Key())] = elements(val)
		return true
	})
	v.v.Close()
	if !maps.EqualFunc(got, v.want, slices.Equal) {
		m.t.Errorf("a view has changed")
	}
}

// elements returns a list's content, read in one of several ways.
func elements(v value.Value) (texts []string) {
	var c list.Cursor
	c.Seek(v, 0, list.Tail)
	for el, ok := c.Next(); ok; el, ok = c.Next() {
		texts = append(texts, string(el.Append(nil)))
	}
	return texts
}

// find searches for an element from either end, among all elements and among the first few.
func (m *model) find(v value.Value, want []string) {
	text := want[m.rng.IntN(len(want))]
	if m.rng.IntN(8) == 0 {
		text = "none"
	}
	for _, from := range []list.End{list.Head, list.Tail} {
		for _, most := range []int{len(want), 1 + m.rng.IntN(len(want))} {
			var found, expected []int
			for i := range most {
				if from == list.Tail {
					i = len(want) - 1 - i
				}
				if want[i] == text {
					expected = append(expected, i)
				}
			}
			var f list.Finder
			f.Start(v, []byte(text), from, most)
			for i, ok := f.Next(); ok; i, ok = f.Next() {
				found = append(found, i)
			}
			if !slices.Equal(found, expected) {
				m.t.Errorf("%q among %d of %d elements, from the tail: %v: found %v, want %v",
					text, most, len(want), from, found, expected)
			}
		}
	}
}

// pieced returns a list's content from index from to the end, read piece by piece.
func pieced(v value.Value, from int) (texts []string) {
	var c list.Cursor
	c.Seek(v, from, list.Tail)
	for {
		if lp, at := c.Piece(); lp != nil {
			for at != 0 {
				var el listpack.Element
				text, behind, short := listpack.ShortText(lp, at)
				if el, at = listpack.GetNext(lp, at); short && (!el.Equal(text) || at != 0 && at != behind) {
					panic("ShortText differs")
				}
				texts = append(texts, string(el.Append(nil)))
			}
			continue
		}
		el, ok := c.Next()
		if !ok {
			return texts
		}
		texts = append(texts, string(el.Append(nil)))
	}
}

// compare checks all lists, through every function that reads them.
func (m *model) compare() {
	if m.db.Len() != len(m.want) {
		m.t.Errorf("%d keys, want %d", m.db.Len(), len(m.want))
	}
	for key, want := range m.want {
		v := m.db.Peek([]byte(key))
		if err := list.Check(m.h, v); err != nil {
			m.t.Error(err)
		}
		if list.Len(v) != len(want) || !slices.Equal(elements(v), want) {
			m.t.Errorf("%s: %d elements, want %d, or they differ", key, list.Len(v), len(want))
			return
		}
		from := m.rng.IntN(len(want))
		var c list.Cursor
		c.Seek(v, from, list.Head)
		for i := from; i >= 0; i-- {
			if el, ok := c.Next(); !ok || !el.Equal([]byte(want[i])) {
				m.t.Errorf("%s, backwards from %d: %d differs", key, from, i)
				return
			}
		}
		if _, ok := c.Next(); ok {
			m.t.Error("there is an element before the first")
		}
		if !slices.Equal(pieced(v, from), want[from:]) {
			m.t.Errorf("%s: pieces from %d differ", key, from)
		}
		for _, i := range []int{-1, -len(want), 0, len(want) - 1, from} {
			at := (i + len(want)) % len(want)
			text := list.TextOf([]byte(want[at]))
			if el, ok := list.At(v, int64(i)); !ok || !text.Is(el) {
				m.t.Errorf("%s: element %d differs", key, i)
			}
		}
		if _, ok := list.At(v, int64(len(want))); ok {
			m.t.Error("there is an element after the last")
		}
		m.find(v, want)
		head, tail := list.First(v, list.Head), list.First(v, list.Tail)
		if !head.Equal([]byte(want[0])) || !tail.Equal([]byte(want[len(want)-1])) {
			m.t.Errorf("%s: the ends differ", key)
		}
		pieces, n := 0, 0
		for p := range func(yield func(list.Piece) bool) { list.Leaves(v, yield) } {
			pieces++
			piece := expand(m.t, p)
			if p.Plain {
				if !bytes.Equal(piece, []byte(want[n])) {
					m.t.Errorf("%s: plain piece %d differs", key, pieces)
				}
				n++
			} else {
				n += listpack.Count(piece)
			}
		}
		if n != len(want) || pieces != list.LeafCount(v) {
			m.t.Errorf("%s: %d elements in %d pieces of %d", key, n, pieces, list.LeafCount(v))
		}
		if used := m.k.MemoryUsage(v, 0); m.limits.Depth == 0 && used < len(strings.Join(want, ""))/2 {
			m.t.Errorf("%s: MEMORY USAGE %d", key, used)
		}
	}
}

// relocate does the next step of a walk that moves every block.
func (m *model) relocate() {
	memorytest.Relocate(m.h, m.rng.IntN(40), func(stop func() bool) bool {
		over := m.k.Defragment(&m.defrag, stop)
		if over {
			m.defrag = keyspace.Defrag{}
		}
		return over
	})
}
