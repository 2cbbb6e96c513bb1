package str

import (
	"iter"
	"slices"

	"spindle/engine/command"
	"spindle/engine/data/value"
)

// appendValue answers with the whole of v, or nil if there is none. Large values are lent, not copied.
func appendValue(c *command.Context, v value.Value) {
	if !v.Exists() {
		c.Reply.Null()
		return
	}
	if n, ok := v.Int(); ok {
		c.Reply.BulkInt(n)
		return
	}
	if b, ok := v.Contiguous(); ok {
		c.Reply.Bulk(b)
		return
	}
	appendRange(c, v, 0, v.Len())
}

// appendRange answers bytes [from, to) of v.
func appendRange(c *command.Context, v value.Value, from, to int) {
	var scratch [32]byte
	if b, ok := v.Contiguous(); ok {
		c.Reply.Bulk(b[from:to])
		return
	}
	if _, ok := v.Int(); ok {
		c.Reply.Bulk(v.Bytes(scratch[:0])[from:to])
		return
	}
	if to-from >= lendFrom && v.Long() {
		lendRange(c, v, from, to)
		return
	}
	room := c.Reply.BulkRoom(to - from)
	for piece := range pieces(v, from, to) {
		room = room[copy(room, piece):]
	}
}

// lendFrom is the shortest reply that leaves from where it lies: shorter ones are cheaper to copy than to keep from
// being changed until the kernel has taken them.
const lendFrom = 64 << 10

func lendRange(c *command.Context, v value.Value, from, to int) {
	release := c.DB.Pin(v)
	c.Reply.LendBulk(to-from, release, slices.Collect(pieces(v, from, to))...)
}

// pieces yields bytes [from, to) of a string that lies in chunks.
func pieces(v value.Value, from, to int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		at := 0
		for chunk := range v.Chunks {
			lo, hi := max(from-at, 0), min(to-at, len(chunk))
			if at += len(chunk); lo < hi && !yield(chunk[lo:hi]) {
				return
			}
			if at >= to {
				return
			}
		}
	}
}

// length is STRLEN's answer: 0 for no key.
func length(v value.Value) int {
	if !v.Exists() {
		return 0
	}
	return v.Len()
}
