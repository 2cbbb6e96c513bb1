package hll

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// model adds n random elements to a sparse and a dense sketch, and to one byte per register. s is nil if the elements
// did not fit into a sparse sketch.
func model(rng *rand.Rand, n int) (s []byte, d []byte, m registers) {
	s = []byte(empty)
	d = make([]byte, denseSize)
	copy(d, empty[:headerSize])
	d[atEncoding] = encodingDense
	for range n {
		var element [8]byte
		binary.LittleEndian.PutUint64(element[:], rng.Uint64())
		index, rank := locate(element[:])
		m[index] = max(m[index], rank)
		if register(d[headerSize:], index) < rank {
			setRegister(d[headerSize:], index, rank)
		}
		if s == nil {
			continue
		}
		r, ok := find(s, start, index)
		if !ok {
			panic("a register is nowhere")
		}
		if r.rank < int(rank) {
			if s, ok = raise(s, r, index, rank, 5000); !ok {
				s = nil
			}
		}
	}
	return s, d, m
}

// TestForms: after the same elements, both forms hold the same registers as the model.
func TestForms(t *testing.T) {
	for step := range 100 {
		rng := rand.New(rand.NewPCG(uint64(step), 1))
		s, d, m := model(rng, rng.IntN(3000))
		for i := range registerCount {
			if got := register(d[headerSize:], i); got != m[i] {
				t.Fatalf("seed %d: dense register %d is %d, want %d", step, i, got, m[i])
			}
		}
		want := m.histogram()
		var h histogram
		addRegisters(&h, d[headerSize:])
		if h != want {
			t.Fatalf("seed %d: dense histogram %v, want %v", step, h, want)
		}
		var packed [denseBody]byte
		m.pack(packed[:])
		if !bytes.Equal(packed[:], d[headerSize:]) {
			t.Fatalf("seed %d: packed registers differ", step)
		}
		if s == nil {
			continue
		}
		h = histogram{}
		if !addRuns(&h, s) || h != want {
			t.Fatalf("seed %d: sparse histogram %v, want %v", step, h, want)
		}
		var again [denseSize]byte
		if !toDense(&again, s) || !bytes.Equal(again[headerSize:], d[headerSize:]) {
			t.Fatalf("seed %d: the sparse form becomes another dense one", step)
		}
	}
}

// TestMerge: a merge takes the maximum of each register, from either form.
func TestMerge(t *testing.T) {
	for step := range 60 {
		rng := rand.New(rand.NewPCG(uint64(step), 2))
		s, d, m := model(rng, rng.IntN(3000))
		var into registers
		for i := range into {
			into[i] = byte(rng.IntN(64) * rng.IntN(2))
		}
		want := into
		for i := range want {
			want[i] = max(want[i], m[i])
		}
		other := into
		into.mergeDense(d[headerSize:])
		if into != want {
			t.Fatalf("seed %d: merged from the dense form it differs", step)
		}
		if s != nil && (!other.mergeSparse(s) || other != want) {
			t.Fatalf("seed %d: merged from the sparse form it differs", step)
		}
	}
}

// TestBytesAtOnce: processing eight registers at a time gives the same result as one at a time, for every value.
func TestBytesAtOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 100_000 {
		a, b := rng.Uint64()&0x3F3F_3F3F_3F3F_3F3F, rng.Uint64()&0x3F3F_3F3F_3F3F_3F3F
		got := maxOfBytes(a, b)
		for i := range 8 {
			if x, y := byte(a>>(8*i)), byte(b>>(8*i)); byte(got>>(8*i)) != max(x, y) {
				t.Fatalf("the higher of %#x and %#x is not %#x", a, b, got)
			}
		}
		packed := gather(a)
		if packed>>48 != 0 || spread(packed|rng.Uint64()<<48) != a {
			t.Fatalf("%#x packs to %#x", a, packed)
		}
	}
}

