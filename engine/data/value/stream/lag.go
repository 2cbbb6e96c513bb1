package stream

// A group's count of read entries includes all entries from the first one ever added. The count stays exact as long as
// no single entry ahead of the group was deleted. Deletions leave gaps, of which only the last is known.

// Gaps reports whether single entries at or after from may have been deleted.
func (s Stream) Gaps(from ID) bool {
	r := s.r
	if s.Len() == 0 || r.maxDeleted == (ID{}) || r.maxDeleted.Less(r.first) {
		return false
	}
	return !r.maxDeleted.Less(from)
}

// Distance returns how many entries up to id were ever added, or ReadUnknown.
func (s Stream) Distance(id ID) int64 {
	r := s.r
	added, length := int64(r.added), int64(s.Len())
	switch cmp := id.Compare(r.last); {
	case added == 0:
		return 0
	case length == 0 && cmp <= 0, cmp == 0:
		return added
	case cmp > 0:
		return ReadUnknown
	}
	if r.maxDeleted == (ID{}) || r.maxDeleted.Less(r.first) {
		switch cmp := id.Compare(r.first); {
		case cmp < 0:
			return added - length
		case cmp == 0:
			return added - length + 1
		}
	}
	return ReadUnknown
}

// Lag returns how many entries g has yet to read. It returns false if that is unknown.
func (s Stream) Lag(g *Group) (lag int64, ok bool) {
	added := int64(s.r.added)
	if added == 0 || s.Len() == 0 {
		return 0, true
	}
	if s.r.maxDeleted.Less(s.r.first) && g.last.Less(s.r.first) { // all remaining entries are ahead of the group
		return int64(s.Len()), true
	}
	if g.read != ReadUnknown && !s.Gaps(g.last) {
		return added - g.read, true
	}
	if read := s.Distance(g.last); read != ReadUnknown {
		return added - read, true
	}
	return 0, false
}

// Advance records that g has delivered the entry with id, which is after all entries that it has delivered before. g
// must come from Writer.Group. The count of read entries stays known if no entry between the two was deleted or
// trimmed.
func (w *Writer) Advance(g *Group, id ID) {
	if g.read != ReadUnknown && !g.last.Less(w.r.first) && !w.Gaps(g.last) {
		g.read++
	} else if w.r.added > 0 {
		g.read = w.Distance(id)
	}
	g.last = id
}
