package hash

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
	"spindle/protocol"
)

// randField is HRANDFIELD key [count [WITHVALUES]].
//
// Replies: a random field, or null. A positive count gives an array of different fields; a negative one gives -count
// fields that may repeat. WITHVALUES adds the values (RESP3: as pairs).
// Errors: ErrNotInteger, a count out of range, ErrSyntax, ErrWrongType.
func randField(c *command.Context) error {
	if len(c.Args) == 2 {
		v, err := lookup(c)
		if err != nil {
			return err
		}
		if field, _, ok := draw(c, v); ok {
			bulk(c, field)
		} else {
			c.Reply.Null()
		}
		return nil
	}
	count, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	if count == math.MinInt64 {
		return errCount
	}
	pairs := len(c.Args) == 4
	if len(c.Args) > 4 || pairs && !command.Is(c.Args[3], "WITHVALUES") {
		return protocol.ErrSyntax
	}
	if pairs && (count < -math.MaxInt64/2 || count > math.MaxInt64/2) {
		return errCountPairs
	}
	v, err := lookup(c)
	if err != nil {
		return err
	}
	if v.Exists() {
		v = lapseAll(c, v, c.Args[1])
	}
	if !v.Exists() || count == 0 {
		c.Reply.Array(0)
		return nil
	}
	randFields(c, v, count, pairs)
	return nil
}

// draw returns a random field of v, the hash at the first argument, and its value. ok is false if there is no field.
func draw(c *command.Context, v value.Value) (field, val listpack.Element, ok bool) {
	if v.Exists() {
		v = lapseAll(c, v, c.Args[1])
	}
	for v.Exists() {
		field, val, deadline := hashes.Random(v, c.Space.Rand())
		if !past(c, deadline) || !removes(c) {
			return field, val, true
		}
		if lapse(c, c.Args[1], field.Bytes(), true) { // lapseAll left it: the deadline passed less than a tick ago
			break
		}
		v = c.DB.Peek(c.Args[1])
	}
	return field, val, false
}

// randFields replies count fields of v, which is not empty. It knows their number in advance only if no field is past
// its deadline.
func randFields(c *command.Context, v value.Value, count int64, pairs bool) {
	var live func(int64) bool
	if hashes.Volatile(v) && past(c, hashes.Least(v)) && removes(c) {
		live = func(deadline int64) bool { return !past(c, deadline) }
	}
	n := max(count, -count)
	if count > 0 {
		n = min(n, int64(hashes.Len(v)))
	}
	elements := 1
	if pairs && !c.Reply.RESP3 {
		elements = 2
	}
	mark := c.Reply.Mark()
	if live == nil {
		c.Reply.Array(elements * int(n))
	}
	given := 0
	if count > 0 {
		hashes.Sample(v, c.Space.Rand(), int(n), live, func(field, val listpack.Element) {
			pair(c, field, val, pairs)
			given++
		})
	} else {
		for range n {
			field, val, ok := listpack.Element{}, listpack.Element{}, true
			if live == nil {
				field, val, _ = hashes.Random(v, c.Space.Rand())
			} else if field, val, ok = draw(c, c.DB.Peek(c.Args[1])); !ok {
				break
			}
			pair(c, field, val, pairs)
			if given++; c.Reply.Full() {
				break
			}
		}
	}
	if live != nil {
		c.Reply.ArrayAt(mark, elements*given)
	}
}

// pair replies a field, and also its value if pairs is true.
func pair(c *command.Context, field, val listpack.Element, pairs bool) {
	if pairs && c.Reply.RESP3 {
		c.Reply.Array(2)
	}
	bulk(c, field)
	if pairs {
		bulk(c, val)
	}
}
