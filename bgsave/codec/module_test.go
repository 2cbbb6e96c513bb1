package codec

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"spindle/bgsave/rdb"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// moduleData is the test's module type: a set, as a listpack or as a table. Its Codec is the shortest complete one.
type moduleData struct {
	value.Header
	members table.State
}

const (
	toyKind = value.KindModule + 3
	toyName = "toyset-01"
)

func moduleAt(ref memory.Ref) *moduleData { return (*moduleData)(memory.Pointer(ref)) }

var toyStructure = value.Structure{
	Count: func(root memory.Ref) int { return moduleAt(root).members.Len() },
	Destroy: func(r *memory.Returner, root memory.Ref, budget int) (memory.Ref, int) {
		done, n := moduleAt(root).members.Destroy(r, budget)
		if !done {
			return root, n
		}
		r.Free(root, memory.Values)
		return 0, n + 1
	},
}

var toyCodec = Codec{
	Type: value.Module, Module: toyName, Root: toyKind,
	Write: func(w *rdb.Writer, _ rdb.Kind, v value.Value) {
		w.Length(rdb.ModuleID(toyName, 1))
		state := &moduleAt(v.Root()).members
		w.Length(5)
		w.Text(fmt.Appendf(nil, "%d", state.Len()))
		table.Walk(state.Root(), 0, ^uint64(0), nil, func(ref memory.Ref) bool {
			w.Length(5)
			w.Text(table.MemberKey(ref))
			return !w.Stopped()
		})
		w.Length(0)
	},
	Read:  readModule,
	Start: func(s Source) Builder { return &moduleBuilder{source: s, r: rdb.NewReader(s.Raw)} },
}

// moduleText reads a module's string.
func moduleText(r *rdb.Reader, scratch []byte) (text, longer []byte, err error) {
	if op, err := r.Length(); err != nil || op != 5 {
		return nil, scratch, rdb.Corrupt("no string")
	}
	return r.Bytes(scratch)
}

func readModule(x *Expander, _ rdb.Kind, r *rdb.Reader) (ready Ready, err error) {
	text, _, err := moduleText(r, nil)
	if err != nil {
		return ready, err
	}
	n := 0
	if _, err := fmt.Sscan(string(text), &n); err != nil || n < 0 || n > r.Len() {
		return ready, rdb.Corrupt("a false count")
	}
	ready.Encoding = value.HashTable
	if n == 0 {
		return ready, ErrEmpty
	}
	return ready, nil
}

type moduleBuilder struct {
	source  Source
	r       rdb.Reader
	root    memory.Ref
	left    int
	scratch []byte
}

func (b *moduleBuilder) Root() memory.Ref { return b.root }

func (b *moduleBuilder) Step(n int) (done bool, err error) {
	s := b.source.Store
	var t table.Table
	if b.root == 0 {
		text, _, _ := moduleText(&b.r, nil)
		_, _ = fmt.Sscan(string(text), &b.left)
		t = table.New(s.Heap, table.Member, s.Base)
		b.root = s.NewRoot(toyKind, int(unsafe.Sizeof(moduleData{})))
	} else {
		t = table.Open(s.Heap, table.Member, &moduleAt(b.root).members, true)
	}
	for ; n > 0 && b.left > 0 && err == nil; n-- {
		err = b.member(&t)
		b.left--
	}
	moduleAt(b.root).members = t.State()
	if err != nil || b.left > 0 {
		return false, err
	}
	if end, err := b.r.Length(); err != nil || end != 0 || b.r.Len() != 0 {
		return false, rdb.Corrupt("no end")
	}
	return true, nil
}

func (b *moduleBuilder) member(t *table.Table) (err error) {
	var member []byte
	if member, b.scratch, err = moduleText(&b.r, b.scratch); err != nil {
		return err
	}
	hash := table.Hash(member)
	if _, ref := t.Find(hash, member); ref != 0 {
		return errDuplicate
	}
	t.Insert(hash, table.NewMember(b.source.Store.Heap, member), table.Never)
	return nil
}

func moduleMembers(v value.Value) string {
	var members []string
	table.Walk(moduleAt(v.Root()).members.Root(), 0, ^uint64(0), nil, func(ref memory.Ref) bool {
		members = append(members, string(table.MemberKey(ref)))
		return true
	})
	slices.Sort(members)
	return strings.Join(members, " ")
}

// moduleValue returns a moduleData in a file, composed by hand.
func moduleValue(members ...string) string {
	w := rdb.Writer{}
	w.Length(rdb.ModuleID(toyName, 1))
	for _, m := range append([]string{fmt.Sprint(len(members))}, members...) {
		w.Length(5)
		w.Text([]byte(m))
	}
	w.Length(0)
	return string(w.Buf)
}

