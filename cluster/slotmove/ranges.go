package slotmove

import (
	"strconv"

	"spindle/engine/command"
	"spindle/internal/slots"
)

// A span is a run of slots, both ends included.
type span struct{ first, last uint16 }

// ranges are spans that do not overlap, in the order in which they were given.
type ranges []span

// String is the ranges in replies and log lines.
func (r ranges) String() string {
	var b []byte
	for i, s := range r {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendUint(b, uint64(s.first), 10)
		b = append(b, '-')
		b = strconv.AppendUint(b, uint64(s.last), 10)
	}
	return string(b)
}

func (r ranges) has(slot uint16) bool {
	for _, s := range r {
		if s.first <= slot && slot <= s.last {
			return true
		}
	}
	return false
}

// overlap reports whether both have a slot.
func (r ranges) overlap(other ranges) bool {
	for _, a := range r {
		for _, b := range other {
			if a.first <= b.last && b.first <= a.last {
				return true
			}
		}
	}
	return false
}

// list returns the slots.
func (r ranges) list() (list []uint16) {
	for _, s := range r {
		for slot := int(s.first); slot <= int(s.last); slot++ {
			list = append(list, uint16(slot))
		}
	}
	return list
}

// parseSlot reads a slot.
func parseSlot(arg []byte) (uint16, error) {
	n, err := command.Int(arg)
	if err != nil || n < 0 || n >= slots.Count {
		return 0, errSlot
	}
	return uint16(n), nil
}

// parseRanges reads ranges up to the first argument that is no number. owner is the one node that owns all of them.
func (m *Mover) parseRanges(args [][]byte) (r ranges, owner string, rest [][]byte, err error) {
	for ; len(args) > 0; args = args[2:] {
		if _, err := command.Int(args[0]); err != nil {
			break
		}
		first, err := parseSlot(args[0])
		if err != nil {
			return nil, "", nil, err
		}
		if len(args) < 2 {
			return nil, "", nil, errNoEnd
		}
		last, err := parseSlot(args[1])
		if err != nil {
			return nil, "", nil, err
		}
		if first > last {
			return nil, "", nil, errOrder(first, last)
		}
		for slot := int(first); slot <= int(last); slot++ {
			switch of := m.parts.Cluster.Owner(uint16(slot)); {
			case of == "":
				return nil, "", nil, errUnserved(slot)
			case owner == "":
				owner = of
			case of != owner:
				return nil, "", nil, errSpans
			}
		}
		for _, before := range r {
			if (ranges{before}).overlap(ranges{{first, last}}) {
				return nil, "", nil, errOverlap(span{first, last}, before)
			}
		}
		r = append(r, span{first, last})
	}
	if len(r) == 0 {
		return nil, "", nil, errNoRanges
	}
	return r, owner, args, nil
}
