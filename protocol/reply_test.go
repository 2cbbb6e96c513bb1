package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// wire returns the bytes that would be sent.
func wire(r *Reply) string {
	var b strings.Builder
	r.Pieces(func(p []byte) bool { b.Write(p); return true })
	return b.String()
}

func TestReplies(t *testing.T) {
	for _, c := range []struct {
		name         string
		write        func(r *Reply)
		resp2, resp3 string // resp3 "" is the same
	}{
		{"OK", func(r *Reply) { r.OK() }, "+OK\r\n", ""},
		{"Simple", func(r *Reply) { r.Simple("PONG") }, "+PONG\r\n", ""},
		{"Error", func(r *Reply) { r.Error(ErrSyntax) }, "-ERR syntax error\r\n", ""},
		{"Error wrapped", func(r *Reply) { r.Error(fmt.Errorf("outside: %w", ErrWrongType)) },
			"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", ""},
		{"Error of another kind", func(r *Reply) { r.Error(errors.New("boom")) }, "-ERR boom\r\n", ""},
		{"Error with newlines", func(r *Reply) { r.Error(Errorf("ERR", "\r\nunknown 'a\r\nb'\n")) },
			"-ERR unknown 'a  b'\r\n", ""},
		{"Error of a code alone", func(r *Reply) { r.Error(&Error{"ERR", ""}) }, "-ERR\r\n", ""},
		{"Bulk", func(r *Reply) { r.Bulk([]byte("hello")); r.Bulk(nil) }, "$5\r\nhello\r\n$0\r\n\r\n", ""},
		{"Bulk of 100", func(r *Reply) { r.Bulk(make([]byte, 100)) }, "$100\r\n" + strings.Repeat("\x00", 100) + "\r\n", ""},
		{"BulkString", func(r *Reply) { r.BulkString("twelve bytes") }, "$12\r\ntwelve bytes\r\n", ""},
		{"BulkInt", func(r *Reply) { r.BulkInt(-1234) }, "$5\r\n-1234\r\n", ""},
		{"BulkRoom", func(r *Reply) { copy(r.BulkRoom(3), "abc") }, "$3\r\nabc\r\n", ""},
		{"Null", func(r *Reply) { r.Null() }, "$-1\r\n", "_\r\n"},
		{"NullArray", func(r *Reply) { r.NullArray() }, "*-1\r\n", "_\r\n"},
		{"Int", func(r *Reply) {
			r.Int(7)
			r.Int(12)
			r.Int(99_999_999)
			r.Int(100_000_000)
			r.Int(-1)
			r.Int(math.MinInt64)
		}, ":7\r\n:12\r\n:99999999\r\n:100000000\r\n:-1\r\n:-9223372036854775808\r\n", ""},
		{"Uint", func(r *Reply) { r.Uint(math.MaxUint64) }, ":18446744073709551615\r\n", ""},
		{"Bool", func(r *Reply) { r.Bool(true); r.Bool(false) }, ":1\r\n:0\r\n", "#t\r\n#f\r\n"},
		{"Double", func(r *Reply) { r.Double(3.5); r.Double(math.Inf(-1)) },
			"$3\r\n3.5\r\n$4\r\n-inf\r\n", ",3.5\r\n,-inf\r\n"},
		{"BigNumber", func(r *Reply) { r.BigNumber("12345678901234567890") },
			"$20\r\n12345678901234567890\r\n", "(12345678901234567890\r\n"},
		{"Verbatim", func(r *Reply) { r.Verbatim("txt", "hi") }, "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"},
		{"Verbatim of a short format", func(r *Reply) { r.Verbatim("a", "hi") }, "$2\r\nhi\r\n", "=6\r\na  :hi\r\n"},
		{"Array", func(r *Reply) { r.Array(0); r.Array(10); r.Array(123) }, "*0\r\n*10\r\n*123\r\n", ""},
		{"Map", func(r *Reply) { r.Map(6) }, "*12\r\n", "%6\r\n"},
		{"Set", func(r *Reply) { r.Set(2) }, "*2\r\n", "~2\r\n"},
		{"Push", func(r *Reply) { r.Push(3) }, "*3\r\n", ">3\r\n"},
		{"Raw", func(r *Reply) { r.Raw([]byte("+A\r\n")) }, "+A\r\n", ""},
		{"late lengths", func(r *Reply) {
			outer := r.Mark()
			r.Int(1)
			inner := r.Mark()
			r.Int(2)
			r.Int(3)
			r.MapAt(inner, 1)
			empty := r.Mark()
			r.SetAt(empty, 0)
			r.ArrayAt(outer, 3)
			r.OK()
		}, "*3\r\n:1\r\n*2\r\n:2\r\n:3\r\n*0\r\n+OK\r\n", "*3\r\n:1\r\n%1\r\n:2\r\n:3\r\n~0\r\n+OK\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, resp3 := range []bool{false, true} {
				r := &Reply{RESP3: resp3}
				c.write(r)
				want := c.resp2
				if resp3 && c.resp3 != "" {
					want = c.resp3
				}
				if got := wire(r); got != want {
					t.Errorf("RESP3 %t: %q, want %q", resp3, got, want)
				}
				if r.Len() != len(want) {
					t.Errorf("Len is %d of %d", r.Len(), len(want))
				}
			}
		})
	}
}

func TestAttribute(t *testing.T) {
	r := &Reply{RESP3: true}
	if r.Attribute(1); wire(r) != "|1\r\n" {
		t.Error(wire(r))
	}
}

