package value

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
)

// An entryModel is a database of strings and packed sets, written only by Entries, and a Go map. Some Entries are kept
// while other Entries write.
type entryModel struct {
	t     *testing.T
	rng   *rand.Rand
	s     Store
	keys  Keys
	want  map[string]entryWant
	held  map[string]*Entry // found once, and used until their key is written by other means
	views []entryView
}

type entryWant struct {
	text     string // a type letter and the content
	deadline int64
	clock    uint32
}

type entryView struct {
	hold *memory.Hold
	root uint64
	want map[string]entryWant
}

func newEntryModel(t *testing.T) *entryModel {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &entryModel{t: t, rng: rand.New(rand.NewPCG(seed, 0)), want: map[string]entryWant{}, held: map[string]*Entry{}}
	m.s.Init(h)
	m.s.Base = 1_000_000
	h.Register(KindDatabase, table.Destroy(m.s.DestroyEntry))
	h.Register(KindDue, table.DestroyDue)
	m.keys.Init(&m.s, 0)
	return m
}

// entry returns an Entry of key: a kept one, or a new one, which the model may then keep.
func (m *entryModel) entry(key string) *Entry {
	e := m.held[key]
	if e == nil || m.rng.IntN(3) == 0 {
		e = new(Entry)
		if _, there := m.want[key]; e.Find(&m.keys, []byte(key)) != there {
			m.t.Fatalf("%q is there: %t", key, !there)
		}
		m.held[key] = e // another one must not be used any more: it does not know what this one writes
	}
	return e
}

func (m *entryModel) random(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + m.rng.IntN(26))
	}
	return string(b)
}

// form returns a form for a value of key, with the payload.
func (m *entryModel) form(key string, deadline int64) (f Form, word memory.Ref, inline string, text string) {
	size := m.rng.IntN(60)
	switch m.rng.IntN(10) {
	case 0:
		size = m.rng.IntN(9000)
	case 1:
		size = m.rng.IntN(100_000)
	case 2, 3:
		n := m.rng.Int64()
		return Form{Type: String, Encoding: Int, KeyLen: len(key)}, memory.Ref(n), "", "s" + strconv.FormatInt(n, 10)
	case 4, 5:
		text = m.random(size)
		f = PackedForm(Set, Listpack, len(key), size, deadline != 0)
		if f.Rooted {
			var to []byte
			word, to = m.s.NewPacked(size)
			copy(to, text)
		}
		return f, word, text, "p" + text
	}
	text = m.random(size)
	f.OfString(len(key), size, deadline != 0)
	if f.Rooted {
		word = m.s.NewLong([]byte(text))
	}
	return f, word, text, "s" + text
}

func (m *entryModel) step() {
	key := fmt.Sprint("k", m.rng.IntN(60))
	if m.rng.IntN(10) == 0 {
		key += m.random(1) + string(make([]byte, 300)) // its lengths do not fit the shape word
	}
	deadline := int64(0)
	if m.rng.IntN(2) == 0 {
		deadline = 1_000_000 + m.rng.Int64N(1_000_000)
	}
	want, there := m.want[key]
	clock := uint32(m.rng.IntN(1 << 24))
	switch op := m.rng.IntN(10); {
	case op < 4:
		e := m.entry(key)
		f, word, inline, text := m.form(key, deadline)
		f.Fill(e.Write(&f, []byte(key), deadline, clock), word, []byte(inline))
		if there {
			clock = want.clock // value.E3
		}
		m.want[key] = entryWant{text, deadline, clock}
	case op == 4:
		e := m.entry(key)
		f, word, inline, text := m.form(key, deadline)
		f.Volatile = deadline != 0
		ref, payload := m.s.NewEntry(&f, []byte(key), deadline, clock)
		f.Fill(payload, word, []byte(inline))
		e.Put(ref)
		m.want[key] = entryWant{text, deadline, clock}
	case op == 5 && there:
		m.entry(key).SetDeadline(deadline)
		m.want[key] = entryWant{want.text, deadline, want.clock}
	case op == 6 && there && want.text[0] == 's':
		off, data := m.rng.IntN(len(want.text)+100), m.random(1+m.rng.IntN(50))
		m.entry(key).Patch(off, []byte(data))
		b := append(make([]byte, 0, 1<<17), want.text[1:]...)
		for len(b) < off+len(data) {
			b = append(b, 0)
		}
		copy(b[off:], data)
		m.want[key] = entryWant{"s" + string(b), want.deadline, want.clock}
	case op == 7 && there:
		m.entry(key).Remove()
		delete(m.want, key)
		delete(m.held, key)
	case op == 8 && there: // RENAME
		to := fmt.Sprint("k", m.rng.IntN(60))
		if to == key {
			return
		}
		e := m.entry(key)
		v := e.Value()
		ref := m.s.CopyEntry(v, []byte(to), clock)
		if v.Rooted() {
			m.s.MoveRoot(v.Type(), v.Root())
		}
		e.Detach()
		delete(m.want, key)
		delete(m.held, key)
		m.entry(to).Put(ref)
		m.want[to] = entryWant{want.text, want.deadline, clock}
	case op == 9 && m.rng.IntN(4) == 0:
		if len(m.views) < 3 && m.rng.IntN(2) == 0 {
			v := entryView{root: m.keys.Root(), want: map[string]entryWant{}}
			for k, w := range m.want {
				v.want[k] = w
			}
			v.hold = m.s.Heap.Freeze()
			m.views = append(m.views, v)
		} else if len(m.views) > 0 {
			m.close(m.rng.IntN(len(m.views)))
		}
	}
}

