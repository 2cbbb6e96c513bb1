package hll

import (
	"encoding/binary"

	"spindle/engine/command"
	"spindle/engine/data/value"
)

// count is PFCOUNT key [key …]. Replies: the estimated number of different elements in the union. A single sketch
// stores its estimate until it changes. Errors: ErrWrongType, errNotSketch, errCorrupt.
// Propagates as written if it stored the estimate, because the string must be the same on replicas.
func (h *commands) count(c *command.Context) error {
	if len(c.Args) > 2 {
		return h.countUnion(c)
	}
	v := lookup(c, c.Args[1])
	if !v.Exists() {
		c.Reply.Int(0)
		return nil
	}
	s, err := sketchOf(v)
	if err != nil {
		return err
	}
	n, ok := cached(s)
	if !ok {
		if n, err = estimateOf(s); err != nil {
			return err
		}
		var text [8]byte
		binary.LittleEndian.PutUint64(text[:], n)
		c.DB.Patch(c.Args[1], atEstimate, text[:])
		c.DB.Touch(c.Args[1])
		c.Changed(1)
	}
	c.Reply.Int(int64(n))
	return nil
}

// perSketch is the number of elements for which IsLong counts one sketch.
const perSketch = 100

func (h *commands) countUnion(c *command.Context) error {
	if c.IsLong(perSketch * (len(c.Args) - 1)) {
		sketches, err := sketchesOf(c, c.Args[1:])
		if err != nil {
			return err
		}
		return c.ReadBeside(func(r *command.Reading) error {
			var union registers
			for _, s := range sketches {
				r.Steps(perSketch)
				if err := union.merge(s); err != nil {
					return err
				}
			}
			ranks := union.histogram()
			r.Reply.Int(int64(estimate(&ranks)))
			return nil
		})
	}
	if _, err := h.unite(c, c.Args[1:]); err != nil {
		return err
	}
	ranks := h.union.histogram()
	c.Reply.Int(int64(estimate(&ranks)))
	return nil
}

// sketchesOf returns the sketches at keys. It leaves out missing keys.
//
// Errors: ErrWrongType, errNotSketch.
func sketchesOf(c *command.Context, keys [][]byte) (sketches [][]byte, err error) {
	for _, key := range keys {
		if v := lookup(c, key); v.Exists() {
			if _, err := sketchOf(v); err != nil {
				return nil, err
			}
		}
	}
	for _, key := range keys { // again: a lookup that removes an expired key invalidates the values found before
		if v := c.DB.Peek(key); v.Exists() {
			s, err := sketchOf(v)
			if err != nil {
				return nil, err
			}
			sketches = append(sketches, s)
		}
	}
	return sketches, nil
}

// unite sets h.union to the union of the sketches at keys. dense means that at least one of them is dense. Missing keys
// count as empty.
func (h *commands) unite(c *command.Context, keys [][]byte) (dense bool, err error) {
	clear(h.union[:])
	for _, key := range keys {
		v := lookup(c, key)
		if !v.Exists() {
			continue
		}
		s, err := sketchOf(v)
		if err != nil {
			return false, err
		}
		if err := h.union.merge(s); err != nil {
			return false, err
		}
		dense = dense || isDense(s)
	}
	return dense, nil
}

func lookup(c *command.Context, key []byte) value.Value {
	v := c.DB.Lookup(key)
	if !v.Exists() {
		c.Notify(command.EventKeyMiss, "keymiss", key)
	}
	return v
}

// estimateOf returns the estimate for s. Errors: errCorrupt.
func estimateOf(s []byte) (uint64, error) {
	var ranks histogram
	if isDense(s) {
		addRegisters(&ranks, s[headerSize:])
	} else if !addRuns(&ranks, s) {
		return 0, errCorrupt
	}
	return estimate(&ranks), nil
}
