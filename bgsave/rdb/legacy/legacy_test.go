package legacy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spindle/engine/data/listpack"
)

// A golden is a line of testdata/golden.jsonl: a value in a retired format, and its elements as redis-server 7.4.1 read
// them. bytes was sent to RESTORE in a payload of RDB version 9, as a list, hash or sorted set. elements is the reply
// of LRANGE, HGETALL or ZRANGE WITHSCORES. Names with "of …rdb" are values from files in Redis's test suite, which old
// servers wrote. The other values were composed to cover each form. bytes is hexadecimal, with [n] for n times "x". In
// elements, a number n stands for that too.
type golden struct {
	Name, Format, Bytes string
	Elements            []any
}

func (g golden) bytes(t testing.TB) (p []byte) {
	for i, part := range strings.FieldsFunc(g.Bytes, func(r rune) bool { return r == '[' || r == ']' }) {
		if i%2 == 1 {
			n, err := strconv.Atoi(part)
			if err != nil {
				t.Fatal(err)
			}
			p = append(p, strings.Repeat("x", n)...)
			continue
		}
		b, err := hex.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		p = append(p, b...)
	}
	return p
}

func (g golden) texts() (texts []string) {
	for _, e := range g.Elements {
		if n, long := e.(float64); long {
			texts = append(texts, strings.Repeat("x", int(n)))
		} else {
			texts = append(texts, e.(string))
		}
	}
	return texts
}

