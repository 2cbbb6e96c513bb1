package set

import (
	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// probesAhead is how many members are looked up at a time, so that their cache misses overlap.
const probesAhead = 16

// A probe is a member that is looked up in other sets.
type probe struct {
	e    Element
	text []byte
	hash uint64
	room [number.MaxIntLen]byte
}

// Filter yields, in order, the members of r that are in all of others (in), or in none of them (not in). If yield
// returns false, Filter stops and returns false. passed, if not nil, is called with the number of members looked at
// since its last call.
//
// Cost: a lookup for each member in each set, in the order of others, until one decides. A hashtable yields members in
// the order of their hashes, as in the other hashtables. So their indexes are read from one end to the other.
func (r *Reader) Filter(others []Reader, in bool, passed func(members int), yield func(Element) bool) bool {
	hashed := false
	for i := range others {
		hashed = hashed || others[i].members != nil
	}
	var batch [probesAhead]probe
	n := 0
	flush := func() bool {
		live := batch[:n]
		if passed != nil {
			passed(n)
		}
		n = 0
		for i := range others {
			if live = others[i].narrow(live, in); len(live) == 0 {
				return true
			}
		}
		for i := range live {
			if !yield(live[i].e) {
				return false
			}
		}
		return true
	}
	if !r.All(func(e Element) bool {
		p := &batch[n]
		p.e = e
		if n++; hashed {
			p.text = e.Text(p.room[:])
			p.hash = table.Hash(p.text)
		}
		return n < probesAhead || flush()
	}) {
		return false
	}
	return flush()
}

// narrow moves the probes that are in r (or, without in, those that are not) to the front and returns them.
func (r *Reader) narrow(probes []probe, in bool) []probe {
	kept := 0
	if r.members == nil {
		for i := range probes {
			if r.has(&probes[i]) == in {
				move(probes, i, kept)
				kept++
			}
		}
		return probes[:kept]
	}
	t := table.Open(nil, table.Member, r.members, false)
	for i := range probes {
		t.Touch(probes[i].hash)
	}
	for i := range probes {
		t.TouchBlock(probes[i].hash)
	}
	for i := range probes {
		if _, ref := t.Find(probes[i].hash, probes[i].text); (ref != 0) == in {
			move(probes, i, kept)
			kept++
		}
	}
	return probes[:kept]
}

// move copies probe i over probe to, including the text of an integer.
func move(probes []probe, i, to int) {
	if i == to {
		return
	}
	from, p := &probes[i], &probes[to]
	p.e, p.hash, p.text = from.e, from.hash, from.text
	if from.e.IsInt {
		p.room = from.room
		p.text = p.room[:len(from.text)]
	}
}

// has is Contains for a probe, in a packed set.
func (r *Reader) has(p *probe) bool {
	switch {
	case r.packed == nil:
		return false
	case r.enc == value.IntSet:
		n, ok := p.e.Integer()
		return ok && intset.Contains(r.packed, n)
	}
	var room [number.MaxIntLen]byte
	return listpack.Find(r.packed, listpack.First(r.packed), p.e.Text(room[:]), 0) != 0
}
