package codec

import (
	"fmt"
	"strings"
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// listText returns a list's encoding, nodes and elements.
func listText(v value.Value) string {
	var b strings.Builder
	fmt.Fprint(&b, v.Encoding(), " ", list.Len(v))
	list.Leaves(v, func(p list.Piece) bool {
		if p.Plain {
			fmt.Fprintf(&b, " plain(%s)", p.Bytes)
			return true
		}
		b.WriteString(" packed(")
		for _, el := range listpack.All(p.Bytes) {
			b.WriteString(" " + string(el.Append(nil)))
		}
		b.WriteString(")")
		return true
	})
	return b.String()
}

// listElements returns only the elements of a list.
func listElements(v value.Value) string {
	var texts []string
	var c list.Cursor
	c.Seek(v, 0, list.Tail)
	for el, ok := c.Next(); ok; el, ok = c.Next() {
		texts = append(texts, string(el.Append(nil)))
	}
	return strings.Join(texts, "|")
}

// makeList makes key a list of elements, as RPUSH would.
func makeList(k *keyspace.Keyspace, key string, l Limits, elements ...string) {
	var raw [][]byte
	for _, e := range elements {
		raw = append(raw, []byte(e))
	}
	limits := list.Limits{Fill: l.ListSize}
	if n, ok := list.PackedBytes(limits, raw); ok {
		e := k.DB(0).Create([]byte(key), value.List, value.Listpack, n)
		list.Write(e.Packed(), list.Tail, raw)
		return
	}
	e := k.DB(0).CreateRoot([]byte(key), value.List, value.Quicklist, list.New(k.Store(), limits))
	list.Push(e, limits, list.Tail, raw)
}

func manyTexts(n int) (texts []string) {
	for i := range n {
		texts = append(texts, fmt.Sprint("element ", i), fmt.Sprint(i*i), "")
	}
	return texts
}

// TestListRoundTrip: lists survive writing and reading node by node.
func TestListRoundTrip(t *testing.T) {
	long := strings.Repeat("long ", 30_000)
	for _, size := range []int{-2, -1, 3, 0, 128} {
		k := newSpace(t)
		l := DefaultLimits
		l.ListSize = size
		for key, elements := range map[string][]string{
			"one": {"x"}, "few": {"a", "1", "-70000", "", "007"}, "long": {long},
			"among others": append(append(manyTexts(3), long), manyTexts(2)...),
			"many":         manyTexts(3000), "many and long": append([]string{long}, append(manyTexts(1000), long, long)...),
		} {
			makeList(k, key, l, elements...)
			roundTrip(t, k, key, l, listText)
		}
	}
}

// TestListTooLongToExpand: if a list is too long to expand its compressed nodes in advance, the builder checks them.
func TestListTooLongToExpand(t *testing.T) {
	text := strings.Repeat("compressible ", 300)
	piece := packedOf(text, text)
	w := rdb.Writer{}
	w.Compress = true
	n := expandedAtMost/len(piece) + 10
	w.Length(uint64(n))
	for range n {
		w.Length(packedPiece)
		w.Text(piece)
	}
	if len(w.Buf) > expandedAtMost/10 {
		t.Fatalf("%d bytes: not compressed", len(w.Buf))
	}
	x := &Expander{Env: Env{Limits: DefaultLimits}}
	if ready, err := x.Read(rdb.KindListQuicklist2, w.Buf); err != nil || ready.Packed != nil {
		t.Errorf("%d bytes expanded, %v", len(ready.Packed), err)
	}
	k := newSpace(t)
	if err := restore(k, "k", rdb.KindListQuicklist2, w.Buf, x.Env); err != nil {
		t.Fatal(err)
	}
	v := k.DB(0).Peek([]byte("k"))
	if err := list.Check(k.Heap(), v); err != nil || list.Len(v) != 2*n {
		t.Errorf("%d elements, want %d, %v", list.Len(v), 2*n, err)
	}
	piece[len(piece)-2]++ // the backward length of the last element
	w.Length(packedPiece)
	w.Text(piece)
	bad := rdb.AppendLength(nil, uint64(n+1))
	bad = append(bad, w.Buf[len(rdb.AppendLength(nil, uint64(n))):]...)
	if restore(k, "bad", rdb.KindListQuicklist2, bad, x.Env) == nil {
		t.Error("a damaged last piece is taken")
	}
}

// TestListStepsAreShort: a step ends early if its elements are long, because a turn of loading checks the clock only
// between steps.
func TestListStepsAreShort(t *testing.T) {
	texts := make([]string, 10)
	for i := range texts {
		texts[i] = strings.Repeat(string(rune('a'+i)), 100_000)
	}
	k, env := newSpace(t), &Env{Limits: DefaultLimits}
	ready, err := (&Expander{Env: *env}).Read(rdb.KindList, []byte(rawList(texts...)))
	if err != nil {
		t.Fatal(err)
	}
	b := Start(rdb.KindList, []byte(rawList(texts...)), ready, k.Store(), env)
	steps := 0
	for done := false; !done; steps++ {
		if done, err = b.Step(len(texts)); err != nil {
			t.Fatal(err)
		}
	}
	if steps < len(texts) {
		t.Errorf("%d steps of %d long elements", steps, len(texts))
	}
	LetGo(k.Store(), value.List, b)
}

// TestListsTooLongTogether: the lists of one round share the memory for nodes expanded in advance. The next round
// starts again.
func TestListsTooLongTogether(t *testing.T) {
	text := strings.Repeat("compressible ", 300)
	piece := packedOf(text, text)
	w := rdb.Writer{}
	w.Compress = true
	n := expandedAtMost / len(piece) / 2
	w.Length(uint64(n))
	for range n {
		w.Length(packedPiece)
		w.Text(piece)
	}
	x := &Expander{Env: Env{Limits: DefaultLimits}}
	for round := range 2 {
		expanded := 0
		for range 5 {
			ready, err := x.Read(rdb.KindListQuicklist2, w.Buf)
			if err != nil {
				t.Fatal(err)
			}
			expanded += len(ready.Packed)
		}
		if expanded < expandedAtMost/3 || expanded > expandedAtMost {
			t.Errorf("round %d: %d bytes expanded", round, expanded)
		}
		x.Reset()
	}
}

// rawList returns a list in a file, element by element. rawPieces returns a list in nodes; what stands before each
// node, unless it is 0.
func rawList(elements ...string) string { return rawSet(elements...) }

func rawPieces(what uint64, pieces ...string) string {
	w := rdb.Writer{}
	w.Length(uint64(len(pieces)))
	for _, p := range pieces {
		if what != 0 {
			w.Length(what)
		}
		w.Text([]byte(p))
	}
	return string(w.Buf)
}

// ziplistOf returns a ziplist of strings shorter than 64 bytes.
func ziplistOf(elements ...string) string {
	var b []byte
	last, previous := 10, 0
	for _, e := range elements {
		last = 10 + len(b)
		b = append(b, byte(previous), byte(len(e)))
		b = append(b, e...)
		previous = 2 + len(e)
	}
	n := 10 + len(b) + 1
	head := []byte{byte(n), byte(n >> 8), byte(n >> 16), 0, byte(last), byte(last >> 8), byte(last >> 16), 0,
		byte(len(elements)), byte(len(elements) >> 8)}
	return string(append(append(head, b...), 0xFF))
}

// TestListOldKinds: lists of other versions are read, and get the encoding that the current settings ask for.
func TestListOldKinds(t *testing.T) {
	x := strings.Repeat("x", 40)
	many := make([]string, 500)
	for i := range many {
		many[i] = fmt.Sprint(x, i)
	}
	huge := strings.Repeat("h", 9000)
	for _, c := range []struct {
		name string
		kind rdb.Kind
		raw  string
		want string
		enc  value.Encoding
	}{
		{"elements", rdb.KindList, rawList("a", "12", "012", ""), "a|12|012|", value.Listpack},
		{"many elements", rdb.KindList, rawList(many...), strings.Join(many, "|"), value.Quicklist},
		{"a huge element", rdb.KindList, rawList("a", huge, "b"), "a|" + huge + "|b", value.Quicklist},
		{"ziplist", rdb.KindListZiplist, rawText([]byte(ziplistOf("a", "b", "7"))), "a|b|7", value.Listpack},
		{"long ziplist", rdb.KindListZiplist, rawText([]byte(ziplistOf(many...))), strings.Join(many, "|"), value.Quicklist},
		{"one ziplist", rdb.KindListQuicklist, rawPieces(0, ziplistOf("a", "b")), "a|b", value.Listpack},
		{"ziplists", rdb.KindListQuicklist, rawPieces(0, ziplistOf("a", "b"), ziplistOf(), ziplistOf("c")), "a|b|c",
			value.Quicklist},
		{"one listpack", rdb.KindListQuicklist2, rawPieces(2, string(packedOf("a", "b"))), "a|b", value.Listpack},
		{"one long listpack", rdb.KindListQuicklist2, rawPieces(2, string(packedOf(many...))), strings.Join(many, "|"),
			value.Quicklist},
		{"listpacks", rdb.KindListQuicklist2, rawPieces(2, string(packedOf("a")), string(packedOf()),
			string(packedOf("1", "2"))), "a|1|2", value.Quicklist},
		{"plain", rdb.KindListQuicklist2, rawPieces(1, "a", huge), "a|" + huge, value.Quicklist},
		{"one plain", rdb.KindListQuicklist2, rawPieces(1, "a"), "a", value.Quicklist},
	} {
		k := newSpace(t)
		if err := restore(k, "k", c.kind, []byte(c.raw), Env{Limits: DefaultLimits}); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		v := k.DB(0).Peek([]byte("k"))
		if err := list.Check(k.Heap(), v); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := listElements(v); got != c.want || v.Encoding() != c.enc {
			t.Errorf("%s: %s, %.200s", c.name, v.Encoding(), got)
		}
	}
	for name, c := range map[string]struct {
		kind rdb.Kind
		raw  string
	}{
		"no elements": {rdb.KindList, rawList()}, "an empty ziplist": {rdb.KindListZiplist, rawText([]byte(ziplistOf()))},
		"no pieces":      {rdb.KindListQuicklist2, rawPieces(2)},
		"an empty piece": {rdb.KindListQuicklist2, rawPieces(2, string(packedOf()))},
		"empty pieces":   {rdb.KindListQuicklist2, rawPieces(2, string(packedOf()), string(packedOf()))},
		"no ziplists":    {rdb.KindListQuicklist, rawPieces(0)},
	} {
		if err := restore(newSpace(t), "k", c.kind, []byte(c.raw), Env{Limits: DefaultLimits}); err != ErrEmpty {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestListRefused: lists that are cut or wrong anywhere are refused.
func TestListRefused(t *testing.T) {
	long := manyTexts(400)
	refused(t, rdb.KindList, rawList("a", "b"), map[string]string{
		"behind the end": rawList("a") + "x", "a false count": "\x7f\xff" + rawList("a")[1:],
		"a huge count": "\x81\xff\xff\xff\xff\xff\xff\xff\xff",
		"behind many":  rawList(long...) + "x",
	})
	refused(t, rdb.KindListZiplist, rawText([]byte(ziplistOf("a", "b"))),
		map[string]string{"no ziplist": rawText([]byte("abcdefghijklmnop"))})
	refused(t, rdb.KindListQuicklist, rawPieces(0, ziplistOf("a"), ziplistOf("b")),
		map[string]string{"no ziplist": rawPieces(0, ziplistOf("a"), "b")})
	good := string(packedOf("a", "b"))
	refused(t, rdb.KindListQuicklist2, rawPieces(2, good, good), map[string]string{
		"unknown piece": rawPieces(3, good), "unknown pieces": rawPieces(3, good, good), "piece 0": rawPieces(0, good),
		"an empty plain piece":  rawPieces(1, "", "a"),
		"one empty plain piece": rawPieces(1, ""), "no listpack": rawPieces(2, good, "abcdefgh"),
		"behind the end": rawPieces(2, good, good) + "x",
		"behind one":     rawPieces(2, good) + "x", "a false count": rawPieces(2, good, good[:4]+"\x07"+good[5:]),
	})
}

// FuzzReadList: any bytes are refused, or are a list that can be written and read again.
func FuzzReadList(f *testing.F) {
	f.Add(byte(rdb.KindList), []byte(rawList("a", "12", "")))
	f.Add(byte(rdb.KindListZiplist), []byte(rawText([]byte(ziplistOf("a", "b")))))
	f.Add(byte(rdb.KindListQuicklist), []byte(rawPieces(0, ziplistOf("a"), ziplistOf("b"))))
	f.Add(byte(rdb.KindListQuicklist2), []byte(rawPieces(2, string(packedOf("a", "1")), string(packedOf("b")))))
	f.Add(byte(rdb.KindListQuicklist2), []byte(rawPieces(1, "plain", "x")))
	k := newSpace(f)
	f.Fuzz(func(t *testing.T, kind byte, raw []byte) {
		switch rdb.Kind(kind) {
		case rdb.KindList, rdb.KindListZiplist, rdb.KindListQuicklist, rdb.KindListQuicklist2:
		default:
			kind = byte(rdb.KindListQuicklist2)
		}
		if restore(k, "k", rdb.Kind(kind), raw, Env{Limits: DefaultLimits}) != nil {
			return
		}
		if err := list.Check(k.Heap(), k.DB(0).Peek([]byte("k"))); err != nil {
			t.Fatal(err)
		}
		roundTrip(t, k, "k", DefaultLimits, listElements)
		k.DB(0).Delete([]byte("k"))
	})
}
