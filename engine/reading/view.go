package reading

import (
	"spindle/engine/data/keyspace"
)

// A View is a frozen view that Jobs of the same moment share. The last Job to leave closes it.
//
// reading.V1. Jobs share a view only if nothing has changed since it was frozen. So each reads the data of its
// command's moment.
type View struct {
	frozen  *keyspace.View
	changes int64
	readers int
}

// holdsAt reports whether nothing has changed since the freeze. changes is the server's count of changes. The heap also
// knows of changes that this count does not include.
func (v *View) holdsAt(changes int64) bool { return v.changes == changes && v.frozen.Untouched() }

// views are the views that Jobs read. Turn only.
type views struct {
	live   []*View // oldest first
	frozen int64   // views frozen so far
}

// join returns the view of this moment. It calls freeze if there is no such view.
func (vs *views) join(changes int64, freeze func() *keyspace.View) *View {
	if n := len(vs.live); n > 0 && vs.live[n-1].holdsAt(changes) {
		vs.live[n-1].readers++
		return vs.live[n-1]
	}
	v := &View{frozen: freeze(), changes: changes, readers: 1}
	vs.live = append(vs.live, v)
	vs.frozen++
	return v
}

// leave removes one reader from v.
func (vs *views) leave(v *View) {
	if v.readers--; v.readers > 0 {
		return
	}
	v.frozen.Close()
	for i, other := range vs.live {
		if other == v {
			vs.live = append(vs.live[:i], vs.live[i+1:]...)
			return
		}
	}
}

// kept returns how many bytes are not yet freed only because of these views, or of older ones.
func (vs *views) kept() (bytes int64) {
	for _, v := range vs.live {
		bytes += v.frozen.Kept()
	}
	return bytes
}
