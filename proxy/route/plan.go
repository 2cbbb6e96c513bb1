package route

import (
	"bytes"

	"spindle/internal/ascii"
	"spindle/internal/slots"
	"spindle/protocol"
)

// A Plan says where one call is sent. The next call of Table.Plan reuses its memory.
type Plan struct {
	Row      *Row  // nil for an unknown command
	Class    Class // Refused if and only if Err is not nil
	Special  Special
	Slot     int             // the slot of the call's keys; -1 without keys, and if Class is Split
	KeyCount int             // number of keys; a key named twice counts twice
	Blocks   bool            // the call may wait for data, so Class is Pinned
	Err      *protocol.Error // the reply to the client

	// Detours are the caller's. They hold for all keys of later calls, but not for channels.
	Detours []Detour

	keySlots []uint16 // for a Split: the slot of each key
	step     int      // for a Split: the number of arguments per key
	scratch  []int
	groups   grouping
}

// A Detour sends the keys that begin with Prefix to Slot, which is none of the Hasher's. Of several, the first counts.
type Detour struct {
	Prefix []byte
	Slot   int
}

// slotOf returns the slot of a key.
func (t *Table) slotOf(key []byte, detours []Detour) int {
	for i := range detours {
		if bytes.HasPrefix(key, detours[i].Prefix) {
			return detours[i].Slot
		}
	}
	return t.Hasher.Slot(key)
}

// Plan decides where a call is sent. args has at least the command's name.
//
// Errors: in p.Err: an unknown command, a wrong number of arguments, keys in several slots, a command that the proxy
// does not serve.
// Cost: no allocation, except for errors and for the memory of a Split's first keys (BenchmarkPlan).
func (t *Table) Plan(args [][]byte, p *Plan) {
	row := t.index.find(args[0])
	if row == nil {
		p.fail(nil, unknownCommand(args))
		return
	}
	if row.subs != nil && len(args) > 1 {
		sub := row.subs.find(args[1])
		if sub == nil && row.Class != Local {
			p.fail(row, UnknownSubcommand(args))
			return
		}
		if sub != nil {
			row = sub
		}
	}
	if row.Arity != len(args) && (row.Arity >= 0 || len(args) < -row.Arity) {
		p.fail(row, WrongArity(row))
		return
	}
	p.Row, p.Class, p.Special, p.Slot, p.KeyCount, p.Blocks, p.Err = row, row.Class, row.Special, -1, 0, false, row.refuse
	switch row.shape {
	case oneKey:
		p.Slot, p.KeyCount = t.slotOf(args[1], p.Detours), 1
		p.Blocks = row.Class == Pinned && row.Blocking
	case keyless:
	case splitKeys:
		t.planSplit(args, p)
	default:
		t.planKeys(args, p)
	}
}

// planKeys finds the one slot of all keys.
func (t *Table) planKeys(args [][]byte, p *Plan) {
	row := p.Row
	if row.Class == Refused {
		return
	}
	p.Blocks = row.Class == Pinned && row.Blocking
	detours := p.Detours
	if row.PubSub {
		detours = nil
	}
	if row.shape == streams && !waits(args) {
		p.Class, p.Blocks = Forward, false
	}
	if row.custom != plain {
		p.scratch = t.AppendKeys(p.scratch[:0], row, args)
		for _, at := range p.scratch {
			p.addKey(t.slotOf(args[at], detours))
		}
		if row.custom == customSort && p.Err == nil {
			t.checkSort(args, p)
		}
		return
	}
	for i := range row.keys {
		s := &row.keys[i]
		first, last, f := s.bounds(args)
		if f == badCall {
			break
		}
		for at := first; f == someAre && at <= last; at += s.step {
			p.addKey(t.slotOf(args[at], detours))
		}
	}
}

func (p *Plan) addKey(slot int) {
	p.KeyCount++
	if p.Slot < 0 {
		p.Slot = slot
	} else if slot != p.Slot && p.Err == nil {
		p.Class, p.Err = Refused, errCrossSlot
	}
}

// planSplit finds the slot of each key. If all are in one slot, the call is passed on unchanged.
func (t *Table) planSplit(args [][]byte, p *Plan) {
	s := &p.Row.keys[0]
	first, last, f := s.bounds(args)
	if f != someAre {
		p.Class = Forward
		return
	}
	if (len(args)-first)%s.step != 0 {
		p.fail(p.Row, WrongArity(p.Row))
		return
	}
	p.step, p.keySlots = s.step, p.keySlots[:0]
	p.groups.first = first
	one := true
	for at := first; at <= last; at += s.step {
		slot := t.slotOf(args[at], p.Detours)
		p.keySlots = append(p.keySlots, uint16(slot))
		one = one && slot == int(p.keySlots[0])
	}
	p.KeyCount = len(p.keySlots)
	if one {
		p.Class, p.Slot = Forward, int(p.keySlots[0])
	}
}

// waits reports whether a call of XREAD or XREADGROUP has the option BLOCK.
func waits(args [][]byte) bool {
	for i := 1; i < len(args); {
		switch {
		case ascii.EqualFold(args[i], "block"):
			return true
		case ascii.EqualFold(args[i], "group"):
			i += 3
		case ascii.EqualFold(args[i], "noack"):
			i++
		case ascii.EqualFold(args[i], "streams"):
			return false
		default: // COUNT, and options with a value of later versions
			i += 2
		}
	}
	return false
}

// checkSort refuses BY and GET with patterns whose keys may be in other slots. A server outside a cluster would treat
// such keys as missing.
func (t *Table) checkSort(args [][]byte, p *Plan) {
	for i := 2; i < len(args)-1; i++ {
		switch {
		case ascii.EqualFold(args[i], "limit"):
			i += 2
		case ascii.EqualFold(args[i], "store"):
			i++
		case ascii.EqualFold(args[i], "by"), ascii.EqualFold(args[i], "get"):
			i++
			if !t.patternIn(args[i], p.Slot, p.Detours) {
				p.Class, p.Err = Refused, sortPattern(args[i-1])
				return
			}
		}
	}
}

// patternIn reports whether the keys of a pattern of SORT are in slot. A pattern without an asterisk names no key.
func (t *Table) patternIn(pattern []byte, slot int, detours []Detour) bool {
	begin, _, star := bytes.Cut(pattern, asterisk)
	if !star {
		return true
	}
	for _, d := range detours {
		if bytes.HasPrefix(begin, d.Prefix) {
			return d.Slot == slot
		}
		if bytes.HasPrefix(d.Prefix, begin) { // some of the keys may have the prefix
			return false
		}
	}
	tag := tagOf(pattern)
	if tag == nil {
		return false
	}
	if t.Hasher == Redis {
		return int(slots.Of(tag)) == slot
	}
	return t.Hasher.Slot(tag) == slot
}

var asterisk = []byte{'*'}

// tagOf returns the hash tag of a pattern, or nil if there is none or an asterisk comes before its end.
func tagOf(pattern []byte) []byte {
	open := -1
	for i, c := range pattern {
		switch {
		case c == '*':
			return nil
		case c == '{' && open < 0:
			open = i
		case c == '}' && open >= 0:
			if i == open+1 {
				return nil
			}
			return pattern[open+1 : i]
		}
	}
	return nil
}

func (p *Plan) fail(row *Row, err *protocol.Error) {
	p.Row, p.Class, p.Special, p.Slot, p.KeyCount, p.Blocks, p.Err = row, Refused, None, -1, 0, false, err
}
