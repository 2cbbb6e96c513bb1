package list

import (
	"fmt"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
	"spindle/internal/compress/lzf"
)

// Check returns an error unless v is a sound list: no leaf is empty (list.I2), and each leaf agrees with the tree and
// the encoding. O(n).
// Proof: only tests call it, on every list that they make.
func Check(h *memory.Heap, v value.Value) error {
	if lp := v.Packed(); lp != nil {
		if v.Encoding() != value.Listpack {
			return fmt.Errorf("list: a listpack is called %s", v.Encoding())
		}
		return listpack.Validate(lp, true, nil)
	}
	if v.Encoding() != value.Quicklist {
		return fmt.Errorf("list: a quicklist is called %s", v.Encoding())
	}
	r := rootAt(v.Root())
	t := tree.OpenBlocks(h, value.KindTree, r.nodes, true)
	if err := t.Check(); err != nil {
		return err
	}
	var p tree.Path
	leaves := t.Leaves()
	for i, ok := 0, t.FirstLeaf(&p); ok; i, ok = i+1, p.Next() {
		count := t.CountOf(&p)
		if isCompressed(p.Leaf()) {
			if err := checkCompressed(p.Leaf(), int(count)); err != nil {
				return err
			}
			if min(i, leaves-i-1) < int(r.depth) || r.depth == 0 {
				return fmt.Errorf("list: leaf %d of %d is compressed, with a depth of %d", i, leaves, r.depth)
			}
			continue
		}
		if text, plain := plainAt(p.Leaf()); plain {
			if count != 1 || leafHeader+len(text) > memory.UsableSize(p.Leaf()) {
				return fmt.Errorf("list: a plain leaf of %d bytes counts %d", len(text), count)
			}
			continue
		}
		lp := packedAt(p.Leaf())
		if at := int(*leafWord(p.Leaf())); at < leafHeader || at+len(lp) > memory.UsableSize(p.Leaf()) {
			return fmt.Errorf("list: %d bytes at %d of a block of %d", len(lp), at, memory.UsableSize(p.Leaf()))
		}
		if err := listpack.Validate(lp, true, nil); err != nil {
			return err
		}
		if n := listpack.Count(lp); n != int(count) || n == 0 || n > countable {
			return fmt.Errorf("list: a leaf of %d elements counts %d", n, count)
		}
	}
	return nil
}

// checkCompressed checks that a compressed leaf fits its block and expands to its size.
// Proof: only Check calls it, which only tests call.
func checkCompressed(ref memory.Ref, count int) error {
	packed, size := compressedAt(ref)
	if leafHeader+len(packed) > memory.UsableSize(ref) {
		return fmt.Errorf("list: %d compressed bytes in a block of %d", len(packed), memory.UsableSize(ref))
	}
	text := make([]byte, size)
	if n, err := lzf.Decompress(text, packed); err != nil || n != size {
		return fmt.Errorf("list: a compressed leaf expands to %d bytes, want %d: %v", n, size, err)
	}
	if isPlain(ref) {
		if count != 1 {
			return fmt.Errorf("list: a plain leaf counts %d", count)
		}
		return nil
	}
	if err := listpack.Validate(text, true, nil); err != nil {
		return err
	}
	if n := listpack.Count(text); n != count || n == 0 {
		return fmt.Errorf("list: a compressed leaf of %d elements counts %d", n, count)
	}
	return nil
}
