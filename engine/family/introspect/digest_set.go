package introspect

import (
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
)

// digestSet adds the members, which have no order.
func digestSet(d *digest, v value.Value, scratch []byte) []byte {
	r := set.Read(v)
	r.All(func(e set.Element) bool {
		scratch = e.Append(scratch[:0])
		d.xor(scratch)
		return true
	})
	return scratch
}
