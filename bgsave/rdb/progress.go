package rdb

import "spindle/internal/invariant"

// A progress is how far the loops within a record came before the bytes ended, so that they go on from there when the
// record is begun again: else a long value that comes in many pieces would be stepped through from its first element
// for each of them.
//
// rdb.P1. marks[d] with d < marked is of the loops of depth d within the element at which the loop of depth d-1
// stopped.
// rdb.P2. Places count from the record's first byte, so that they hold when the bytes have moved.
type progress struct {
	record  int64 // the record's place in the stream
	from    int   // and in the cursor's bytes
	depth   int   // of the loop that runs: 0 outside of any
	begun   [loopDepth + 1]int
	marks   [loopDepth]loopMark
	marked  int // so many depths of marks has the last try left
	resumes int // so many of them say where the element that is being read goes on
}

// A loopMark is how far the loops of one depth came within their element.
type loopMark struct {
	nth  int    // which of them is not done
	at   int    // where its unfinished element begins
	left uint64 // elements to go, that one included
	ends [loopWidth]int
}

// The deepest record is a stream: groups of consumers of pending entries. Nowhere are more than two loops beside each
// other.
const (
	loopDepth = 3
	loopWidth = 2
)

// enter begins the record at c.i, whose place in the stream is record, or begins it again.
func (p *progress) enter(c *cursor, record int64) {
	if p.resumes = p.marked; p.record != record {
		p.resumes = 0
	}
	p.record, p.from, p.marked, p.depth, p.begun[0] = record, c.i, 0, 0, 0
}

// repeat is cursor.repeat.
func (p *progress) repeat(c *cursor, n uint64, step func() error) error {
	depth := p.depth
	invariant.That(depth < loopDepth && p.begun[depth] < loopWidth,
		"a loop of depth %d, %d beside each other", depth, p.begun[depth])
	if depth >= loopDepth || p.begun[depth] >= loopWidth { // no progress is kept of it, nor of those within
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
		p.resumes = min(p.resumes, depth+1) // the marks within it are another element's
	}
	m.ends[nth] = c.i - p.from
	return nil
}
