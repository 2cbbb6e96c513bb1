package protocol

import (
	"slices"
	"sort"
)

// This file writes a reply of many elements in chunks. When its first buffer is full, the bytes move to the first
// chunk. A full chunk becomes a piece that never moves again. The next chunk comes from the loop, which keeps chunks
// outside the Go heap:
//
//	Lent: [ 256 KB ][ 256 KB ][ 256 KB ]      B: $5\r\nmem42\r\n…
//
// A Mark is an offset in the whole reply, so it stays valid across spills.

// Chunks lends memory for long replies. The goroutine that writes the reply calls it.
type Chunks interface {
	// Chunk lends room for at least n bytes, for a reply that already has held bytes. A nil chunk means that no client
	// will read that much. release frees the chunk. It is called once, on the goroutine that sends.
	Chunk(n, held int) (chunk []byte, release func())
	// Outgrown takes back the reply's first buffer.
	Outgrown(b []byte)
}

// spillFrom is the size from which a full buffer is followed by a chunk, instead of being replaced by a longer one.
const spillFrom = 128 << 10

// ChunkSize is the smallest chunk.
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
	first := r.release == nil // otherwise the collector must free it
	if first {
		if n += len(r.B); n > ChunkSize {
			n = max(n, 2*len(r.B)) // it may have to be copied again, because there was no memory for a chunk
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

// Full reports whether appended bytes are dropped, because no client will read them. Rollback may end that. A handler
// whose reply is as long as the client asked, and not as long as the data, checks Full now and then.
func (r *Reply) Full() bool { return r.full || r.into != nil && r.into.Full() }

// drop drops B's bytes, but counts them.
func (r *Reply) drop() {
	for i := range r.Lent {
		r.Lent[i].At = 0
	}
	r.lent += len(r.B)
	r.B = r.B[:0]
}

// refill restores a full reply to its state when it became full. The caller is removing later bytes, and a client may
// read new ones again.
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

// spill turns everything in B into pieces.
func (r *Reply) spill() {
	first := sort.Search(len(r.Lent), func(i int) bool { return r.Lent[i].At > 0 })
	between := slices.Clone(r.Lent[first:])
	r.Lent = r.Lent[:first]
	from := 0
	var ours []int // indexes of those in B
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

// Seal turns all written bytes into pieces, if they are in chunks. The whole reply can then move to another goroutine.
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

// Discard frees everything in the reply. It must not be used afterwards.
func (r *Reply) Discard() {
	r.Reset()
	if release := r.Taken(); release != nil {
		release()
	}
}

// shared returns a function that calls release at its call number parts. All calls are on one goroutine.
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
