package listpack

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay with SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// edges are the integers and lengths at which an encoding begins or ends.
var edges = func() (texts []string) {
	for _, n := range []int64{0, 127, 4095, math.MaxInt16, 1<<23 - 1, math.MaxInt32, math.MaxInt64 - 1} {
		for _, d := range []int64{-1, 0, 1} {
			texts = append(texts, strconv.FormatInt(n+d, 10), strconv.FormatInt(-n-d, 10))
		}
	}
	texts = append(texts, strconv.FormatInt(math.MinInt64, 10))
	for _, n := range []int{0, 1, 7, 8, 9, 62, 63, 64, 124, 125, 126, 127, 4095, 4096, 16377, 16378, 16379} {
		texts = append(texts, strings.Repeat("x", n))
	}
	return append(texts, "-0", "007", "+1", " 1", "1 ", "9223372036854775808", "-9223372036854775809",
		"18446744073709551616", "\xff", "\x00")
}()

func anyText(rng *rand.Rand) string {
	switch rng.IntN(6) {
	case 0:
		return edges[rng.IntN(len(edges))]
	case 1:
		return strconv.Itoa(rng.IntN(200) - 100)
	case 2:
		return strconv.FormatInt(int64(rng.Uint64())>>rng.IntN(64), 10)
	default:
		return fmt.Sprintf("%0*x", rng.IntN(12), rng.IntN(1000))
	}
}

// plain returns the elements, found in the simplest way.
func plain(lp []byte) (texts []string) {
	for _, e := range All(lp) {
		texts = append(texts, string(e.Append(nil)))
	}
	return texts
}

// check compares lp with want, through every function that reads a listpack.
func check(t *testing.T, lp []byte, want []string) {
	t.Helper()
	if err := Validate(lp, true, nil); err != nil {
		t.Fatalf("%v: %x", err, lp)
	}
	if got := plain(lp); !slices.Equal(got, want) {
		t.Fatalf("have %q, want %q", got, want)
	}
	at := First(lp)
	for i, text := range want {
		e, next := GetNext(lp, at)
		if !e.Equal([]byte(text)) || !e.EqualElement(Get(lp, at)) || next != Next(lp, at) ||
			(next == 0) != (i == len(want)-1) {
			t.Fatalf("GetNext of element %d, %q, answers %v, %d", i, text, e, next)
		}
		at = next
	}
	if Count(lp) != len(want) {
		t.Fatalf("Count is %d, want %d", Count(lp), len(want))
	}
	var back []string
	var scratch [20]byte
	for at := Last(lp); at != 0; at = Prev(lp, at) {
		back = append(back, string(Get(lp, at).Text(scratch[:])))
	}
	slices.Reverse(back)
	if !slices.Equal(back, want) {
		t.Fatalf("backward %q, want %q", back, want)
	}
	fresh := Begin(nil)
	for _, text := range want {
		fresh = AppendEntry(fresh, Of([]byte(text)))
	}
	if fresh = Close(fresh, 0, len(want)); !bytes.Equal(fresh, lp) {
		t.Fatalf("listpack.I4: equal lists differ:\n%x\n%x", fresh, lp)
	}
}

// offset returns the offset of the element at an index, found in the simplest way.
func offset(lp []byte, index int) int {
	at := HeaderLen
	for range index {
		at = Next(lp, at)
	}
	return at
}

// TestModel takes random steps on a listpack and on a []string, with a frozen copy that must not change.
func TestModel(t *testing.T) {
	rng := random(t)
	lp, want := AppendEmpty(nil), []string{}
	var frozen []byte
	var then []string
	for step := range 6000 {
		if step%500 == 0 {
			if frozen != nil {
				check(t, frozen, then)
			}
			frozen, then = lp, slices.Clone(want)
		}
		// Make up to three new texts; each step uses as many as it needs.
		texts := []string{anyText(rng), anyText(rng), anyText(rng)}[:1+rng.IntN(3)]
		ins := 0
		for _, text := range texts {
			if EncodedLen([]byte(text)) != Of([]byte(text)).EncodedLen() {
				t.Fatal("two lengths of one text")
			}
			ins += EncodedLen([]byte(text))
		}
		n, index := len(want), 0
		if n > 0 {
			index = rng.IntN(n)
		}
		var s Splice
		switch op := rng.IntN(10); {
		case n == 0 || op == 0:
			s = Append(lp, ins, len(texts))
			want = append(want, texts...)
		case op == 1:
			s = Prepend(ins, len(texts))
			want = slices.Insert(want, 0, texts...)
		case op == 2:
			s = InsertBefore(offset(lp, index), ins, len(texts))
			want = slices.Insert(want, index, texts...)
		case op == 3:
			s = InsertAfter(lp, offset(lp, index), ins, len(texts))
			want = slices.Insert(want, index+1, texts...)
		case op <= 5:
			texts = texts[:1]
			s = Replace(lp, offset(lp, index), EncodedLen([]byte(texts[0])))
			want[index] = texts[0]
		case op == 6:
			gone := rng.IntN(3)
			s = Delete(lp, offset(lp, index), gone)
			s.Ins, s.Count = ins, s.Count+len(texts)
			want = slices.Replace(want, index, min(index+gone, n), texts...)
		case op == 7:
			texts = nil
			gone := rng.IntN(6)
			s = Delete(lp, offset(lp, index), gone)
			want = slices.Delete(want, index, min(index+gone, n))
		default:
			texts = nil
			gone := rng.IntN(8)
			ask := index
			if rng.IntN(2) == 0 {
				ask -= n
			}
			s = DeleteRange(lp, ask, gone)
			want = slices.Delete(want, index, min(index+gone, n))
		}
		if !s.Fits(lp) {
			t.Fatal("a small listpack is too long")
		}
		// Half of the edits are made in place (never the frozen copy), and half in a copy.
		if step%2 == 0 || &lp[0] == &frozen[0] {
			dup := make([]byte, Bytes(lp)+s.Grow())
			s.CopyTo(dup, lp)
			lp = dup
		} else {
			lp = Apply(lp, s)
		}
		gap := s.Gap(lp)
		for _, text := range texts {
			gap = gap[Put(gap, []byte(text)):]
		}
		if len(gap) != 0 {
			t.Fatalf("step %d: %d bytes of the gap are left", step, len(gap))
		}
		check(t, lp, want)
		ask(t, rng, lp, want)
		if len(want) > 60 {
			lp, want = AppendEmpty(nil), nil
		}
	}
	check(t, frozen, then)
}

