package protocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// read feeds wire to a parser in reads of the given sizes (the last size repeats). It returns the requests' quoted
// arguments, and the error that ended them.
func read(t testing.TB, wire []byte, limits Limits, cuts []int, streaming bool) (got []string) {
	t.Helper()
	p := NewParser(&Scratch{})
	p.Limits = limits
	var kept []byte
	note := func() {
		for _, r := range p.Requests {
			if len(r.Args) == 0 {
				t.Fatal("a request without a name")
			}
			got = append(got, fmt.Sprintf("%q", r.Args))
		}
	}
	for i := 0; len(wire) > 0; i++ {
		n := len(wire)
		if len(cuts) > 0 {
			n = min(n, max(1, cuts[min(i, len(cuts)-1)]))
		}
		// Each read gets a new buffer, because the parser must not use the old one.
		old := kept
		kept = append(append(make([]byte, 0, len(kept)+n), kept...), wire[:n]...)
		for i := range old {
			old[i] = 0xDB
		}
		wire = wire[n:]
		for {
			if p.Streaming() {
				n, complete := p.Feed(kept)
				kept = kept[n:]
				if size := p.Cramped(); size > 0 {
					p.Enlarge(&Bulk{Data: make([]byte, size)})
					continue
				}
				if !complete {
					break
				}
				note()
				p.Served()
			}
			n, err := p.Parse(kept)
			if err != nil {
				if len(p.Requests) > 0 {
					t.Fatal("protocol.I3: an error beside requests")
				}
				return append(got, err.Error())
			}
			end := 0
			for _, r := range p.Requests {
				if r.End <= end || r.End > n {
					t.Fatalf("End %d after %d, consumed %d", r.End, end, n)
				}
				end = r.End
			}
			note()
			kept = kept[n:]
			if _, size, ok := p.Large(); ok && streaming && size < 1<<24 {
				p.Stream(kept, &Bulk{Data: make([]byte, p.Expects(kept))})
				kept = nil
				if p.Requests != nil {
					t.Fatal("complete before its last byte")
				}
				break
			}
			if !p.More() {
				if p.Pending() && p.Need() <= len(kept) {
					t.Fatalf("needs %d, has %d", p.Need(), len(kept))
				}
				break
			}
			if n == 0 && len(p.Requests) == 0 {
				t.Fatal("more, but no progress")
			}
		}
	}
	return got
}

