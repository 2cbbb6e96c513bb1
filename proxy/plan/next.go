package plan

import (
	"spindle/proxy/store"
)

// A Deed is the kind of the next step of a move over groups.
type Deed int

const (
	Finished Deed = iota // nothing is left to do
	Begin                // Table.Prepare
	Switch               // Table.Migrate, after every proxy has confirmed
	Carry                // move the keys from Source to Target, then Table.Finish
	Return               // Table.Abandon
)

// An Action is a deed for slots with the same source and target.
type Action struct {
	Deed           Deed
	Slots          []int
	Source, Target string
}

// Next returns the next action of a move, computed from the table alone. So a move continues after a crash in any of
// its states. Slots that are under way are completed first, even if another move has begun them. At most batch slots
// begin at once.
func Next(t Table, m *store.Move, batch int) Action {
	if a := t.underway(store.Migrating); a.Slots != nil {
		a.Deed = Carry
		return a
	}
	runs := m != nil && m.State == store.MoveRunning
	if a := t.underway(store.Prepare); a.Slots != nil {
		if a.Deed = Switch; !runs {
			a.Deed = Return // proxies hold requests for these slots back, which must not last
		}
		return a
	}
	if !runs {
		return Action{}
	}
	for _, s := range m.Steps {
		a := Action{Deed: Begin, Source: s.Source, Target: s.Target}
		for slot := s.From; slot <= s.To && slot < len(t) && len(a.Slots) < batch; slot++ {
			if t[slot] == (Cell{Group: s.Source}) {
				a.Slots = append(a.Slots, slot)
			}
		}
		if a.Slots != nil {
			return a
		}
	}
	return Action{}
}

// underway returns the slots in a state with the same source and target as the first such slot.
func (t Table) underway(state string) (a Action) {
	for slot, c := range t {
		if c.State != state {
			continue
		}
		if a.Slots == nil {
			a.Source, a.Target = c.Group, c.Target
		}
		if a.Source == c.Group && a.Target == c.Target {
			a.Slots = append(a.Slots, slot)
		}
	}
	return a
}

// Done counts the slots of a move that have arrived at their targets, and all its slots. left counts the slots that can
// no longer arrive, because another group has them.
func Done(t Table, m *store.Move) (done, all, left int) {
	for _, s := range m.Steps {
		for slot := s.From; slot <= s.To && slot < len(t); slot++ {
			all++
			switch c := t[slot]; {
			case c == (Cell{Group: s.Target}):
				done++
			case c.State == "" && c.Group != s.Source:
				left++
			}
		}
	}
	return done, all, left
}

// Waiting returns the IDs of the proxies that have not confirmed a revision.
func Waiting(proxies []store.Proxy, revision int64) (ids []string) {
	for _, p := range proxies {
		if p.Confirmed < revision {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
