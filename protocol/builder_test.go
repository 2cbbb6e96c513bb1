package protocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// recorder is the simplest correct Builder: it stores its calls, and encodes them as bytes.
type recorder struct{ told [][]byte }

func (b *recorder) plain(form string, args ...any) {
	b.told = append(b.told, fmt.Appendf(nil, form, args...))
}

func (b *recorder) Status(line string) { b.plain("+%s\r\n", line) }
func (b *recorder) Error(e *Error) {
	if e.Text == "" {
		b.plain("-%s\r\n", e.Code)
	} else {
		b.plain("-%s %s\r\n", e.Code, e.Text)
	}
}
func (b *recorder) Room(n int) []byte {
	text := fmt.Appendf(nil, "$%d\r\n", n)
	at := len(text)
	text = append(append(text, make([]byte, n)...), '\r', '\n')
	b.told = append(b.told, text)
	return text[at : at+n]
}
func (b *recorder) Int(n int64)   { b.plain(":%d\r\n", n) }
func (b *recorder) Uint(n uint64) { b.plain(":%d\r\n", n) }
func (b *recorder) Null(array bool) {
	if array {
		b.plain("*-1\r\n")
	} else {
		b.plain("$-1\r\n")
	}
}
func (b *recorder) Bool(v bool) {
	if v {
		b.plain("#t\r\n")
	} else {
		b.plain("#f\r\n")
	}
}
func (b *recorder) Double(text string)      { b.plain(",%s\r\n", text) }
func (b *recorder) BigNumber(digits string) { b.plain("(%s\r\n", digits) }
func (b *recorder) Verbatim(format, text string) {
	b.plain("=%d\r\n%s:%s\r\n", len(text)+4, format, text)
}
func (b *recorder) Begin(kind byte, n int) { b.BeginAt(len(b.told), kind, n) }
func (b *recorder) BeginAt(mark int, kind byte, n int) {
	if kind == '%' || kind == '|' {
		n /= 2
	}
	b.told = slices.Insert(b.told, mark, appendHeader(nil, kind, n))
}
func (b *recorder) Mark() int         { return len(b.told) }
func (b *recorder) Rollback(mark int) { b.told = b.told[:mark] }
func (b *recorder) Size() int         { return len(b.encode()) }
func (b *recorder) Full() bool        { return false }
func (b *recorder) encode() []byte    { return bytes.Join(b.told, nil) }

// TestBuilderHearsTheBytes: a builder gets exactly the values of the bytes. Replies are random, with early and late
// headers and rolled-back marks.
func TestBuilderHearsTheBytes(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		resp3 := seed%2 == 1
		heard := &recorder{}
		built, written := &Reply{RESP3: resp3}, &Reply{RESP3: resp3}
		built.Build(heard)
		for range 1 + rng.IntN(4) {
			write(rng, [2]*Reply{built, written}, 3)
		}
		want := bytes.Join(pieces(written), nil)
		if resp3 { // the recorder writes RESP2's nulls
			want = bytes.ReplaceAll(want, []byte("_\r\n"), []byte("$-1\r\n"))
		}
		got := heard.encode()
		if resp3 {
			got = bytes.ReplaceAll(got, []byte("*-1\r\n"), []byte("$-1\r\n"))
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: heard\n%q\nwritten\n%q", seed, got, want)
		}
		again := &recorder{}
		replay(again, bytes.Join(pieces(written), nil))
		if !bytes.Equal(again.encode(), want) {
			t.Fatalf("seed %d: told\n%q\nwritten\n%q", seed, again.encode(), want)
		}
	}
}

func pieces(r *Reply) (all [][]byte) {
	for p := range r.Pieces {
		all = append(all, p)
	}
	return all
}

// write writes one random value to both replies.
func write(rng *rand.Rand, to [2]*Reply, depth int) {
	n, count, text := rng.Int64()>>rng.IntN(64), rng.IntN(4), fmt.Sprint("text", rng.IntN(1000))
	kind := rng.IntN(26)
	if depth == 0 {
		kind = rng.IntN(15)
	}
	var marks [2]Mark
	for i, r := range to {
		marks[i] = r.Mark()
		switch kind {
		case 0:
			r.OK()
		case 1:
			r.Simple(text)
		case 2:
			r.Error(&Error{"CODE", text + "\r\nmore"})
		case 3:
			r.Bulk([]byte(text))
		case 4:
			r.BulkString(text)
		case 5:
			r.BulkInt(n)
		case 6:
			copy(r.BulkRoom(len(text)), text)
		case 7:
			r.LendBulk(2*len(text), func() {}, []byte(text), []byte(text))
		case 8:
			r.Null()
		case 9:
			r.NullArray()
		case 10:
			r.Int(n)
		case 11:
			r.Uint(uint64(n))
		case 12:
			r.Bool(n%2 == 0)
		case 13:
			r.Double(float64(count) + 0.25)
		case 14:
			r.BigNumber("123456789012345678901234567890")
		case 15:
			r.Verbatim("txt", text)
		case 16:
			r.Array(count)
		case 17:
			r.Map(count)
		case 18:
			r.Set(count)
		case 19:
			r.Push(count)
		case 20:
			r.Raw([]byte("*1\r\n:7\r\n"))
		case 21:
			other := &Reply{RESP3: r.RESP3}
			other.Bulk([]byte(text))
			r.Join(other)
		}
	}
	switch kind {
	case 17:
		count *= 2
		fallthrough
	case 16, 18, 19:
		for range count {
			write(rng, to, depth-1)
		}
	case 22, 23, 24, 25: // an aggregate whose header comes after its values, or that is rolled back
		for range 2 * count {
			write(rng, to, depth-1)
		}
		for i, r := range to {
			switch kind {
			case 22:
				r.ArrayAt(marks[i], 2*count)
			case 23:
				r.MapAt(marks[i], count)
			case 24:
				r.SetAt(marks[i], 2*count)
			case 25:
				r.Rollback(marks[i])
				r.OK()
			}
		}
	}
}
