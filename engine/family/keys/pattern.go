package keys

import (
	"bytes"
	"unsafe"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/hash"
	"spindle/internal/number"
)

// A pattern leads from an element to a value: "weight_*" to the string of that key, "object_*->name" to a field of that
// hash, "#" to the element itself. Without a star it leads nowhere.
type pattern struct {
	self          bool
	starred       bool
	before, after []byte // what stands around the star in the key
	field         []byte // nil: the key holds a string
}

var arrow = []byte("->")

// patternOf reads a pattern. The reference looks for its signs up to a NUL.
func patternOf(text []byte) pattern {
	seen := untilNUL(text)
	star := bytes.IndexByte(seen, '*')
	if star < 0 {
		return pattern{self: len(seen) == 1 && seen[0] == '#'}
	}
	p := pattern{starred: true, before: text[:star], after: text[star+1:]}
	if at := bytes.Index(seen[star+1:], arrow); at >= 0 && star+1+at+2 < len(seen) {
		p.after, p.field = p.after[:at], p.after[at+2:]
	}
	return p
}

func untilNUL(text []byte) []byte {
	if at := bytes.IndexByte(text, 0); at >= 0 {
		return text[:at]
	}
	return text
}

// A finder follows patterns; it is the room that takes.
type finder struct {
	key, text []byte
	digits    [number.MaxIntLen]byte
	made      bool // the last find's answer lies here, until the next
}

// find is what p leads to from element; false if that is nothing. Each key it meets is looked up for reading: what has
// expired is removed, a hash's field too, and a miss is counted and told.
//
// Lifetime: in place, or until the next find.
func (f *finder) find(c *command.Context, p *pattern, element []byte) (text []byte, found bool) {
	f.made = false
	if p.self {
		return element, true
	}
	if !p.starred {
		return nil, false
	}
	f.key = append(append(append(f.key[:0], p.before...), element...), p.after...)
	v := c.DB.Lookup(f.key)
	switch {
	case !v.Exists():
		c.Notify(command.EventKeyMiss, "keymiss", f.key)
		return nil, false
	case p.field == nil:
		if v.Type() != value.String {
			return nil, false
		}
		if b, ok := v.Contiguous(); ok {
			return b, true
		}
		f.text = v.AppendTo(f.text[:0])
		f.made = true
		return f.text, true
	case v.Type() != value.Hash:
		return nil, false
	}
	val, deadline, found := hash.Get(v, p.field)
	if found && deadline != 0 && deadline < c.Now && !c.Space.Trusting {
		if !c.Space.Replica && !c.Space.Hiding {
			lapse(c, f.key, p.field)
		}
		return nil, false
	}
	f.made = val.IsInt
	return val.Text(f.digits[:]), found
}

// lapse removes a field past its deadline, as every command does that reads it. What was found before holds: it lies in
// other keys, for the keys that a pattern makes of different elements are different.
func lapse(c *command.Context, key, field []byte) {
	e := c.DB.Edit(key)
	c.Space.Stats.ExpiredFields++
	if c.Space.Hooks.FieldExpired != nil {
		c.Space.Hooks.FieldExpired(c.DB.Index(), key, field)
	}
	hash.Delete(e, field)
	emptied := hash.Len(e.Value()) == 0
	if emptied {
		c.DB.Remove(e)
	} else {
		c.DB.SetFieldsDeadline(key, hash.Least(e.Value()))
		c.DB.Touched(key)
	}
	c.Notify(command.EventHash, "hexpired", key)
	if emptied {
		c.Notify(command.EventGeneric, "del", key)
	}
}

// bytesOf is s as bytes, which nobody may write to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// textOf is b as a string, good as long as b.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
