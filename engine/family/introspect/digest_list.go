package introspect

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// digestList mixes the elements in order.
func digestList(r *command.Reading, d *digest, v value.Value, scratch []byte) []byte {
	var walk list.Cursor
	walk.Seek(v, 0, list.Tail)
	for el, ok := walk.Next(); ok; el, ok = walk.Next() {
		r.Step()
		scratch = el.Append(scratch[:0])
		d.mix(scratch)
	}
	return scratch
}
