package rdb

import (
	"testing"

	"spindle/internal/invariant"
)

// TestBeyondProgress: loops that are deeper or more than progress can store violate an invariant. In production they
// still work.
func TestBeyondProgress(t *testing.T) {
	if invariant.Enabled {
		defer func() {
			if recover() == nil {
				t.Error("a build that checks continued")
			}
		}()
	}
	var p progress
	deep := func(c *cursor) error { // 2 × 2 × 2 × 2 bytes deep, then three loops of two bytes one after the other
		var nest func(depth int) error
		nest = func(depth int) error {
			return c.repeat(2, func() error {
				if depth == loopDepth {
					return c.drop(1)
				}
				return nest(depth + 1)
			})
		}
		if err := nest(0); err != nil {
			return err
		}
		for range loopWidth + 1 {
			if err := c.repeat(2, func() error { return c.repeat(1, func() error { return c.drop(1) }) }); err != nil {
				return err
			}
		}
		return nil
	}
	const all = 1<<(loopDepth+1) + 2*(loopWidth+1)
	for n := range all + 1 { // the same record, with one more byte each time
		c := cursor{p: make([]byte, n), progress: &p}
		p.enter(&c, 7)
		if err := deep(&c); n < all && err != errShort || n == all && (err != nil || c.i != all) {
			t.Fatalf("%d of %d bytes: %d read, %v", n, all, c.i, err)
		}
	}
}
