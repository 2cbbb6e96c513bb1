package listpack

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
)

// hostile are listpacks that we would never write, with the result of Validate for each.
var hostile = []struct {
	name string
	lp   string
	err  error
}{
	{"empty", "\x07\x00\x00\x00\x00\x00\xff", nil},
	{"no bytes", "", ErrSize},
	{"header only", "\x06\x00\x00\x00\x00\x00", ErrSize},
	{"longer than it says", "\x07\x00\x00\x00\x00\x00\xff\xff", ErrSize},
	{"shorter than it says", "\x08\x00\x00\x00\x00\x00\xff", ErrSize},
	{"no end", "\x09\x00\x00\x00\x01\x00\x05\x01\x00", ErrEnd},
	{"an end in the middle", "\x0a\x00\x00\x00\x01\x00\x05\x01\xff\xff", ErrEnd},
	{"count too low", "\x09\x00\x00\x00\x00\x00\x05\x01\xff", ErrCount},
	{"count too high", "\x09\x00\x00\x00\x02\x00\x05\x01\xff", ErrCount},
	{"count unknown", "\x09\x00\x00\x00\xff\xff\x05\x01\xff", nil},
	{"backlen too high", "\x09\x00\x00\x00\x01\x00\x05\x02\xff", ErrBacklen},
	{"backlen longer than ours", "\x0a\x00\x00\x00\x01\x00\x05\x00\x81\xff", ErrBacklen},
	{"unknown encoding", "\x09\x00\x00\x00\x01\x00\xf5\x01\xff", ErrEntry},
	{"string beyond the end", "\x09\x00\x00\x00\x01\x00\x83\x01\xff", ErrEntry},
	{"string up to the end, no backlen", "\x09\x00\x00\x00\x01\x00\x81a\xff", ErrEntry},
	{"12-bit length cut off", "\x08\x00\x00\x00\x01\x00\xe1\xff", ErrEntry},
	{"32-bit length cut off", "\x0b\x00\x00\x00\x01\x00\xf0\x01\x00\x00\xff", ErrEntry},
	{"32-bit length of 4 GB", "\x0d\x00\x00\x00\x01\x00\xf0\xff\xff\xff\xff\x05\xff", ErrEntry},
	{"64-bit integer cut off", "\x09\x00\x00\x00\x01\x00\xf4\x01\xff", ErrEntry},
	{"5 as a 64-bit integer", "\x11\x00\x00\x00\x01\x00\xf4\x05\x00\x00\x00\x00\x00\x00\x00\x09\xff", nil},
	{"5 as a string", "\x0a\x00\x00\x00\x01\x00\x815\x02\xff", nil},
	{"5 as a string with a 12-bit length", "\x0b\x00\x00\x00\x01\x00\xe0\x015\x03\xff", nil},
	{"5 as a string with a 32-bit length", "\x0e\x00\x00\x00\x01\x00\xf0\x01\x00\x00\x005\x06\xff", nil},
}

