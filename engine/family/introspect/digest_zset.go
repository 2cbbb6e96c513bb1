package introspect

import (
	"spindle/engine/command"
	packed "spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
)

// digestZSet adds the members as unordered parts, because the scores determine the order. Each mixes the member, then
// the score as text.
func digestZSet(r *command.Reading, d *digest, v value.Value, scratch []byte) []byte {
	zset.Each(v, 0, zset.Len(v), false, func(member packed.Element, score float64) bool {
		r.Step()
		var e digest
		scratch = member.Append(scratch[:0])
		e.mix(scratch)
		scratch = number.AppendShortest(scratch[:0], score)
		e.mix(scratch)
		d.xor(e[:])
		return true
	})
	return scratch
}
