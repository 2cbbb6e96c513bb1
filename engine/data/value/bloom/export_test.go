package bloom

import "spindle/engine/data/value"

// Written yields every leaf of v's filter that was ever written, with its link and its number. Tests use it to compare
// filters of any size, because walking the leaves that were never written would take too long.
func Written(v value.Value, yield func(link int, leaf uint64, p []byte)) {
	r := rootAt(v.Root())
	for i := range int(r.links) {
		l := r.link(i)
		var walk func(word uint64, level uint8, first uint64)
		walk = func(word uint64, level uint8, first uint64) {
			switch {
			case word == 0:
			case level == 0:
				yield(i, first, l.read(first))
			default:
				for k, below := range nodeAt(word).words {
					walk(below, level-1, first+uint64(k)<<((level-1)*fanShift))
				}
			}
		}
		walk(l.top, l.levels, 0)
	}
}