func TestValidate(t *testing.T) {
	for _, c := range hostile {
		if err := Validate([]byte(c.lp), true, nil); err != c.err {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		// A client's text finds the element, whatever its encoding is.
		if lp := []byte(c.lp); strings.HasPrefix(c.name, "5 ") && (Find(lp, First(lp), []byte("5"), 0) != HeaderLen ||
			!Equal(lp, HeaderLen, []byte("5")) || !Get(lp, HeaderLen).EqualElement(OfInt(5)) ||
			!OfInt(5).EqualElement(Get(lp, HeaderLen))) {
			t.Errorf("%s is not found", c.name)
		}
	}
	lp := AppendElement(AppendElement(AppendEmpty(nil), OfInt(1)), Of([]byte("b")))
	seen := 0
	if err := Validate(lp, true, func(at int, e Element) bool { seen++; return e.IsInt }); err != ErrElement || seen != 2 {
		t.Errorf("%v after %d elements, want a refusal of the second", err, seen)
	}
	if err := Validate([]byte("\x09\x00\x00\x00\x02\x00\xf5\x01\xff"), false, nil); err != nil {
		t.Errorf("entries are looked at without deep: %v", err)
	}
}

// TestValidateDamaged: a good listpack that is truncated, or has a changed byte, is either refused or still readable.
func TestValidateDamaged(t *testing.T) {
	lp := AppendEmpty(nil)
	for _, text := range edges {
		if len(text) < 200 {
			lp = AppendElement(lp, Of([]byte(text)))
		}
	}
	for n := range lp {
		if Validate(lp[:n], true, nil) == nil {
			t.Fatalf("the first %d of %d bytes are accepted", n, len(lp))
		}
	}
	for i := range lp {
		for _, b := range []byte{0, 1, 0x7F, 0x80, 0xC0, 0xE0, 0xF0, 0xF4, 0xFE, 0xFF, lp[i] + 1, lp[i] ^ 0x80} {
			dup := bytes.Clone(lp)
			dup[i] = b
			useAll(t, dup)
		}
	}
}

// useAll reads and edits p in every way that could leave its bounds, if Validate accepts p.
func useAll(t *testing.T, p []byte) {
	t.Helper()
	p = slices.Clip(p)
	if Validate(p, true, nil) != nil {
		return
	}
	var forward, backward []int
	var texts []string
	for at, e := range All(p) {
		forward = append(forward, at)
		texts = append(texts, string(e.Append(nil)))
		if e.Len() != len(texts[len(texts)-1]) {
			t.Fatalf("Len of %q is %d", texts[len(texts)-1], e.Len())
		}
	}
	for at := Last(p); at != 0; at = Prev(p, at) {
		backward = append(backward, at)
	}
	slices.Reverse(backward)
	if !slices.Equal(forward, backward) || Count(p) != len(forward) {
		t.Fatalf("listpack.I2, listpack.I3: %d elements at %v forward, %v backward", Count(p), forward, backward)
	}
	for i := 0; i < len(forward); i += 1 + len(forward)/8 {
		if at := Find(p, First(p), []byte(texts[i]), 0); at == 0 || string(Get(p, at).Append(nil)) != texts[i] {
			t.Fatalf("%q is not found", texts[i])
		}
		if Seek(p, i) != forward[i] || Seek(p, i-len(forward)) != forward[i] {
			t.Fatalf("Seek(%d) misses", i)
		}
		if rest := Apply(bytes.Clone(p), Delete(p, forward[i], 1)); Validate(rest, true, nil) != nil ||
			Count(rest) != len(forward)-1 {
			t.Fatalf("without element %d it is no listpack", i)
		}
		s := Replace(p, forward[i], EncodedIntLen(math.MinInt64))
		other := Apply(bytes.Clone(p), s)
		PutInt(s.Gap(other), math.MinInt64)
		if Validate(other, true, nil) != nil || Count(other) != len(forward) || Get(other, forward[i]).Int != math.MinInt64 {
			t.Fatalf("with another element %d it is no listpack", i)
		}
	}
	if longer := AppendElement(bytes.Clone(p), Of([]byte("new"))); Validate(longer, true, nil) != nil ||
		Count(longer) != len(forward)+1 {
		t.Fatal("with one more element it is no listpack")
	}
}

// FuzzValidate: a listpack that Validate accepts reads the same both ways, its elements are found, and edits keep it
// valid.
func FuzzValidate(f *testing.F) {
	for _, c := range hostile {
		f.Add([]byte(c.lp))
	}
	lp := AppendEmpty(nil)
	for _, text := range edges {
		if len(text) < 200 {
			lp = AppendElement(lp, Of([]byte(text)))
			f.Add(bytes.Clone(lp))
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		useAll(t, p)
		// Random bytes rarely match a header, so give them one that does.
		if len(p) < 1<<16 {
			framed := append([]byte{0, 0, 0, 0, 0xFF, 0xFF}, p...)
			framed = append(framed, end)
			framed[0], framed[1], framed[2] = byte(len(framed)), byte(len(framed)>>8), byte(len(framed)>>16)
			useAll(t, framed)
		}
	})
}

// FuzzEdits: a script of edits has the same effect on a listpack as on a []string. Each step is an operation, an index
// and a text.
func FuzzEdits(f *testing.F) {
	f.Add([]byte("\x00\x00\x03abc\x01\x00\x0212\x02\x01\x00\x03\x00\x04-100\x04\x00\x00"))
	f.Add([]byte("\x00\x00\x40" + strings.Repeat("x", 64) + "\x03\x00\x011\x00\x01\xff" + strings.Repeat("y", 255)))
	f.Fuzz(func(t *testing.T, script []byte) {
		lp, want := AppendEmpty(nil), []string{}
		for len(script) >= 3 && len(want) < 200 {
			op, index, size := script[0]%6, int(script[1]), int(script[2])
			script = script[3:]
			size = min(size, len(script))
			text := script[:size]
			script = script[size:]
			if op == 5 { // a long text
				text = bytes.Repeat(text, 40)
			}
			if n := len(want); n > 0 {
				index %= n
			} else {
				op = 0
			}
			var s Splice
			switch ins := EncodedLen(text); op {
			case 1:
				s = InsertBefore(offset(lp, index), ins, 1)
				want = slices.Insert(want, index, string(text))
			case 2:
				s = InsertAfter(lp, offset(lp, index), ins, 1)
				want = slices.Insert(want, index+1, string(text))
			case 3:
				s = Replace(lp, offset(lp, index), ins)
				want[index] = string(text)
			case 4:
				s = DeleteRange(lp, index, size)
				want = slices.Delete(want, index, min(index+size, len(want)))
			default:
				s = Append(lp, ins, 1)
				want = append(want, string(text))
			}
			lp = Apply(lp, s)
			if s.Ins > 0 {
				Put(s.Gap(lp), text)
			}
		}
		check(t, lp, want)
	})
}
