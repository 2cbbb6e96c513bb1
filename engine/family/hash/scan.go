package hash

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	hashes "spindle/engine/data/value/hash"
	"spindle/internal/glob"
	"spindle/internal/number"
)

// scan is HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES].
//
// Replies: the next cursor, 0 at the end, and an array of fields and values in turn. Errors: "invalid cursor", ErrWrongType, ErrSyntax,
// ErrNotInteger. A hash that is kept in a listpack comes as a whole. Fields past their deadline are passed over.
func (h *commands) scan(c *command.Context) error {
	cursor, ok := command.ParseCursor(c.Args[2])
	if !ok {
		return command.ErrCursor
	}
	v, err := lookup(c)
	if err != nil {
		return err
	}
	h.found = h.found[:0]
	if v.Exists() {
		o, err := command.ParseScan(c.Args[3:], true)
		if err != nil {
			return err
		}
		var room [number.MaxIntLen]byte
		cursor = hashes.Scan(v, cursor, o.Count, func(field, val listpack.Element, deadline int64) {
			if past(c, deadline) || o.Pattern != nil && !glob.Match(o.Pattern, field.Text(room[:0])) {
				return
			}
			h.found = append(h.found, field)
			if !o.NoValues {
				h.found = append(h.found, val)
			}
		})
	} else {
		cursor = 0
	}
	c.Reply.Array(2)
	var digits [20]byte
	c.Reply.Bulk(number.AppendUint(digits[:0], cursor))
	c.Reply.Array(len(h.found))
	for _, e := range h.found {
		bulk(c, e)
	}
	if cap(h.found) > keptFound {
		h.found = nil
	}
	return nil
}

// keptFound is how much room for elements HSCAN keeps for the next call.
const keptFound = 1024