// close compares a whole view with its expected content, and closes it.
func (m *entryModel) close(i int) {
	v := m.views[i]
	for key, w := range v.want {
		m.same("view", At(table.FindIn(v.root, table.Entry, table.Hash([]byte(key)), []byte(key))), key, w)
	}
	v.hold.Close()
	m.views = append(m.views[:i], m.views[i+1:]...)
	m.reclaim()
}

func (m *entryModel) reclaim() {
	for more := true; more; {
		more = m.s.Heap.Drain(1 << 20)
		job, _ := m.s.Heap.TakeJob()
		if job == nil {
			continue
		}
		for more = true; !job(100); {
		}
	}
}

func (m *entryModel) same(where string, v Value, key string, want entryWant) {
	m.t.Helper()
	if !v.Exists() {
		m.t.Fatalf("%s: %q is not there", where, key)
	}
	text := "p" + string(v.Packed())
	if v.Type() == String {
		text = "s" + string(v.AppendTo(nil))
	}
	if string(v.Key()) != key || text != want.text || v.Deadline() != want.deadline {
		m.t.Fatalf("%s: %q is %.40q until %d, want %q, %.40q until %d",
			where, v.Key(), text, v.Deadline(), key, want.text, want.deadline)
	}
	if where != "view" && v.Clock() != want.clock { // table.N1: a view's clock may be newer
		m.t.Fatalf("%s: clock %d of %q, want %d", where, v.Clock(), key, want.clock)
	}
}

// check compares everything with the model. It also checks value.E4, and value.E6 for the kept Entries.
func (m *entryModel) check() {
	if err := m.keys.Check(); err != nil {
		m.t.Fatal(err)
	}
	steps, volatile := uint64(0), 0
	for key, w := range m.want {
		p, ref := m.keys.Find(table.Hash([]byte(key)), []byte(key))
		m.same("database", At(ref), key, w)
		if w.deadline != 0 {
			steps += table.Steps(m.keys.Tick(w.deadline))
			volatile++
		}
		if e := m.held[key]; e != nil {
			if e.locate(); e.ref != ref || e.place != p {
				m.t.Fatalf("value.E6: the Entry of %q is of block %x at %v, which should be %x at %v", key, e.ref, e.place, ref, p)
			}
		}
	}
	if m.keys.Len() != len(m.want) || m.keys.Steps != steps || m.keys.Volatile() != volatile {
		m.t.Fatalf("value.E4: %d keys, want %d; steps %d, want %d; %d volatile, want %d",
			m.keys.Len(), len(m.want), m.keys.Steps, steps,
			m.keys.Volatile(), volatile)
	}
}

// TestEntryModel overwrites values of all forms with each other, with views of older states, which must not change. At
// the end no memory may be left, so each replaced value was freed once.
func TestEntryModel(t *testing.T) {
	m := newEntryModel(t)
	empty := m.s.Heap.Used()
	for step := range 8_000 {
		m.step()
		if step%50 == 0 {
			m.check()
		}
	}
	m.check()
	for len(m.views) > 0 {
		m.close(0)
	}
	for key := range m.want {
		var e Entry
		e.Find(&m.keys, []byte(key))
		e.Remove()
	}
	root, due := m.keys.Detach()
	m.s.Heap.RetireTreeWide(due, KindDue, 0)
	m.s.Heap.RetireTreeWide(root, KindDatabase, 0)
	m.reclaim()
	if used := m.s.Heap.Used(); used != empty {
		t.Fatalf("%d bytes are left; an empty database takes %d", used-empty, empty)
	}
}

// TestEntryStays: an entry is written in place exactly when a new block would have the same size, and never while a
// view reads it.
func TestEntryStays(t *testing.T) {
	m := newEntryModel(t)
	set := func(e *Entry, n int, deadline int64) memory.Ref {
		var f Form
		f.OfString(1, n, deadline != 0)
		f.Fill(e.Write(&f, []byte("k"), deadline, 0), 0, make([]byte, n))
		return e.ref
	}
	packed := func(e *Entry, n int) memory.Ref {
		f := PackedForm(Set, Listpack, 1, n, false)
		f.Fill(e.Write(&f, []byte("k"), 0, 0), 0, make([]byte, n))
		return e.ref
	}
	var e Entry
	e.Find(&m.keys, []byte("k"))
	first := set(&e, 20, 0) // 29 of 32 bytes
	for _, c := range []struct {
		name string
		do   func() memory.Ref
		same bool
	}{
		{"as long", func() memory.Ref { return set(&e, 20, 0) }, true},
		{"a little longer", func() memory.Ref { return set(&e, 23, 0) }, true},
		{"shorter by a class", func() memory.Ref { return set(&e, 15, 0) }, false},
		{"a deadline in the same class", func() memory.Ref { return set(&e, 7, 5_000_000) }, true},
		{"another deadline", func() memory.Ref { e.SetDeadline(6_000_000); return e.ref }, true},
		{"none: a class less", func() memory.Ref { e.SetDeadline(0); return e.ref }, false},
		{"patched", func() memory.Ref { e.Patch(3, []byte("xx")); return e.ref }, true},
		{"packed", func() memory.Ref { return packed(&e, 40) }, false},
		{"packed, more than half", func() memory.Ref { return packed(&e, 20) }, true},
		{"packed, less", func() memory.Ref { return packed(&e, 2) }, false},
	} {
		was := first
		if first = c.do(); (first == was) != c.same {
			t.Errorf("%s: in the same block %t, want %t", c.name, first == was, c.same)
		}
	}
	set(&e, 20, 0)
	hold := m.s.Heap.Freeze()
	was := e.ref
	if set(&e, 20, 0) == was {
		t.Error("value.E1: written under a view")
	}
	if was = e.ref; set(&e, 20, 0) != was {
		t.Error("value.E2: its block is not reused")
	}
	hold.Close()
}