func TestParse(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, c := range []struct {
		name, wire string
		limits     Limits
		want       []string
	}{
		{"one", "*1\r\n$4\r\nPING\r\n", Limits{}, []string{`["PING"]`}},
		{"three arguments", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nhello\r\nworld\r\n", Limits{},
			[]string{`["SET" "k" "hello\r\nworld"]`}},
		{"pipeline", "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\nc d\r\n", Limits{}, []string{`["a"]`, `["b"]`, `["c" "d"]`}},
		{"names repeated", strings.Repeat("*2\r\n$4\r\nLLEN\r\n$1\r\na\r\n", 2) +
			"*2\r\n$4\r\nlLEN\r\n$1\r\na\r\n*3\r\n$4\r\nlLEN\r\n$1\r\na\r\n$0\r\n\r\n*2\r\n$4\r\nlLENZZ$1\r\nb\r\n",
			Limits{}, []string{`["LLEN" "a"]`, `["LLEN" "a"]`, `["lLEN" "a"]`, `["lLEN" "a" ""]`, `["lLEN" "b"]`}},
		{"empty names repeated", strings.Repeat("*1\r\n$0\r\n\r\n", 3), Limits{}, []string{`[""]`, `[""]`, `[""]`}},
		{"empty bulk", "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", Limits{}, []string{`["GET" ""]`}},
		{"nothing asked", "*0\r\n*-1\r\n\r\n\n*1\r\n$1\r\na\r\n", Limits{}, []string{`["a"]`}},
		{"newlines unchecked", "*2\rX$1\rYaZZ$1\r\nbZZ", Limits{}, []string{`["a" "b"]`}},
		{"long length", "*1\r\n$0000004\r\nPING\r\n", Limits{}, []string{"ERR Protocol error: invalid bulk length"}},
		{"count with zero", "*01\r\n$4\r\nPING\r\n", Limits{}, []string{"ERR Protocol error: invalid multibulk length"}},
		{"count too large", "*2147483648\r\n", Limits{}, []string{"ERR Protocol error: invalid multibulk length"}},
		{"count huge", "*20000000000000000000\r\n", Limits{}, []string{"ERR Protocol error: invalid multibulk length"}},
		{"count not a number", "*x\r\n", Limits{}, []string{"ERR Protocol error: invalid multibulk length"}},
		{"count empty", "*\r\n", Limits{}, []string{"ERR Protocol error: invalid multibulk length"}},
		{"count endless", "*" + long, Limits{}, []string{"ERR Protocol error: too big mbulk count string"}},
		{"count of zeros", "*" + strings.Repeat("\x00", MaxLine), Limits{},
			[]string{"ERR Protocol error: too big mbulk count string"}},
		{"length endless", "*1\r\n$" + long, Limits{}, []string{"ERR Protocol error: too big bulk count string"}},
		{"no dollar", "*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", Limits{},
			[]string{"ERR Protocol error: expected '$', got 'f'"}},
		{"no dollar, high byte", "*1\r\n\xff\r\n", Limits{}, []string{"ERR Protocol error: expected '$', got '\xff'"}},
		{"length negative", "*1\r\n$-1\r\n", Limits{}, []string{"ERR Protocol error: invalid bulk length"}},
		{"length over the limit", "*1\r\n$11\r\n", Limits{MaxBulk: 10}, []string{"ERR Protocol error: invalid bulk length"}},
		{"length at the limit", "*1\r\n$10\r\n0123456789\r\n", Limits{MaxBulk: 10}, []string{`["0123456789"]`}},
		{"unauthenticated count", "*11\r\n", Limits{Unauthenticated: true},
			[]string{"ERR Protocol error: unauthenticated multibulk length"}},
		{"unauthenticated length", "*1\r\n$16385\r\n", Limits{Unauthenticated: true},
			[]string{"ERR Protocol error: unauthenticated bulk length"}},
		{"error behind requests", "*1\r\n$1\r\na\r\nb\r\n*x\r\n", Limits{},
			[]string{`["a"]`, `["b"]`, "ERR Protocol error: invalid multibulk length"}},
		{"inline", "  SET  k\t\"a b\\x00\" 'c'\r\n", Limits{}, []string{`["SET" "k" "a b\x00" "c"]`}},
		{"inline without CR", "PING\n", Limits{}, []string{`["PING"]`}},
		{"inline unbalanced", "SET \"k\r\n", Limits{}, []string{"ERR Protocol error: unbalanced quotes in request"}},
		{"inline longest", long + "\n", Limits{}, []string{`["` + long + `"]`}},
		{"inline too long", long + "x\n", Limits{}, []string{"ERR Protocol error: too big inline request"}},
		{"inline zeros", strings.Repeat("\x00", MaxLine+1), Limits{}, []string{"ERR Protocol error: too big inline request"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cuts := range [][]int{nil, {1}, {7, 3}, {2, 1, 5, 1, 40000}} {
				if len(c.wire) > 1000 && cuts != nil && cuts[len(cuts)-1] < 1000 {
					continue // the test's own copies are quadratic
				}
				if got := read(t, []byte(c.wire), c.limits, cuts, false); !slices.Equal(got, c.want) {
					t.Errorf("cut as %v: got %.300q, want %.300q", cuts, got, c.want)
				}
			}
		})
	}
}

// TestLimitsChangeBetweenParses: a request beyond an old limit is checked again after the requests before it have run.
func TestLimitsChangeBetweenParses(t *testing.T) {
	wire := []byte("*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n*12\r\n" + strings.Repeat("$1\r\nx\r\n", 12))
	var p Parser
	p.Limits.Unauthenticated = true
	n, err := p.Parse(wire)
	if err != nil || len(p.Requests) != 1 || !p.More() {
		t.Fatalf("%d requests, more %t, %v", len(p.Requests), p.More(), err)
	}
	p.Limits.Unauthenticated = false
	if _, err = p.Parse(wire[n:]); err != nil || len(p.Requests) != 1 || len(p.Requests[0].Args) != 12 {
		t.Fatalf("%d requests, %v", len(p.Requests), err)
	}
}

