package stream

// Oldest returns a time, in Unix ms, before which no pending entry was delivered.
func (g *Group) Oldest() int64 { return g.oldest }

// Idle appends to into the pending entries that were last delivered at the time before or earlier. It appends at most
// most of them, those idle longest first. Entries with equal times are in the order of their IDs. g must come from
// Writer.Group.
//
// Cost: O(1) if no entry has been idle that long, otherwise O(pending × log most). Afterwards Oldest is exact.
func (w *Writer) Idle(g *Group, before int64, most int, into []Pending) []Pending {
	if before < g.oldest || most == 0 {
		return into
	}
	start := len(into)
	oldest := int64(maxTime)
	var cur PendingCursor
	var p Pending
	for g.From(&cur, ID{}); cur.Next(&p); {
		oldest = min(oldest, p.Time)
		switch found := into[start:]; {
		case p.Time > before:
		case len(found) < most:
			into = append(into, p)
			lift(into[start:])
		case p.Time < found[0].Time: // an equal time has a later ID
			found[0] = p
			sink(found)
		}
	}
	g.oldest = oldest
	found := into[start:]
	for n := len(found) - 1; n > 0; n-- {
		found[0], found[n] = found[n], found[0]
		sink(found[:n])
	}
	return into
}

// later reports whether p became idle after o.
func (p *Pending) later(o *Pending) bool {
	return p.Time > o.Time || p.Time == o.Time && o.ID.Less(p.ID)
}

// lift moves the last element of a heap to its place. The heap has the latest element at the top.
func lift(h []Pending) {
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].later(&h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// sink moves the first element of a heap to its place.
func sink(h []Pending) {
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(h) {
			return
		}
		if down+1 < len(h) && h[down+1].later(&h[down]) {
			down++
		}
		if !h[down].later(&h[i]) {
			return
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}