// TestLend: lent bytes are sent in order, and are released once.
func TestLend(t *testing.T) {
	released := 0
	r := &Reply{}
	r.Lend(nil, func() { released++ })
	r.Lend([]byte("ab"), func() { released++ })
	r.OK()
	r.Lend([]byte("c"), nil)
	if got := wire(r); got != "ab+OK\r\nc" || r.Len() != len(got) || released != 1 {
		t.Errorf("%q, Len %d, %d released", got, r.Len(), released)
	}
	if r.Reset(); released != 2 || r.Len() != 0 {
		t.Errorf("%d released, Len %d", released, r.Len())
	}
}

// TestLentPieces: lent pieces stay in their places, whatever is inserted late before, between or around them.
func TestLentPieces(t *testing.T) {
	for _, large := range []int{0, largeBody + 1} {
		body := strings.Repeat("b", large)
		released := 0
		release := func() { released++ }
		r := &Reply{}
		r.LendBulk(3, release, []byte("a"), nil, []byte("bc"))
		outer := r.Mark()
		r.LendBulk(2, nil, []byte("de"))
		inner := r.Mark()
		r.BulkString(body)
		r.LendBulk(1, release, []byte("f"))
		r.ArrayAt(inner, 2)
		r.LendBulk(0, release)
		r.ArrayAt(outer, 3)
		r.OK()
		want := fmt.Sprintf("$3\r\nabc\r\n*3\r\n$2\r\nde\r\n*2\r\n$%d\r\n%s\r\n$1\r\nf\r\n$0\r\n\r\n+OK\r\n", large, body)
		if got := wire(r); got != want {
			t.Errorf("%.200q, want %.200q", got, want)
		}
		if r.Len() != len(want) {
			t.Errorf("Len is %d of %d", r.Len(), len(want))
		}
		for i := 1; i < len(r.Lent); i++ {
			if r.Lent[i-1].At > r.Lent[i].At {
				t.Errorf("protocol.L1: piece %d", i)
			}
		}
		if released != 1 { // the empty one
			t.Errorf("%d released", released)
		}
		r.Rollback(outer)
		if got := wire(r); got != "$3\r\nabc\r\n" || released != 2 {
			t.Errorf("rolled back to %q, %d released", got, released)
		}
		if r.Reset(); released != 3 || r.Len() != 0 {
			t.Errorf("%d released, %d bytes left", released, r.Len())
		}
	}
}

func TestSince(t *testing.T) {
	r := &Reply{}
	r.OK()
	m := r.Mark()
	r.Int(1)
	r.LendBulk(4, nil, []byte("lent"))
	if got := r.Since(m); got != len(":1\r\n$4\r\nlent\r\n") {
		t.Error(got)
	}
}

func TestJoin(t *testing.T) {
	a, b := &Reply{}, &Reply{}
	a.OK()
	b.LendBulk(4, nil, []byte("lent"))
	b.Int(1)
	a.Join(b)
	if got := wire(a); got != "+OK\r\n$4\r\nlent\r\n:1\r\n" || b.Len() != 0 {
		t.Errorf("%q, %d left", got, b.Len())
	}
}

// TestCut: a reply and the part cut from it together have the old bytes. Each piece is released once.
func TestCut(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		made, released := 0, 0
		r, other := &Reply{}, &Reply{}
		fill := func() {
			for range rng.IntN(4) {
				if rng.IntN(2) == 0 {
					r.BulkString("some text")
				} else {
					made++
					r.LendBulk(4, func() { released++ }, []byte("pie"), []byte("c"))
				}
			}
		}
		fill()
		before := wire(r)
		m := r.Mark()
		fill()
		behind := wire(r)[len(before):]
		r.Cut(m, other)
		if wire(r) != before || wire(other) != behind || r.Len() != len(before) || other.Len() != len(behind) {
			t.Fatalf("seed %d: %q and %q, want %q and %q", seed, wire(r), wire(other), before, behind)
		}
		r.OK()
		other.OK()
		if wire(r) != before+"+OK\r\n" || wire(other) != behind+"+OK\r\n" {
			t.Fatalf("seed %d: what is appended goes astray", seed)
		}
		r.Reset()
		other.Reset()
		if made != released {
			t.Fatalf("seed %d: %d pieces lent, %d released", seed, made, released)
		}
	}
}

func TestRepliesAllocateNothing(t *testing.T) {
	r := &Reply{B: make([]byte, 0, 4096), RESP3: true}
	value := bytes.Repeat([]byte("v"), 100)
	var err error = ErrSyntax
	if n := testing.AllocsPerRun(100, func() {
		r.Reset()
		r.OK()
		r.Bulk(value)
		r.Int(123456)
		r.Double(0.1)
		r.Error(err)
		m := r.Mark()
		r.Null()
		r.ArrayAt(m, 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkReply writes the usual replies. Watch ns/op and allocs/op: 0.
func BenchmarkReply(b *testing.B) {
	value := bytes.Repeat([]byte("v"), 32)
	for name, write := range map[string]func(*Reply){
		"OK":     func(r *Reply) { r.OK() },
		"Bulk":   func(r *Reply) { r.Bulk(value) },
		"Int":    func(r *Reply) { r.Int(1234567) },
		"Double": func(r *Reply) { r.Double(1234.5678) },
	} {
		b.Run(name, func(b *testing.B) {
			r := &Reply{B: make([]byte, 0, 4096)}
			b.ReportAllocs()
			for b.Loop() {
				if len(r.B) > 4000 {
					r.B = r.B[:0]
				}
				write(r)
			}
		})
	}
}