func TestStreamedArgument(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	wire := fmt.Appendf(nil, "*1\r\n$1\r\na\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n*1\r\n$1\r\nz\r\n",
		len(value), value)
	want := read(t, wire, Limits{}, nil, false)
	for first := range 60 {
		for _, step := range []int{1000, len(value) - 1, len(value), len(value) + 1, len(value) + 2, len(value) + 3} {
			if got := read(t, wire, Limits{}, []int{first, step, 1, 1, 1, 100}, true); !slices.Equal(got, want) {
				t.Fatalf("first read %d, then %d: %d requests, want %d", first, step, len(got), len(want))
			}
		}
	}
}

// TestStreamedArgumentGrows: an argument moves to larger memory as it arrives, and keeps its bytes. The lent memory
// stays in proportion to the bytes that have arrived.
func TestStreamedArgumentGrows(t *testing.T) {
	for _, size := range []int{bulkAtOnce, bulkAtOnce + 1, 2_500_001, 9 << 20, 17 << 20} {
		value := make([]byte, size)
		for i := range value {
			value[i] = byte(i * 31 >> 8)
		}
		wire := fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", size, value)
		for _, step := range []int{1000, 70_000, 1 << 20, len(wire)} {
			p, lent, released := NewParser(nil), 0, 0
			lend := func(n int) *Bulk {
				lent++
				return &Bulk{Data: make([]byte, n), Release: func(*Bulk) { released++ }}
			}
			head := len(wire) - size - 2
			if _, err := p.Parse(wire[:head]); err != nil {
				t.Fatal(err)
			}
			p.Stream(wire[:head], lend(p.Expects(wire[:head])))
			for at := head; p.Requests == nil; {
				n, _ := p.Feed(wire[at:min(at+step, len(wire))])
				at += n
				if more := p.Cramped(); more > 0 {
					p.Enlarge(lend(more))
				}
				if got, held, _ := p.Streamed(); held > max(bulkAtOnce, (bulkGrowth+1)*(got+bulkGrowth)) {
					t.Fatalf("%d of %d bytes, steps of %d: %d lent", got, size, step, held)
				}
			}
			if args := p.Requests[0].Args; !bytes.Equal(args[2], value) || len(p.Requests[0].Bulk.Data) != size {
				t.Fatalf("%d bytes in steps of %d arrived as %d others", size, step, len(args[2]))
			}
			if p.Served(); released != lent-1 {
				t.Fatalf("%d of %d lent pieces released", released, lent)
			}
		}
	}
}