// TestUnionInOrder: a union with a cursor gives the same bytes as raising each register with a search from the start.
func TestUnionInOrder(t *testing.T) {
	for step := range 30 {
		rng := rand.New(rand.NewPCG(uint64(step), 4))
		s, _, _ := model(rng, rng.IntN(1000))
		_, _, m := model(rng, rng.IntN(1000))
		if step%2 == 0 { // long runs of equal ranks meet all cases of joining
			for i := range m {
				if m[i] = 0; i%1000 < 300 && rng.IntN(3) > 0 {
					m[i] = byte(1 + rng.IntN(2))
				}
			}
		}
		h := &commands{settings: &Settings{}}
		h.settings.SparseMax.Set(int64(1000 + rng.IntN(16000)))
		if !m.mergeSparse(s) {
			t.Fatal("the model is corrupt")
		}
		h.union = m
		got := h.sparseUnion(s)
		want := bytes.Clone(s)
		for index, rank := range m {
			r, ok := find(want, start, index)
			if !ok {
				t.Fatalf("seed %d: register %d is nowhere", step, index)
			}
			if r.rank >= int(rank) {
				continue
			}
			if want, ok = raise(want, r, index, rank, h.settings.SparseMax.Get()); !ok {
				want = make([]byte, denseSize)
				copy(want, empty[:headerSize])
				want[atEncoding] = encodingDense
				m.pack(want[headerSize:])
				break
			}
		}
		outdate(want)
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d bytes, want %d", step, len(got), len(want))
		}
	}
}

// TestEstimateIsClose: estimates are within six standard errors.
func TestEstimateIsClose(t *testing.T) {
	for _, n := range []int{0, 1, 10, 1000, 10_000, 100_000} {
		rng := rand.New(rand.NewPCG(uint64(n), 5))
		_, d, _ := model(rng, n)
		got, err := estimateOf(d)
		if off := float64(got) - float64(n); err != nil || off*off > float64(n)*float64(n)*0.0488*0.0488 {
			t.Errorf("%d elements are estimated at %d, %v", n, got, err)
		}
	}
}

// FuzzSparse: no body is read or written beyond its end. If a body satisfies hll.S1 before a change, it does so after
// the change, and one register has risen.
func FuzzSparse(f *testing.F) {
	f.Add([]byte{0x7f, 0xff}, uint16(5), byte(3), uint16(3000))
	f.Add([]byte{0x7f, 0xff, 0x80, 0x01}, uint16(5), byte(3), uint16(18))
	f.Add([]byte{0x7f}, uint16(16383), byte(33), uint16(18))
	f.Add([]byte{0xff, 0x84, 0x00, 0x7f, 0xfa}, uint16(2), byte(2), uint16(0))
	rng := rand.New(rand.NewPCG(6, 6))
	s, _, _ := model(rng, 300)
	f.Add(s[headerSize:], uint16(777), byte(9), uint16(3000))
	f.Fuzz(func(t *testing.T, body []byte, index uint16, rank byte, limit uint16) {
		i, to := int(index)%registerCount, rank%51+1
		s := append([]byte(empty[:headerSize]), body[:min(len(body), longestBody)]...)
		s = s[:len(s):len(s)]
		var d [denseSize]byte
		var before registers
		var h histogram
		sound, readable := addRuns(&h, s), toDense(&d, s)
		if before.mergeSparse(s) != readable || sound && !readable {
			t.Fatal("readers disagree whether it is sound")
		}
		decode(s)
		r, ok := find(s, start, i)
		if !ok {
			if sound {
				t.Fatalf("register %d is nowhere in a sound sketch", i)
			}
			return
		}
		if sound && r.rank != int(before[i]) {
			t.Fatalf("register %d holds %d, want %d", i, r.rank, before[i])
		}
		if r.rank >= int(to) {
			return
		}
		was := bytes.Clone(s)
		out, fits := raise(s, r, i, to, int64(limit))
		if !fits && !bytes.Equal(s, was) {
			t.Fatal("it was changed although it did not fit")
		}
		if !fits || !sound {
			return
		}
		before[i] = to
		var after registers
		if !after.mergeSparse(out) || after != before {
			t.Fatal("other registers changed")
		}
		if len(out) > len(was) && len(out) > int(limit) {
			t.Fatalf("%d bytes, beyond %d", len(out), limit)
		}
	})
}

func BenchmarkMergeDense(b *testing.B) {
	_, d, m := model(rand.New(rand.NewPCG(7, 7)), 100_000)
	for b.Loop() {
		m.mergeDense(d[headerSize:])
	}
}

func BenchmarkPack(b *testing.B) {
	_, d, m := model(rand.New(rand.NewPCG(7, 7)), 100_000)
	for b.Loop() {
		m.pack(d[headerSize:])
	}
}

// BenchmarkEstimate measures PFCOUNT of one key whose estimate is out of date.
func BenchmarkEstimate(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		s, d, _ := model(rand.New(rand.NewPCG(7, 7)), n)
		for name, sketch := range map[string][]byte{"sparse": s, "dense": d} {
			if sketch == nil {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					_, _ = estimateOf(sketch)
				}
			})
		}
	}
}
