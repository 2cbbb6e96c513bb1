package protocol

import (
	"slices"
	"sort"
)

// A reply of many elements is written in chunks. When the buffer that it began in is full, its bytes move to the first
// chunk. What a full chunk holds becomes a piece that is never moved again, and the next one comes from the loop, which
// keeps them outside the Go heap:
//
//	Lent: [ 256 KB ][ 256 KB ][ 256 KB ]      B: $5\r\nmem42\r\n…
//
// A Mark is a place in the whole, so it holds across spills.

// Chunks lends memory for long replies. The goroutine that writes the reply calls it.
type Chunks interface {
	// Chunk lends room for at least n bytes behind a reply that is held bytes long by now; nil: nobody will read that
	// much. release gives it back, once, on the goroutine that sends.
	Chunk(n, held int) (chunk []byte, release func())
	// Outgrown takes back the buffer that the reply began in.
	Outgrown(b []byte)
}

// spillFrom is from where on a buffer that is full is followed by a chunk, instead of a longer buffer.
const spillFrom = 128 << 10

// ChunkSize is what a chunk has at least.
const ChunkSize = 256 << 10

// grow makes room for n more bytes.
func (r *Reply) grow(n int) {
	if len(r.B) < spillFrom || r.Chunks == nil {
		r.B = slices.Grow(r.B, n)
		return
	}
	if r.full {
		r.drop()
		r.B = slices.Grow(r.B, max(n, ChunkSize))
		return
	}
	first := r.release == nil // or it would be left to the collector
	if first {
		if n += len(r.B); n > ChunkSize {
			n = max(n, 2*len(r.B)) // it may be one that has to be copied again: there was no memory for a chunk
		}
	}
	n = max(n, ChunkSize)
	chunk, release := r.Chunks.Chunk(n, r.Len())
	switch {
	case chunk == nil:
		r.spill()
		r.full, r.whole, r.kept = true, r.lent, len(r.Lent)
		r.B, r.release = make([]byte, 0, n), nil
	case first:
		outgrown := r.B
		r.B, r.release = append(chunk, outgrown...), release
		r.Chunks.Outgrown(outgrown)
	default:
		r.spill()
		r.B, r.release = chunk, release
	}
}

// Full says that nobody will read what is appended from here on: it is dropped, unless Rollback takes it back. Who
// makes a reply as long as the client asked for, and not as long as the data is, looks now and then.
func (r *Reply) Full() bool { return r.full || r.into != nil && r.into.Full() }

// drop forgets B's bytes, and counts them as if they were there.
func (r *Reply) drop() {
	for i := range r.Lent {
		r.Lent[i].At = 0
	}
	r.lent += len(r.B)
	r.B = r.B[:0]
}

// refill makes a full reply what it was when it became that: what came later is being taken back, and what comes now
// may be read again.
func (r *Reply) refill() {
	for i := r.kept; i < len(r.Lent); i++ {
		if release := r.Lent[i].Release; release != nil {
			release()
		}
		r.Lent[i] = Lent{}
	}
	r.B, r.Lent, r.lent = r.B[:0], r.Lent[:r.kept], r.whole
	r.full = false
}

// spill makes pieces of all that B holds.
func (r *Reply) spill() {
	first := sort.Search(len(r.Lent), func(i int) bool { return r.Lent[i].At > 0 })
	between := slices.Clone(r.Lent[first:])
	r.Lent = r.Lent[:first]
	from := 0
	var ours []int // which of them lie in B
	for _, l := range between {
		if l.At > from {
			ours = append(ours, len(r.Lent))
			r.Lent = append(r.Lent, Lent{Data: r.B[from:l.At]})
		}
		from = l.At
		r.Lent = append(r.Lent, Lent{Data: l.Data, Release: l.Release})
	}
	if from < len(r.B) {
		ours = append(ours, len(r.Lent))
		r.Lent = append(r.Lent, Lent{Data: r.B[from:]})
	}
	r.lent += len(r.B)
	release := shared(r.release, len(ours))
	for _, i := range ours {
		r.Lent[i].Release = release
	}
}

// Seal makes pieces of all that has been written, if it lies in chunks: the reply can go to another goroutine whole.
func (r *Reply) Seal() {
	if r.release == nil {
		return
	}
	if len(r.B) == 0 {
		r.release()
	} else {
		r.spill()
	}
	r.B, r.release = nil, nil
}

// Discard gives back all that the reply holds. Nobody will read it, or append to it.
func (r *Reply) Discard() {
	r.Reset()
	if release := r.Taken(); release != nil {
		release()
	}
}

// shared makes release something that each of parts calls once. The parts are given back on one goroutine.
func shared(release func(), parts int) func() {
	if release == nil || parts == 1 {
		return release
	}
	return func() {
		if parts--; parts == 0 {
			release()
		}
	}
}
