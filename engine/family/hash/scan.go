package hash

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
	"spindle/internal/glob"
	"spindle/internal/number"
)

// scan is HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES].
//
// Replies: the next cursor, 0 at the end, and an array of alternating fields and values. A listpack is replied as a
// whole. Fields past their deadline are skipped.
// Errors: "invalid cursor", ErrWrongType, ErrSyntax, ErrNotInteger.
func (h *commands) scan(c *command.Context) error {
	v, cursor, o, err := c.OpenScan(value.Hash, true)
	if err != nil || !v.Exists() {
		return err
	}
	h.found = h.found[:0]
	var room [number.MaxIntLen]byte
	next := hashes.Scan(v, cursor, o.Count, func(field, val listpack.Element, deadline int64) {
		if past(c, deadline) || o.Pattern != nil && !glob.Match(o.Pattern, field.Text(room[:0])) {
			return
		}
		h.found = append(h.found, field)
		if !o.NoValues {
			h.found = append(h.found, val)
		}
	})
	c.AnswerScan(next, len(h.found))
	for _, e := range h.found {
		bulk(c, e)
	}
	clear(h.found)
	if cap(h.found) > keptFound {
		h.found = nil
	}
	return nil
}

// keptFound is the largest buffer, in elements, that HSCAN keeps for the next call.
const keptFound = 1024