// TestLinear: very many arguments in reads of a few bytes, and a long argument that is not the last, take time linear
// in the bytes. A quadratic parser would not finish here.
func TestLinear(t *testing.T) {
	const count = 300_000
	wire := append([]byte(fmt.Sprintf("*%d\r\n", count)), bytes.Repeat([]byte("$1\r\nx\r\n"), count)...)
	p := NewParser(nil)
	for n := 0; n <= len(wire); n += 50 {
		if got, err := p.Parse(wire[:n]); got != 0 || err != nil {
			t.Fatal(got, err)
		}
	}
	if n, err := p.Parse(wire); n != len(wire) || err != nil || len(p.Requests[0].Args) != count {
		t.Fatal(n, err)
	}
	if n, _ := p.Parse([]byte("PING\r\n")); n != 6 {
		t.Fatal(n)
	}
	if p.Parse(nil); cap(p.scratch.args) > 1<<16 {
		t.Errorf("the scratch memory still holds %d arguments", cap(p.scratch.args))
	}
	wire = append([]byte("*2\r\n$20000000\r\n"), make([]byte, 20_000_000)...)
	p.Reset()
	for n := 0; n <= len(wire); n += 100 {
		if got, err := p.Parse(wire[:n]); got != 0 || err != nil {
			t.Fatal(got, err)
		}
	}
	if p.Need() != len("*2\r\n$20000000\r\n")+20_000_002 {
		t.Fatal(p.Need())
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	wire := bytes.Repeat([]byte("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$100\r\n"+strings.Repeat("v", 100)+
		"\r\nSET k \"a b\"\r\n"), 64)
	p := NewParser(&Scratch{})
	p.Parse(wire)
	if n := testing.AllocsPerRun(100, func() {
		p.Parse(wire[:len(wire)-3])
		p.Reset()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestNamesRepeat: requests with equal or similar names do not affect each other.
func TestNamesRepeat(t *testing.T) {
	for n := 1; n <= 12; n++ {
		for at := range n {
			testNamesRepeat(t, n, at)
		}
	}
}

// testNamesRepeat is TestNamesRepeat for names of n letters that differ in one.
func testNamesRepeat(t *testing.T, n, at int) {
	name := []byte("abcdefghijkl")[:n]
	other := append([]byte(nil), name...)
	other[at] = 'Z'
	var wire []byte
	var want []string
	add := func(args ...[]byte) {
		wire = AppendCommand(wire, args)
		want = append(want, fmt.Sprintf("%q", args))
	}
	add(name)
	add(name, []byte("k"))
	add(name, []byte("k2"))
	add(other, []byte("k3"))
	add(other, []byte("k4"), []byte("v"))
	add(other, []byte("k5"), []byte("w"))
	wire = append(append(append(wire, "inline "...), other...), '\n')
	want = append(want, fmt.Sprintf("%q", []string{"inline", string(other)}))
	add(other, []byte("k6"), []byte("v"))
	if got := read(t, wire, Limits{}, nil, false); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for cut := range wire { // the end is missing
		if got := read(t, wire[:cut], Limits{}, nil, false); !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("of %d bytes: %q", cut, got)
		}
	}
}

// FuzzParse: how the network cuts the bytes never changes the requests (protocol.I2), streamed or not.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n*1\r\n$4\r\nPING\r\n",
		"PING\r\nset k \"\\x41 b\" 'c'\r\n\r\n*0\r\n*1\r\n$1\r\na\r\n",
		"*1\r\n$1\r\na\r\n*1\r\n$1\r\na\r\n*2\r\n$4\r\nLLEN\r\n$1\r\na\r\n*2\r\n$4\r\nLLEN\r\n$1\r\nb\r\n*2\r\n$4\r\nLLENZZ$1\r\n", "*12\r\n$1\r\na\r\n", "*1\r\n$16385\r\n", "*2\r\n$-1\r\n", "*\x00\r\n", "*1\rx$1\ryazz", "*1\r\n$40000\r\nxx",
	} {
		f.Add([]byte(seed), uint64(1), false)
		f.Add([]byte(seed), uint64(2), true)
	}
	f.Fuzz(func(t *testing.T, wire []byte, seed uint64, unauthenticated bool) {
		rng := rand.New(rand.NewPCG(seed, 0))
		// "<n>@" in the input becomes a run of letters, so that short inputs can hold long arguments.
		if i := bytes.IndexByte(wire, '@'); i > 0 && len(wire) < 4096 {
			wire = append(append(slices.Clone(wire[:i]), bytes.Repeat([]byte{'v'}, 30000+rng.IntN(40000))...), wire[i+1:]...)
		}
		limits := Limits{Unauthenticated: unauthenticated, MaxBulk: []int{0, 5, 1 << 20}[rng.IntN(3)]}
		want := read(t, wire, limits, nil, false)
		for range 4 {
			cuts := make([]int, 20)
			most := 1 + rng.IntN(len(wire)+10)
			for i := range cuts {
				cuts[i] = 1 + rng.IntN(most)
			}
			if len(wire) > 4096 {
				cuts[len(cuts)-1] = 4096
			}
			if got := read(t, wire, limits, cuts, rng.IntN(2) == 0); !slices.Equal(got, want) {
				t.Fatalf("cut as %v: %.500q\nwhole: %.500q", cuts, got, want)
			}
		}
	})
}

// BenchmarkParse reads pipelines of 64 requests. Watch ns/request: some 10 for each argument; allocs/op: 0.
func BenchmarkParse(b *testing.B) {
	for _, c := range []struct{ name, request string }{
		{"GET", "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n"},
		{"SET", "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$32\r\n01234567890123456789012345678901\r\n"},
		{"SET1000", "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$1000\r\n" + strings.Repeat("v", 1000) + "\r\n"},
		{"MSET", "*21\r\n$4\r\nMSET\r\n" + strings.Repeat("$16\r\nkey:000000000001\r\n$3\r\nxxx\r\n", 10)},
		{"inline", "SET key:000000000001 01234567890123456789012345678901\r\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			wire := bytes.Repeat([]byte(c.request), 64)
			p := NewParser(&Scratch{})
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				if n, _ := p.Parse(wire); n != len(wire) {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/request")
		})
	}
}
