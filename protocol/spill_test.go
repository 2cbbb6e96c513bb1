package protocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// lender lends up to limit bytes, and counts the bytes lent.
type lender struct {
	limit, out int
	outgrown   int
	lent       [][]byte
}

func (l *lender) Chunk(n, held int) ([]byte, func()) {
	if l.limit > 0 && held >= l.limit {
		return nil, nil
	}
	l.out++
	b := make([]byte, 0, n)
	l.lent = append(l.lent, b)
	return b, func() {
		l.out--
		for i := range b[:cap(b)] {
			b[:cap(b)][i] = 0xDB // so that a later reader of it is detected
		}
	}
}

func (l *lender) Outgrown(b []byte) {
	l.outgrown++
	for i := range b {
		b[i] = 0xDB
	}
}

func element(i int) string { return fmt.Sprintf("element-%07d", i) }

// poor is a Chunks that lends memory of the Go heap, not chunks.
type poor struct{ asked int }

func (p *poor) Chunk(n, _ int) ([]byte, func()) {
	p.asked++
	return make([]byte, 0, n), nil
}

func (p *poor) Outgrown([]byte) {}

// TestNoMemoryForChunks: a reply without chunks is copied each time it has doubled, not with each element.
func TestNoMemoryForChunks(t *testing.T) {
	chunks := &poor{}
	r, want := &Reply{Chunks: chunks}, []byte(nil)
	for i := range 100_000 {
		r.BulkString(element(i))
		want = fmt.Appendf(want, "$%d\r\n%s\r\n", len(element(i)), element(i))
	}
	if !bytes.Equal(bytes.Join(slices.Collect(r.Pieces), nil), want) {
		t.Error("the reply is not what was appended")
	}
	if chunks.asked == 0 || chunks.asked > 8 {
		t.Errorf("%d bytes asked for room %d times", len(want), chunks.asked)
	}
}

// TestSpilledMarks: marks stay valid across spills. A rollback or a late header has the same effect as in one buffer.
func TestSpilledMarks(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		chunks := &lender{}
		r, want := &Reply{Chunks: chunks}, []byte(nil)
		type at struct {
			mark Mark
			n    int
		}
		var marks []at
		for step := range 40 {
			switch rng.IntN(6) {
			case 0:
				marks = append(marks, at{r.Mark(), len(want)})
			case 1:
				if len(marks) > 0 { // from the inside out
					m := marks[len(marks)-1]
					marks = marks[:len(marks)-1]
					r.ArrayAt(m.mark, step)
					header := fmt.Appendf(nil, "*%d\r\n", step)
					want = append(want[:m.n:m.n], append(header, want[m.n:]...)...)
				}
			case 2:
				if len(marks) > 0 && rng.IntN(3) == 0 {
					m := marks[len(marks)-1]
					r.Rollback(m.mark)
					want = want[:m.n]
				}
			case 3:
				piece := bytes.Repeat([]byte("l"), 1+rng.IntN(50_000))
				r.LendBulk(len(piece), nil, piece)
				want = fmt.Appendf(want, "$%d\r\n%s\r\n", len(piece), piece)
			default:
				for i := range rng.IntN(20_000) {
					r.BulkString(element(i))
					want = fmt.Appendf(want, "$15\r\n%s\r\n", element(i))
				}
			}
			if r.Len() != len(want) {
				t.Fatalf("seed %d, step %d: Len %d, want %d", seed, step, r.Len(), len(want))
			}
		}
		if got := wire(r); got != string(want) {
			t.Fatalf("seed %d: the replies differ", seed)
		}
		r.Reset()
		if release := r.Taken(); release != nil {
			release()
		}
		if chunks.out != 0 {
			t.Fatalf("seed %d: %d chunks not given back", seed, chunks.out)
		}
	}
}

// TestSpillMovesNothing: a growing long reply is not moved, except for its first buffer, which is returned. Each chunk
// is filled once.
func TestSpillMovesNothing(t *testing.T) {
	chunks := &lender{}
	r := &Reply{Chunks: chunks}
	const n = 200_000
	r.Array(n)
	for i := range n {
		r.BulkString(element(i))
	}
	if len(chunks.lent) < 10 || chunks.outgrown != 1 {
		t.Fatalf("%d chunks for %d bytes, %d buffers given back, want the first", len(chunks.lent), r.Len(), chunks.outgrown)
	}
	for i, c := range chunks.lent[:len(chunks.lent)-1] {
		if &c[:1][0] != &r.Lent[i].Data[0] {
			t.Fatalf("chunk %d lies elsewhere", i)
		}
	}
}

