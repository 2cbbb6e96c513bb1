package hll

import (
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
)

// merge is PFMERGE destination [source …]. The destination becomes the union of itself and the sources. It is dense if
// one of them is dense.
//
// Replies: OK. Propagates as written.
// Errors: ErrWrongType, errNotSketch, errCorrupt. After an error nothing has changed.
func (h *commands) merge(c *command.Context) error {
	key := c.Args[1]
	dense, err := h.unite(c, c.Args[1:])
	if err != nil {
		return err
	}
	v := c.DB.LookupWrite(key)
	created := !v.Exists()
	s := append(h.room[:0], empty...)
	if h.room = s; !created {
		if s, err = sketchOf(v); err != nil {
			return err
		}
	}
	switch {
	case !dense:
		c.DB.SetRaw(key, h.sparseUnion(s), keyspace.KeepTTL)
	case isDense(s):
		c.DB.Patch(key, 0, h.denseUnion(s))
		c.DB.Touch(key)
	default:
		c.DB.SetRaw(key, h.denseUnion(s), keyspace.KeepTTL)
	}
	if created {
		c.Notify(command.EventNew, "new", key)
	}
	c.Changed(1)
	c.Notify(command.EventString, "pfadd", key)
	c.Reply.OK()
	return nil
}

// denseUnion returns h.union as a dense sketch, with the header of s. s is part of the union.
func (h *commands) denseUnion(s []byte) []byte {
	d := h.dense[:]
	copy(d, s[:headerSize])
	d[atEncoding] = encodingDense
	h.union.pack(d[headerSize:])
	outdate(d)
	return d
}

// sparseUnion returns the sparse sketch s with every register raised to its value in h.union. s is part of the union.
// If the result would exceed the limit, it is dense.
func (h *commands) sparseUnion(s []byte) []byte {
	s = append(h.room[:0], s...)
	h.room = s
	outdate(s)
	limit, from := h.settings.SparseMax.Get(), start
	for index, rank := range h.union {
		if rank == 0 {
			continue
		}
		r, ok := find(s, from, index)
		from = r.before
		if ok && r.rank >= int(rank) {
			continue
		}
		if ok {
			s, ok = raise(s, r, index, rank, limit)
			h.room = s
		}
		if !ok {
			return h.denseUnion(s)
		}
	}
	return s
}
