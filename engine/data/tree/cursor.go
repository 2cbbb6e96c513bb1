package tree

import "spindle/engine/data/memory"

// A Probe is a place in the order of records.
type Probe struct {
	Word0, Word1 uint64

	// Tie, if set, orders records whose word0 is the probe's. It compares the probe with the record of this word1, and
	// returns a negative number if the probe is before it. Without Tie, word1 is compared as a number. Tie must not
	// change the tree.
	Tie func(word1 uint64) int

	// TieOnly means that Tie alone orders all records, whatever their word0.
	TieOnly bool
}

// compare returns a negative number if the probe is before the key, and a positive number if it is after the key. It
// returns 0 if the probe is at the key.
func (p *Probe) compare(word0, word1 uint64) int {
	if !p.TieOnly && word0 != p.Word0 {
		if p.Word0 < word0 {
			return -1
		}
		return 1
	}
	if p.Tie != nil {
		return p.Tie(word1)
	}
	switch {
	case p.Word1 < word1:
		return -1
	case p.Word1 > word1:
		return 1
	}
	return 0
}

// A Cursor is at a record, before the first record or after the last one. It is a value for the stack. It is valid
// until the tree next changes, unless the call that changes the tree moves the cursor. Any goroutine may use cursors of
// a frozen State.
type Cursor struct {
	path Path
	at   int
	n    int // records in the leaf
}

// Valid reports whether c is at a record.
func (c *Cursor) Valid() bool { return uint(c.at) < uint(c.n) }

// Record returns the record at c. The caller must not write to it.
//
// Lifetime: until the tree next changes; in a frozen State, until its hold closes.
func (c *Cursor) Record() []uint64 { return leafAt(c.path.leaf).record(c.at) }

// Rank returns the number of records before c. O(height).
func (c *Cursor) Rank() uint64 { return c.path.Rank() + uint64(max(c.at, 0)) }

// Next moves c to the next record. It returns false if there is none; c is then after the last record.
func (c *Cursor) Next() bool {
	c.at++
	if c.at < c.n {
		return true
	}
	return c.roll()
}

// roll moves c from the end of a leaf to the first record of the next leaf.
func (c *Cursor) roll() bool {
	if c.path.leaf != 0 && c.path.Next() {
		c.at, c.n = 0, int(leafAt(c.path.leaf).n)
		return true
	}
	c.at = c.n
	return false
}

// Prev moves c to the previous record. It returns false if there is none; c is then before the first record.
func (c *Cursor) Prev() bool {
	c.at--
	if c.at >= 0 {
		return c.n > 0
	}
	if c.path.leaf != 0 && c.path.Prev() {
		c.n = int(leafAt(c.path.leaf).n)
		c.at = c.n - 1
		return true
	}
	c.at = -1
	return false
}

// enter puts c at index at of the leaf to which its path leads.
func (c *Cursor) enter(at int) {
	c.at, c.n = at, 0
	if c.path.leaf != 0 {
		c.n = int(leafAt(c.path.leaf).n)
	}
}

// First moves c to the first record. It returns false if there is none.
func (s *State) First(c *Cursor) bool {
	s.FirstLeaf(&c.path)
	c.enter(0)
	return c.n > 0
}

// Last moves c to the last record. It returns false if there is none.
func (s *State) Last(c *Cursor) bool {
	s.LastLeaf(&c.path)
	c.enter(0)
	c.at = c.n - 1
	return c.n > 0
}

// At moves c to the record of this rank. It returns false if rank is not below Len; c is then after the last record.
func (s *State) At(c *Cursor, rank uint64) bool {
	offset, ok := s.LeafAt(&c.path, rank)
	if !ok {
		s.Last(c)
		c.at = c.n
		return false
	}
	c.enter(int(offset))
	return true
}

// SeekGE moves c to the first record that is not before the probe. It returns false if there is none; c is then after
// the last record.
func (s *State) SeekGE(c *Cursor, p Probe) bool { return s.seekCursor(c, &p, false) }

// seekGT moves c to the first record after the probe. It returns false if there is none; c is then after the last
// record.
//
// Proof: only the tests of records call it, to seek to both sides of a record.
func (s *State) seekGT(c *Cursor, p Probe) bool { return s.seekCursor(c, &p, true) }

// Find moves c to the record at the probe. If there is none, it moves c to the first record after the probe and returns
// false.
func (s *State) Find(c *Cursor, p Probe) bool {
	if !s.seekCursor(c, &p, false) {
		return false
	}
	r := c.Record()
	return p.compare(r[0], r[1]) == 0
}

func (s *State) seekCursor(c *Cursor, p *Probe, after bool) bool {
	s.locate(c, p, after)
	return c.at < c.n || c.roll()
}

// locate is seekCursor without moving to the next leaf. It leaves c at the place where a record at the probe would be
// inserted.
func (s *State) locate(c *Cursor, p *Probe, after bool) {
	s.seek(&c.path, p)
	if c.path.leaf == 0 {
		c.at, c.n = 0, 0
		return
	}
	for at := memory.Ref(3 * 64); at < leafMax*3/4; at += 3 * 64 { // where the first steps of the search look
		memory.PrefetchRef(c.path.leaf + at)
	}
	l := leafAt(c.path.leaf)
	c.at, c.n = l.find(p, after), int(l.n)
}
