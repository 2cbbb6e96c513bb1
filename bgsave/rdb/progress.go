package rdb

import "spindle/internal/invariant"

// A progress remembers how far the loops of an unfinished record have come. When more bytes have arrived, the record is
// read again and its loops resume there. Otherwise each new piece of a long value would be scanned from its first
// element.
//
// rdb.P1. marks[d], for d < marked, belongs to the loops of depth d. They are inside the element at which the loop of
// depth d-1 stopped.
// rdb.P2. Offsets count from the record's first byte, so that they stay right when the bytes move.
type progress struct {
	record  int64 // the record's offset in the stream
	from    int   // the same offset in the cursor's bytes
	depth   int   // of the running loop; 0: no loop runs
	begun   [loopDepth + 1]int
	marks   [loopDepth]loopMark
	marked  int // how many depths of marks the last try has set
	resumes int // how many of them resume the element that is being read
}

// A loopMark records how far the loops of one depth have come within their element.
type loopMark struct {
	nth  int    // which of the depth's loops is unfinished
	at   int    // where its unfinished element begins
	left uint64 // elements left, with that one
	ends [loopWidth]int
}

// The deepest record is a stream: groups, their consumers, and the consumers' pending entries. No element has more than
// three consecutive loops.
const (
	loopDepth = 3
	loopWidth = 3
)

// enter begins a record at c.i, or reads it again. record is its offset in the stream.
func (p *progress) enter(c *cursor, record int64) {
	if p.resumes = p.marked; p.record != record {
		p.resumes = 0
	}
	p.record, p.from, p.marked, p.depth, p.begun[0] = record, c.i, 0, 0, 0
}

func (p *progress) repeat(c *cursor, n uint64, step func() error) error {
	depth := p.depth
	invariant.That(depth < loopDepth && p.begun[depth] < loopWidth,
		"a loop of depth %d, %d beside each other", depth, p.begun[depth])
	if depth >= loopDepth || p.begun[depth] >= loopWidth { // keep no progress for it and for the loops inside it
		p.depth = loopDepth
		err := c.loop(n, step)
		p.depth = depth
		return err
	}
	nth, m := p.begun[depth], &p.marks[depth]
	p.begun[depth]++
	if depth < p.resumes {
		switch {
		case nth < m.nth:
			c.i = p.from + m.ends[nth]
			return nil
		case nth == m.nth:
			c.i, n = p.from+m.at, m.left
		}
	}
	for ; n > 0; n-- {
		at := c.i
		p.depth, p.begun[depth+1] = depth+1, 0
		err := step()
		p.depth = depth
		if err == errLast {
			break
		}
		if err == errShort {
			m.nth, m.at, m.left = nth, at-p.from, n
			p.marked = max(p.marked, depth+1)
		}
		if err != nil {
			return err
		}
		p.resumes = min(p.resumes, depth+1) // the deeper marks belong to another element
	}
	m.ends[nth] = c.i - p.from
	return nil
}
