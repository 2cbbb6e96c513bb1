package introspect

import (
	"spindle/engine/command"
	packed "spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
)

// digestHash adds the fields, which have no order. The digest of a field mixes the field and the value, and xors the
// mark of a deadline.
func digestHash(r *command.Reading, d *digest, v value.Value, scratch []byte) []byte {
	hashes.All(v, func(field, val packed.Element, deadline int64) bool {
		r.Step()
		var e digest
		scratch = field.Append(scratch[:0])
		e.mix(scratch)
		scratch = val.Append(scratch[:0])
		e.mix(scratch)
		if deadline != 0 {
			e.xor([]byte("!!hexpire!!"))
		}
		d.xor(e[:])
		return true
	})
	return scratch
}
