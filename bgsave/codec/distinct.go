package codec

import (
	"hash/maphash"

	"spindle/engine/data/listpack"
)

// A Distinct is a set of texts, used while one value is checked. The next value reuses its memory.
type Distinct struct {
	slots []uint32 // index into items plus one; 0: free. Its length is a power of two, and it is less than half full
	items []listpack.Element
	sums  []uint64
}

var distinctSeed = maphash.MakeSeed()

func (d *Distinct) reset(n int) {
	d.release()
	d.items, d.sums = d.items[:0], d.sums[:0]
	clear(d.slots)
	d.grow(min(n, 1<<12))
}

// release frees the memory if it is large.
func (d *Distinct) release() {
	if len(d.slots) > 1<<16 {
		*d = Distinct{}
	}
}

// grow makes room for n items.
func (d *Distinct) grow(n int) {
	size := max(len(d.slots), 64)
	for size <= 2*n {
		size *= 2
	}
	if size == len(d.slots) {
		return
	}
	d.slots = make([]uint32, size)
	for i, sum := range d.sums {
		at := sum & uint64(size-1)
		for d.slots[at] != 0 {
			at = (at + 1) & uint64(size-1)
		}
		d.slots[at] = uint32(i + 1)
	}
}

// Add adds b, without copying it. It returns false if the text is in the set already.
func (d *Distinct) Add(b []byte) bool { return d.AddElement(listpack.Of(b)) }

// AddElement adds an element of a listpack. A number stored as text equals the same number stored as an integer.
func (d *Distinct) AddElement(e listpack.Element) bool {
	if !e.IsInt {
		if n, ok := e.Integer(); ok {
			e = listpack.OfInt(n)
		}
	}
	var sum uint64
	if e.IsInt {
		sum = maphash.Comparable(distinctSeed, e.Int)
	} else {
		sum = maphash.Bytes(distinctSeed, e.Bytes())
	}
	mask := uint64(len(d.slots) - 1)
	at := sum & mask
	for ; d.slots[at] != 0; at = (at + 1) & mask {
		if i := d.slots[at] - 1; d.sums[i] == sum && d.items[i].EqualElement(e) {
			return false
		}
	}
	d.slots[at] = uint32(len(d.items) + 1)
	d.items, d.sums = append(d.items, e), append(d.sums, sum)
	d.grow(len(d.items))
	return true
}