// ask compares the results of Seek, Find, Equal and Compare with those found in the simplest way.
func ask(t *testing.T, rng *rand.Rand, lp []byte, want []string) {
	t.Helper()
	n := len(want)
	index := rng.IntN(2*n+4) - n - 2
	expect, slow := 0, index
	if slow < 0 {
		slow += n
	}
	if slow >= 0 && slow < n {
		expect = offset(lp, slow)
	}
	if got := Seek(lp, index); got != expect {
		t.Fatalf("Seek(%d) of %d is %d, want %d", index, n, got, expect)
	}
	text := anyText(rng)
	if n > 0 && rng.IntN(2) == 0 {
		text = want[rng.IntN(n)]
	}
	pass, from := rng.IntN(3), 0
	if n > 0 {
		from = rng.IntN(n)
	}
	expect = 0
	for i := from; i < n; i += 1 + pass {
		if want[i] == text {
			expect = offset(lp, i)
			break
		}
	}
	start := 0
	if n > 0 {
		start = offset(lp, from)
	}
	if got := Find(lp, start, []byte(text), pass); got != expect {
		t.Fatalf("Find(%d, %q, %d) is %d, want %d in %q", from, text, pass, got, expect, want)
	}
	if n == 0 {
		return
	}
	i, j := rng.IntN(n), rng.IntN(n)
	e := Get(lp, offset(lp, i))
	if e.Len() != len(want[i]) || e.Equal([]byte(text)) != (want[i] == text) ||
		Equal(lp, offset(lp, i), []byte(text)) != (want[i] == text) {
		t.Fatalf("element %q against %q", want[i], text)
	}
	if e.Compare([]byte(text)) != strings.Compare(want[i], text) {
		t.Fatalf("Compare(%q, %q) is %d", want[i], text, e.Compare([]byte(text)))
	}
	if e.EqualElement(Get(lp, offset(lp, j))) != (want[i] == want[j]) {
		t.Fatalf("EqualElement(%q, %q)", want[i], want[j])
	}
	number, ok := e.Integer()
	slowly, err := strconv.ParseInt(want[i], 10, 64)
	if canonical := err == nil && strconv.FormatInt(slowly, 10) == want[i]; ok != canonical || ok && number != slowly {
		t.Fatalf("Integer of %q is %d, %t", want[i], number, ok)
	}
}

// TestCountUnknown grows a listpack past the 65534 elements that the header can count, and shrinks it again.
func TestCountUnknown(t *testing.T) {
	const n = 70_000
	lp := Begin(nil)
	for i := range n {
		lp = AppendEntry(lp, OfInt(int64(i)))
	}
	lp = Close(lp, 0, n)
	at := func(index int) int64 { return Get(lp, Seek(lp, index)).Int }
	if Count(lp) != n || at(-1) != n-1 || at(65_600) != 65_600 || Seek(lp, n) != 0 || Seek(lp, -n-1) != 0 {
		t.Fatal("a listpack of many elements is misread")
	}
	if err := Validate(lp, true, nil); err != nil {
		t.Fatal(err)
	}
	lp = Apply(lp, DeleteRange(lp, 10, 20_000))
	if Count(lp) != n-20_000 || headerCount(lp) != countUnknown || at(10) != 20_010 {
		t.Fatal("a listpack with an unknown count is misread")
	}
	lp = Close(append(Begin(nil), Entries(lp)...), 0, n-20_000) // rebuilt, it is counted
	if headerCount(lp) != n-20_000 || Validate(lp, true, nil) != nil {
		t.Fatal("a rebuilt listpack has no count")
	}
	for range countUnknown - (n - 20_000) {
		lp = AppendElement(lp, OfInt(1))
	}
	if headerCount(lp) != countUnknown || Count(lp) != countUnknown || Validate(lp, true, nil) != nil {
		t.Fatal("with element 65535 there is still a count")
	}
}

func TestReadsDoNotAllocate(t *testing.T) {
	lp := AppendEmpty(nil)
	for i := range 100 {
		lp = AppendElement(AppendElement(lp, Of(fmt.Appendf(nil, "field:%d", i))),
			Of(strconv.AppendInt(nil, int64(i*i*i*i), 10)))
	}
	var sum int64
	missing, number := []byte("field:x"), []byte("1234567")
	var scratch [20]byte
	allocs := testing.AllocsPerRun(20, func() {
		for _, e := range All(lp) {
			sum += e.Int + int64(len(e.Text(scratch[:])))
		}
		for at := Last(lp); at != 0; at = Prev(lp, at) {
			sum += int64(at)
		}
		sum += int64(Find(lp, First(lp), missing, 1) + Find(lp, First(lp), number, 0))
		s := Replace(lp, Seek(lp, 1), EncodedLen(number))
		sum += int64(s.Grow())
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	_ = sum
}
