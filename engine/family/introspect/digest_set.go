package introspect

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
)

// digestSet adds the members, which have no order.
func digestSet(r *command.Reading, d *digest, v value.Value, scratch []byte) []byte {
	s := set.Read(v)
	s.All(func(e set.Element) bool {
		r.Step()
		scratch = e.Append(scratch[:0])
		d.xor(scratch)
		return true
	})
	return scratch
}