// TestModuleValue: a module's value survives writing and reading. A value that is cut or wrong anywhere is refused,
// and leaves no memory in use.
func TestModuleValue(t *testing.T) {
	k := newSpace(t)
	members := []string{strings.Repeat("long ", 40_000)}
	for i := range 1000 {
		members = append(members, fmt.Sprint("member", i*i))
	}
	if err := restore(k, "moduleData", rdb.KindModule2, []byte(moduleValue(members...)), Env{}); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, k, "moduleData", DefaultLimits, moduleMembers)
	refused(t, rdb.KindModule2, moduleValue("a", "b"), map[string]string{
		"duplicate": moduleValue("a", "b", "c", "d", "a"), "behind the end": moduleValue("a") + "x", "empty": moduleValue(),
		"unknown": strings.Replace(moduleValue("a"), "\x81", "\x80", 1),
	})
	used := k.Heap().Used()
	k.DB(0).Delete([]byte("moduleData"))
	if k.Heap().Used() >= used {
		t.Errorf("%d bytes used, %d before", k.Heap().Used(), used)
	}
}

// TestKnown: Known returns the names of the kinds and modules that no codec reads.
func TestKnown(t *testing.T) {
	id := rdb.AppendLength(nil, rdb.ModuleID("ReJSON-RL", 3))
	for _, c := range []struct {
		kind rdb.Kind
		raw  []byte
		what string
	}{
		{rdb.KindString, nil, ""},
		{rdb.KindModule2, []byte(moduleValue("a")), ""},
		{rdb.KindModule2, id, `a value of module type "ReJSON-RL" (version 3)`},
		{rdb.KindModulePre, nil, "a value of type module value of a pre-release"},
	} {
		if _, what := Known(c.kind, c.raw); what != c.what {
			t.Errorf("%q, want %q", what, c.what)
		}
	}
}

// TestProven checks the rules for a listpack that comes from outside.
func TestProven(t *testing.T) {
	lp := func(elements ...string) []byte {
		p := listpack.AppendEmpty(nil)
		for _, e := range elements {
			p = listpack.AppendElement(p, listpack.Of([]byte(e)))
		}
		return p
	}
	numberAsText := []byte("\x0f\x00\x00\x00\x02\x00\x8212\x03\x0c\x01\x01\x01\xff")
	numberAsText = append(numberAsText[:10:10], 0x0c, 0x01, 0xff)
	numberAsText[0] = byte(len(numberAsText))
	cases := []struct {
		name     string
		lp       []byte
		per      int
		distinct bool
		want     error
	}{
		{"empty", lp(), 1, false, ErrEmpty},
		{"one", lp("a"), 1, true, nil},
		{"odd", lp("a", "b", "c"), 2, true, errOdd},
		{"equal values", lp("a", "x", "b", "x"), 2, true, nil},
		{"equal fields", lp("a", "x", "a", "y"), 2, true, errDuplicate},
		{"equal, allowed", lp("a", "a"), 1, false, nil},
		{"equal numbers", lp("12", "012", "12"), 1, true, errDuplicate},
		{"a number as text", numberAsText, 1, true, errDuplicate},
		{"cut", lp("a", "b")[:9], 1, false, listpack.ErrSize},
	}
	x := &Expander{}
	for _, c := range cases {
		if _, err := x.Proven(c.lp, c.per, c.distinct); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	many := listpack.AppendEmpty(nil)
	for i := range 5000 {
		many = listpack.AppendElement(many, listpack.Of(fmt.Appendf(nil, "element %d", i)))
	}
	if n, err := x.Proven(many, 1, true); n != 5000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := x.Proven(listpack.AppendElement(many, listpack.Of([]byte("element 77"))), 1, true); err != errDuplicate {
		t.Error(err)
	}
}

// TestKeep: the bytes that an Expander returns stay the same until Reset, however many they are.
func TestKeep(t *testing.T) {
	x := &Expander{}
	for range 3 {
		x.Reset()
		var kept [][]byte
		for i := range 3000 {
			b := x.Begin()
			for range i % 500 {
				b = append(b, byte(i))
			}
			if i%3 > 0 { // the others are not kept
				kept = append(kept, x.Keep(b))
			} else {
				kept = append(kept, nil)
			}
		}
		for i, b := range kept {
			if i%3 > 0 && (len(b) != i%500 || strings.Trim(string(b), string([]byte{byte(i)})) != "") {
				t.Fatalf("%d: %d bytes, %.20q", i, len(b), b)
			}
		}
	}
}
