package stream

import (
	"encoding/binary"

	"spindle/engine/data/tree"
)

// radixExact is the number of nodes up to which Radix computes the shape exactly. For more nodes it extrapolates from
// the first ones.
const radixExact = 100_000

// Radix returns the figures that XINFO STREAM reports for the index by ID, as they would be in Redis. There, the index
// is a radix tree with a key of 16 bytes per stream node. Its nodes are compressed: bytes without a branch share one.
// Operators compare these figures.
func (s Stream) Radix() (keys, nodes int) {
	keys = s.Nodes()
	if keys == 0 {
		return 0, 1
	}
	// depths are the branches above the present key, by depth. A chain is the bytes without a branch between a branch,
	// or the root, and the next branch or the end. It may be empty.
	var depths [16]int
	n := 0
	chain := func(from, to int) {
		if to > from {
			nodes++
		}
	}
	above := func() int { // where a chain below the deepest branch begins
		if n == 0 {
			return 0
		}
		return depths[n-1] + 1
	}
	var p tree.Path
	var last [16]byte
	seen := 0
	for ok := s.r.entries.FirstLeaf(&p); ok && seen < radixExact; ok = p.Next() {
		var key [16]byte
		k := s.r.entries.KeyOf(&p)
		binary.BigEndian.PutUint64(key[:], k[0])
		binary.BigEndian.PutUint64(key[8:], k[1])
		if seen > 0 {
			common := 0
			for key[common] == last[common] {
				common++
			}
			deepest := common // the branch above the last key
			if n > 0 {
				deepest = max(deepest, depths[n-1])
			}
			chain(deepest+1, 16)
			nodes++
			for n > 0 && depths[n-1] > common { // branches that end with the last key
				b := depths[n-1]
				n--
				chain(max(above(), common+1), b)
				nodes++
			}
			if n == 0 || depths[n-1] != common {
				depths[n] = common
				n++
			}
		}
		last = key
		seen++
	}
	chain(above(), 16)
	nodes++
	for n > 0 {
		b := depths[n-1]
		n--
		chain(above(), b)
		nodes++
	}
	if keys > seen {
		nodes = int(float64(nodes) / float64(seen) * float64(keys))
	}
	return keys, nodes
}
