package str

import (
	"iter"
	"slices"

	"spindle/engine/command"
	"spindle/engine/data/value"
)

// appendValue replies v, or null for a missing key. It lends large values instead of copying them.
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

// lendFrom is the size from which a reply is lent. Copying a shorter one costs less than protecting it until the kernel
// has taken it.
const lendFrom = 64 << 10

func lendRange(c *command.Context, v value.Value, from, to int) {
	release := c.DB.Pin(v)
	c.Reply.LendBulk(to-from, release, slices.Collect(pieces(v, from, to))...)
}

// pieces yields the bytes [from, to) of a string in chunks.
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

// length returns STRLEN's reply. It is 0 for a missing key.
func length(v value.Value) int {
	if !v.Exists() {
		return 0
	}
	return v.Len()
}