// TestIntegersSpill: a long reply of integers (LPOS) is not moved either. Integers that no client will read cost no
// memory.
func TestIntegersSpill(t *testing.T) {
	for _, n := range []int64{12_345, -12_345} { // with one check of the room, and without
		chunks := &lender{limit: 2 << 20}
		r := &Reply{Chunks: chunks}
		for range 400_000 {
			r.Int(n)
		}
		if !r.Full() || cap(r.B) > 4*ChunkSize || len(chunks.lent) < 4 {
			t.Fatalf("%d: %d chunks and %d bytes for a reply of %d, full: %t", n, len(chunks.lent), cap(r.B), r.Len(), r.Full())
		}
		for i, c := range chunks.lent[:len(chunks.lent)-1] {
			if &c[:1][0] != &r.Lent[i].Data[0] {
				t.Fatalf("%d: chunk %d lies elsewhere", n, i)
			}
		}
	}
}

// TestFull: bytes that no client will read are dropped, and cost no memory.
func TestFull(t *testing.T) {
	chunks := &lender{limit: 1 << 20}
	r := &Reply{Chunks: chunks}
	m := r.Mark()
	n := 0
	for ; !r.Full() && n < 1_000_000; n++ {
		r.BulkString(element(n))
	}
	if n < (1<<20)/22 || n > (1<<20+2*ChunkSize)/22 {
		t.Fatalf("full after %d elements", n)
	}
	for i := range 100_000 {
		r.BulkString(element(i))
	}
	r.ArrayAt(m, n)
	r.Insert(m, []byte("+OK\r\n"))
	r.Rollback(r.Mark())
	if r.Since(m) != (n+100_000)*22 || cap(r.B) > 4*ChunkSize {
		t.Fatalf("%d bytes counted, %d held", r.Since(m), cap(r.B))
	}
	r.Reset()
	if release := r.Taken(); release != nil {
		release()
	}
	if chunks.out != 0 {
		t.Fatalf("%d chunks not given back", chunks.out)
	}
}

// TestRolledBackReplyIsNotFull: a full reply that is rolled back to a mark from before it was full continues from
// there. So a client under CLIENT REPLY OFF is not disconnected for a long reply.
func TestRolledBackReplyIsNotFull(t *testing.T) {
	chunks := &lender{limit: 1 << 20}
	r := &Reply{Chunks: chunks}
	lent := 0
	lend := func() { lent++; r.LendBulk(5, func() { lent-- }, []byte("lent!")) }
	for i := range 20_000 { // more than a chunk
		r.BulkString(element(i))
	}
	lend()
	m, want := r.Mark(), wire(r)
	for range 2 {
		for i := 0; !r.Full(); i++ {
			r.BulkString(element(i))
		}
		lend()
		late := r.Mark()
		for i := range 50_000 {
			r.BulkString(element(i))
		}
		lend()
		if r.Rollback(late); !r.Full() {
			t.Fatal("it is not full any more")
		}
		r.Rollback(m)
		if r.Full() || wire(r) != want || r.Len() != len(want) || lent != 1 {
			t.Fatalf("%d bytes, want %d, full: %t, %d pieces lent", r.Len(), len(want), r.Full(), lent)
		}
		r.OK()
		want += "+OK\r\n"
		m = r.Mark()
	}
	if wire(r) != want {
		t.Fatal("the later bytes do not follow it")
	}
	r.Reset()
	if release := r.Taken(); release != nil {
		release()
	}
	if chunks.out != 0 || lent != 0 {
		t.Fatalf("%d chunks and %d pieces not given back", chunks.out, lent)
	}
}

// TestSealAndDiscard: a sealed reply has only pieces, which free their chunks. A discarded reply has freed everything.
func TestSealAndDiscard(t *testing.T) {
	for _, n := range []int{0, 1, 9_000, 100_000} {
		chunks := &lender{}
		r, want := &Reply{Chunks: chunks}, []byte(nil)
		for i := range n {
			r.BulkString(element(i))
			want = fmt.Appendf(want, "$%d\r\n%s\r\n", len(element(i)), element(i))
		}
		spilt := chunks.out > 0
		r.Seal()
		if spilt && len(r.B) != 0 {
			t.Errorf("%d elements: %d bytes are no piece", n, len(r.B))
		}
		if got := bytes.Join(slices.Collect(r.Pieces), nil); !bytes.Equal(got, want) || r.Len() != len(want) {
			t.Errorf("%d elements: %d bytes, Len %d, want %d", n, len(got), r.Len(), len(want))
		}
		for _, piece := range r.Lent {
			piece.Release()
		}
		if chunks.out != 0 {
			t.Errorf("%d elements: %d chunks are out when all pieces are back", n, chunks.out)
		}

		r = &Reply{Chunks: chunks}
		for i := range n {
			r.BulkString(element(i))
		}
		if n == 9_000 {
			r.Rollback(Mark{}) // its buffer is still a chunk
		}
		if r.Discard(); chunks.out != 0 {
			t.Errorf("%d elements: %d chunks are out after Discard", n, chunks.out)
		}
		r = &Reply{Chunks: chunks}
		for i := range n {
			r.BulkString(element(i))
		}
		r.Reset()
		if r.Seal(); chunks.out != 0 || r.Len() != 0 {
			t.Errorf("%d elements: %d chunks are out when an empty reply is sealed", n, chunks.out)
		}
	}
}
