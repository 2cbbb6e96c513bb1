package replication

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// TestBacklogKeepsTheEnd: compares replication.B1 with a slice, through writes, changes of the limit and new streams.
func TestBacklogKeepsTheEnd(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	var stream []byte // after offset 1000
	const base = 1000
	b := newBacklog(300_000, base)
	defer b.free()
	least := int64(base) // what may be kept begins there
	for step := range 3000 {
		switch n := rng.IntN(100); {
		case n == 0:
			b.resize(int64(1 + rng.IntN(400_000)))
		case n == 1:
			b.forget()
			least = b.end
		default:
			p := make([]byte, rng.IntN(1+1<<rng.IntN(19)))
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			if !b.write(p) {
				t.Fatalf("seed %d: no memory", seed)
			}
			stream = append(stream, p...)
		}
		if b.end != base+int64(len(stream)) || b.length > b.limit || b.begin() < least {
			t.Fatalf("seed %d, step %d: replication.B1: begins at %d, ends at %d, limit %d, stream of %d", seed, step, b.begin(),
				b.end, b.limit, len(stream))
		}
		if b.filled()-b.length >= blockBytes {
			t.Fatalf("seed %d, step %d: replication.B2: %d bytes lie in blocks, %d are kept", seed, step, b.filled(), b.length)
		}
		from := b.begin() + rng.Int64N(b.length+1)
		p := make([]byte, rng.IntN(200_000))
		n := b.read(p, from)
		if want := stream[from-base:]; n != min(len(want), len(p)) || !bytes.Equal(p[:n], want[:n]) {
			t.Fatalf("seed %d, step %d: %d bytes from %d on are others than the stream's", seed, step, n, from)
		}
	}
}

// TestBacklogMapsNothingInSteadyState: the oldest block becomes the newest.
func TestBacklogMapsNothingInSteadyState(t *testing.T) {
	b := newBacklog(4*blockBytes, 0)
	defer b.free()
	p := make([]byte, 1000)
	for range 1000 {
		b.write(p)
	}
	if n := testing.AllocsPerRun(2000, func() { b.write(p) }); n > 0.2 { // the list of blocks grows and moves
		t.Errorf("%v allocations a write", n)
	}
	if b.bytes() > 5*blockBytes {
		t.Errorf("%d bytes for a limit of %d", b.bytes(), b.limit)
	}
}