func goldens(t testing.TB) (all []golden) {
	file, err := os.Open("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var g golden
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	if err := lines.Err(); err != nil || len(all) < 10 {
		t.Fatalf("%d cases, %v", len(all), err)
	}
	return all
}

// read returns the elements of p in this format, and p as a listpack.
func read(format string, p []byte) (texts []string, lp []byte, err error) {
	if format == "zipmap" {
		z, err := ReadZipmap(p)
		if err != nil {
			return nil, nil, err
		}
		for field, value := range z.All() {
			texts = append(texts, string(field), string(value))
		}
		return texts, z.AppendListpack(nil), nil
	}
	z, err := ReadZiplist(p)
	if err != nil {
		return nil, nil, err
	}
	for e := range z.All() {
		texts = append(texts, string(e.Append(nil)))
	}
	return texts, z.AppendListpack(nil), nil
}

// checkListpack checks that lp equals the listpack built from texts.
func checkListpack(t *testing.T, lp []byte, texts []string) {
	t.Helper()
	want := listpack.AppendEmpty(nil)
	for _, text := range texts {
		want = listpack.AppendElement(want, listpack.Of([]byte(text)))
	}
	if !bytes.Equal(lp, want) {
		t.Fatalf("as a listpack %x, want %x", lp, want)
	}
}

func TestGolden(t *testing.T) {
	for _, g := range goldens(t) {
		texts, lp, err := read(g.Format, g.bytes(t))
		if err != nil {
			t.Errorf("%s: %v", g.Name, err)
			continue
		}
		if !slices.Equal(texts, g.texts()) {
			t.Errorf("%s: %.200q, want %.200q", g.Name, texts, g.texts())
		}
		checkListpack(t, lp, g.texts())
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, format string
		p            string
		err          error
	}{
		{"empty", "ziplist", "\x0b\x00\x00\x00\x0a\x00\x00\x00\x00\x00\xff", nil},
		{"no bytes", "ziplist", "", ErrZiplistSize},
		{"header only", "ziplist", "\x0a\x00\x00\x00\x0a\x00\x00\x00\x00\x00", ErrZiplistSize},
		{"longer than it says", "ziplist", "\x0b\x00\x00\x00\x0a\x00\x00\x00\x00\x00\xff\xff", ErrZiplistSize},
		{"no end", "ziplist", "\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xf8\x00", ErrZiplistEnd},
		{"an end in the middle", "ziplist", "\x0e\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xf8\xff\xff", ErrZiplistEnd},
		{"one", "ziplist", "\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xf8\xff", nil},
		{"encoding 0xFF", "ziplist", "\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xff\xff", ErrZiplistEntry},
		{"encoding 0xC1", "ziplist", "\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xc1\xff", ErrZiplistEntry},
		{"no encoding", "ziplist", "\x0c\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xff", ErrZiplistEntry},
		{"integer cut off", "ziplist", "\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xfe\xff", ErrZiplistEntry},
		{"string beyond the end", "ziplist", "\x0e\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x02a\xff", ErrZiplistEntry},
		{"14-bit length cut off", "ziplist", "\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x40\xff", ErrZiplistEntry},
		{"32-bit length cut off", "ziplist", "\x0f\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x80\x00\x00\xff", ErrZiplistEntry},
		{"32-bit length of 4 GB", "ziplist", "\x11\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x80\xff\xff\xff\xff\xff",
			ErrZiplistEntry},
		{"previous length cut off", "ziplist", "\x0e\x00\x00\x00\x0a\x00\x00\x00\x01\x00\xfe\x00\x00\xff", ErrZiplistEntry},
		{"previous length of the first", "ziplist", "\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x01\xf8\xff", ErrZiplistBack},
		{"previous length of the second", "ziplist", "\x0f\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\xf8\x03\xf8\xff",
			ErrZiplistBack},
		{"tail", "ziplist", "\x0f\x00\x00\x00\x0a\x00\x00\x00\x02\x00\x00\xf8\x02\xf8\xff", ErrZiplistTail},
		{"count", "ziplist", "\x0f\x00\x00\x00\x0c\x00\x00\x00\x03\x00\x00\xf8\x02\xf8\xff", ErrZiplistCount},

		{"empty", "zipmap", "\x00\xff", nil},
		{"no bytes", "zipmap", "", ErrZipmapEnd},
		{"count only", "zipmap", "\xff", ErrZipmapEnd},
		{"no end", "zipmap", "\x01\x01a\x01\x00b\x00", ErrZipmapEnd},
		{"an end in the middle", "zipmap", "\x01\x01a\x01\x00b\xff\xff", ErrZipmapEnd},
		{"one", "zipmap", "\x01\x01a\x01\x00b\xff", nil},
		{"count", "zipmap", "\x02\x01a\x01\x00b\xff", ErrZipmapCount},
		{"field beyond the end", "zipmap", "\x01\x05a\x01\x00b\xff", ErrZipmapEntry},
		{"no value", "zipmap", "\x01\x01a\xff", ErrZipmapEntry},
		{"no room byte", "zipmap", "\x01\x01a\x00\xff", ErrZipmapEntry},
		{"value beyond the end", "zipmap", "\x01\x01a\x02\x00b\xff", ErrZipmapEntry},
		{"room beyond the end", "zipmap", "\x01\x01a\x01\x01b\xff", ErrZipmapEntry},
		{"value length 0xFF", "zipmap", "\x01\x01a\xff\x00\x00\x00\x00\x00\xff", ErrZipmapEntry},
		{"long length cut off", "zipmap", "\x01\xfe\x01\x00\x00\xff", ErrZipmapEntry},
		{"field of 4 GB", "zipmap", "\x01\xfe\xff\xff\xff\xff\xff", ErrZipmapEntry},
		{"value of 4 GB", "zipmap", "\x01\x01a\xfe\xff\xff\xff\xff\xff\xff", ErrZipmapEntry},
	} {
		if _, _, err := read(c.format, []byte(c.p)); err != c.err {
			t.Errorf("%s, %s: %v, want %v", c.format, c.name, err, c.err)
		}
	}
}

// TestDamaged: a cut value is never valid. A value with a changed byte is refused, or is another readable value.
func TestDamaged(t *testing.T) {
	for _, g := range goldens(t) {
		p := g.bytes(t)
		if len(p) > 2000 {
			continue
		}
		for n := range p {
			// A zipmap of unknown count may be cut at a byte 0xFF, but these values have no such byte.
			if _, _, err := read(g.Format, p[:n]); err == nil {
				t.Fatalf("%s: the first %d of %d bytes are accepted", g.Name, n, len(p))
			}
		}
		for i := range p {
			for _, b := range []byte{0, 1, 0x3F, 0x40, 0x80, 0xC0, 0xF0, 0xFD, 0xFE, 0xFF, p[i] + 1, p[i] - 1} {
				dup := slices.Clip(bytes.Clone(p))
				dup[i] = b
				if texts, lp, err := read(g.Format, dup); err == nil {
					checkListpack(t, lp, texts)
				}
			}
		}
	}
}

// FuzzZiplist: a ziplist that ReadZiplist accepts can be read to its end, and its listpack has the same elements.
func FuzzZiplist(f *testing.F) {
	for _, g := range goldens(f) {
		if p := g.bytes(f); g.Format == "ziplist" && len(p) < 2000 {
			f.Add(p)
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if texts, lp, err := read("ziplist", slices.Clip(p)); err == nil {
			checkListpack(t, lp, texts)
		}
		// The same bytes get a correct header, so that only the entries can be wrong.
		if len(p) <= ziplistHeader {
			return
		}
		p = append(bytes.Clone(p), ziplistEnd)
		binary.LittleEndian.PutUint32(p, uint32(len(p)))
		binary.LittleEndian.PutUint16(p[8:], countUnknown)
		for tail := ziplistHeader; tail < min(len(p)-1, 200); tail++ {
			binary.LittleEndian.PutUint32(p[4:], uint32(tail))
			texts, lp, err := read("ziplist", p)
			if err == nil {
				checkListpack(t, lp, texts)
			}
			if err != ErrZiplistTail {
				break
			}
		}
	})
}

// FuzzZipmap: a zipmap that ReadZipmap accepts can be read to its end, and its listpack has the same elements.
func FuzzZipmap(f *testing.F) {
	for _, g := range goldens(f) {
		if p := g.bytes(f); g.Format == "zipmap" {
			f.Add(p)
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		for range 2 {
			if texts, lp, err := read("zipmap", slices.Clip(p)); err == nil {
				checkListpack(t, lp, texts)
			}
			if len(p) == 0 {
				return
			}
			p = append(bytes.Clone(p), zipmapEnd) // the second time with an end and no count
			p[0] = zipmapUnknown
		}
	})
}

// BenchmarkZiplist checks and reads a ziplist of 128 elements, as a load does for each old value. Watch MB/s.
func BenchmarkZiplist(b *testing.B) {
	p := []byte("\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff")
	tail, previous := 0, 0
	for range 128 {
		tail = len(p)
		p = append(append(p, byte(previous), 12), "some element"...)
		previous = len(p) - tail
	}
	p = append(p, ziplistEnd)
	binary.LittleEndian.PutUint32(p, uint32(len(p)))
	binary.LittleEndian.PutUint32(p[4:], uint32(tail))
	buffer := make([]byte, 0, 4096)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		z, err := ReadZiplist(p)
		if err != nil {
			b.Fatal(err)
		}
		z.AppendListpack(buffer)
	}
}
