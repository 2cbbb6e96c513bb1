package introspect

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	streams "spindle/engine/data/value/stream"
	"spindle/internal/number"
)

// digestStream mixes the entries in order: the ID, with a dot between its halves, then alternating fields and values.
// It ignores groups.
func digestStream(r *command.Reading, d *digest, v value.Value, scratch []byte) []byte {
	var it streams.Iterator
	for streams.Of(v).All(&it); it.Next(); {
		r.Steps(1 + it.Pairs)
		scratch = number.AppendUint(append(number.AppendUint(scratch[:0], it.ID.Ms), '.'), it.ID.Seq)
		d.mix(scratch)
		for range it.Pairs {
			field, val := it.Pair()
			scratch = field.Append(scratch[:0])
			d.mix(scratch)
			scratch = val.Append(scratch[:0])
			d.mix(scratch)
		}
	}
	return scratch
}
