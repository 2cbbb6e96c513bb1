package hll

import (
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
)

// add is PFADD key [element …]. It creates a missing key, even without an element.
//
// Replies: 1 if a register rose or the key is new, else 0.
// Errors: ErrWrongType, errNotSketch, errCorrupt. After an error nothing has changed.
// Propagates as written, if something changed. The key keeps its deadline.
func (h *commands) add(c *command.Context) error {
	key, elements := c.Args[1], c.Args[2:]
	v := c.DB.LookupWrite(key)
	s, created, err := []byte(nil), !v.Exists(), error(nil)
	if !created {
		if s, err = sketchOf(v); err == errCorrupt {
			return addLong(c, v, elements)
		} else if err != nil {
			return err
		}
	}
	changes := 0
	if !created && isDense(s) {
		changes = addDense(c, v, s, elements)
	} else if changes, err = h.addSparse(c, s, elements); err != nil {
		return err
	}
	if created {
		changes++
		c.Notify(command.EventNew, "new", key)
	}
	if changes > 0 {
		c.Changed(changes)
		c.Notify(command.EventString, "pfadd", key)
	}
	c.Reply.Int(int64(min(changes, 1)))
	return nil
}

// addLong is PFADD to a sparse sketch with extra bytes at its end, which make it too long. It adds nothing. An element
// that the sketch already counts is no change. Any other element is errCorrupt.
func addLong(c *command.Context, v value.Value, elements [][]byte) error {
	s := v.Range(0, headerSize+longestBody, nil)
	for _, e := range elements {
		index, rank := locate(e)
		if r, ok := find(s, start, index); !ok || r.rank < int(rank) {
			return errCorrupt
		}
	}
	c.Reply.Int(0)
	return nil
}

// addDense adds elements to the dense sketch s, which is the value v. It returns the number of registers that rose. It
// writes each register in place: two bytes of 12 KB.
func addDense(c *command.Context, v value.Value, s []byte, elements [][]byte) (changes int) {
	key := c.Args[1]
	for _, e := range elements {
		index, rank := locate(e)
		if register(s[headerSize:], index) >= rank {
			continue
		}
		changes++
		bytes, p := withRegister(s[headerSize:], index, rank)
		c.DB.Patch(key, headerSize+p.at, bytes[:p.size])
		v = c.DB.Peek(key)
		s, _ = v.Contiguous() // s moves if a view reads the old one
	}
	if changes == 0 {
		return 0
	}
	if _, ok := cached(s); ok {
		last := [1]byte{s[headerSize-1] | outOfDate>>56}
		c.DB.Patch(key, headerSize-1, last[:])
	}
	c.DB.Touch(key)
	return changes
}

// addSparse adds elements to the sparse sketch s, or to a new one if s is nil. It returns the number of registers that
// rose. The sketch becomes dense when it grows past the limit.
func (h *commands) addSparse(c *command.Context, s []byte, elements [][]byte) (changes int, err error) {
	copied := s == nil
	if copied {
		s = append(h.room[:0], empty...)
		h.room = s
		outdate(s)
	}
	for _, e := range elements {
		index, rank := locate(e)
		if isDense(s) {
			if register(s[headerSize:], index) < rank {
				setRegister(s[headerSize:], index, rank)
				changes++
			}
			continue
		}
		r, ok := find(s, start, index)
		if !ok {
			return 0, errCorrupt
		}
		if r.rank >= int(rank) {
			continue
		}
		if !copied {
			s, copied = append(h.room[:0], s...), true
			h.room = s
		}
		if s, err = h.raise(s, r, index, rank); err != nil {
			return 0, err
		}
		changes++
	}
	if copied {
		c.DB.SetRaw(c.Args[1], s, keyspace.KeepTTL)
	}
	return changes, nil
}

// raise raises a register of the sparse sketch s, which is in h.room. It returns s, or h.dense if the sketch had to
// become dense. Errors: errCorrupt.
func (h *commands) raise(s []byte, r run, index int, rank byte) ([]byte, error) {
	s, ok := raise(s, r, index, rank, h.settings.SparseMax.Get())
	h.room = s
	if ok {
		return s, nil
	}
	if !toDense(&h.dense, s) {
		return nil, errCorrupt
	}
	s = h.dense[:]
	setRegister(s[headerSize:], index, rank)
	outdate(s)
	return s, nil
}
