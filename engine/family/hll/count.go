package hll

import (
	"encoding/binary"

	"spindle/engine/command"
	"spindle/engine/data/value"
)

// count is PFCOUNT key [key …]. Replies: the estimated number of different elements in the union. A single sketch
// stores its estimate until it changes. Errors: ErrWrongType, errNotSketch, errCorrupt.
// Propagates as written if it stored the estimate: the string must be equal on replicas.
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

func (h *commands) countUnion(c *command.Context) error {
	if _, err := h.unite(c, c.Args[1:]); err != nil {
		return err
	}
	ranks := h.union.histogram()
	c.Reply.Int(int64(estimate(&ranks)))
	return nil
}

// unite sets h.union to the union of the sketches at keys. dense: one of them is dense. Missing keys are empty.
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

// estimateOf is the estimate for s. Errors: errCorrupt.
func estimateOf(s []byte) (uint64, error) {
	var ranks histogram
	if isDense(s) {
		addRegisters(&ranks, s[headerSize:])
	} else if !addRuns(&ranks, s) {
		return 0, errCorrupt
	}
	return estimate(&ranks), nil
}
