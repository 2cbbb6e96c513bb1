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
	return h.answerScan(c, v, cursor, o)
}

func (h *commands) answerScan(c *command.Context, v value.Value, cursor uint64, o command.Scan) error {
	if c.IsLong(min(o.Count, hashes.Len(v))) {
		own := o.Own()
		return c.ReadBeside(func(r *command.Reading) error {
			replyScan(r, v, cursor, own, nil)
			return nil
		})
	}
	h.found = replyScan(c.Inline(), v, cursor, o, h.found[:0])
	clear(h.found)
	if cap(h.found) > keptFound {
		h.found = nil
	}
	return nil
}

// replyScan replies fields, and values, starting at cursor. It collects them in found, and returns it.
func replyScan(r *command.Reading, v value.Value, cursor uint64, o command.Scan,
	found []listpack.Element) []listpack.Element {
	var room [number.MaxIntLen]byte
	next := hashes.Scan(v, cursor, o.Count, func(field, val listpack.Element, deadline int64) {
		r.Step()
		if deadline != 0 && deadline < r.Now || o.Pattern != nil && !glob.Match(o.Pattern, field.Text(room[:0])) {
			return
		}
		found = command.Collect(r, found, field)
		if !o.NoValues {
			found = command.Collect(r, found, val)
		}
	})
	r.AnswerScan(next, len(found))
	for _, e := range found {
		answer(r.Reply, e)
	}
	return found
}

// keptFound is the largest buffer, in elements, that HSCAN keeps for the next call.
const keptFound = 1024
