package plan

import (
	"fmt"

	"spindle/proxy/store"
)

// A Cell is one slot of a table.
type Cell struct {
	Group  string // "" means none
	State  string // "", store.Prepare or store.Migrating
	Target string // the target, in the latter two states
}

// A Table is the list of all slots of a product over groups.
//
// plan.T1. A slot's states are online → prepare → migrating → online at the target. From prepare it may also go back.
// plan.T2. A slot goes from prepare to migrating only after every registered proxy has confirmed a table with the slot
// in prepare.
type Table []Cell

// NewTable expands the ranges of a valid entry.
func NewTable(s *store.Slots) Table {
	t := make(Table, s.Slots)
	for _, r := range s.Ranges {
		for slot := r.From; slot <= r.To; slot++ {
			t[slot] = Cell{r.Group, r.State, r.Target}
		}
	}
	return t
}

// Entry joins equal neighbouring slots to ranges.
func (t Table) Entry() *store.Slots {
	s := &store.Slots{Slots: len(t), Ranges: []store.Range{}}
	for slot, c := range t {
		if c.Group == "" {
			continue
		}
		if n := len(s.Ranges); n > 0 {
			last := &s.Ranges[n-1]
			if last.To == slot-1 && c == (Cell{last.Group, last.State, last.Target}) {
				last.To = slot
				continue
			}
		}
		s.Ranges = append(s.Ranges, store.Range{From: slot, To: slot, Group: c.Group, State: c.State, Target: c.Target})
	}
	return s
}

// Owners returns the group of each slot. While a slot migrates, this is the target.
func (t Table) Owners() []string {
	owners := make([]string, len(t))
	for slot, c := range t {
		owners[slot] = c.Group
		if c.State == store.Migrating {
			owners[slot] = c.Target
		}
	}
	return owners
}

// Uses reports whether a slot belongs to a group or is moving to it.
func (t Table) Uses(group string) bool {
	for _, c := range t {
		if c.Group == group || c.Target == group {
			return true
		}
	}
	return false
}

// Prepare begins the move of slots that are online (plan.T1).
func (t Table) Prepare(slots []int, target string) error {
	for _, slot := range slots {
		if c := t[slot]; c.State != "" || c.Group == "" || c.Group == target {
			return fmt.Errorf("slot %d cannot be prepared: it is %+v", slot, c)
		}
		t[slot].State, t[slot].Target = store.Prepare, target
	}
	return nil
}

// Migrate makes the target serve prepared slots (plan.T2).
func (t Table) Migrate(slots []int) error { return t.pass(slots, store.Prepare, store.Migrating) }

// Finish gives migrating slots to their target. Their source must have no more keys of them.
func (t Table) Finish(slots []int) error {
	for _, slot := range slots {
		if t[slot].State != store.Migrating {
			return fmt.Errorf("slot %d cannot be finished: it is %+v", slot, t[slot])
		}
		t[slot] = Cell{Group: t[slot].Target}
	}
	return nil
}

// Abandon returns prepared slots to the state online at their group.
func (t Table) Abandon(slots []int) error {
	for _, slot := range slots {
		if t[slot].State != store.Prepare {
			return fmt.Errorf("slot %d cannot be abandoned: it is %+v", slot, t[slot])
		}
		t[slot] = Cell{Group: t[slot].Group}
	}
	return nil
}

func (t Table) pass(slots []int, from, to string) error {
	for _, slot := range slots {
		if t[slot].State != from {
			return fmt.Errorf("slot %d cannot go to %s: it is %+v", slot, to, t[slot])
		}
		t[slot].State = to
	}
	return nil
}

// Assign assigns slots without a group to a group.
func (t Table) Assign(from, to int, group string) error {
	if from < 0 || to < from || to >= len(t) {
		return fmt.Errorf("slots %d to %d are out of bounds", from, to)
	}
	for slot := from; slot <= to; slot++ {
		if t[slot].Group != "" {
			return fmt.Errorf("slot %d belongs to %s already: move it", slot, t[slot].Group)
		}
		t[slot] = Cell{Group: group}
	}
	return nil
}
