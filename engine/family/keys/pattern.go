package keys

import (
	"bytes"
	"unsafe"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/hash"
	"spindle/internal/number"
)

// A pattern leads from an element to a value. "weight_*" leads to the string at that key, "object_*->name" to a field
// of that hash, "#" to the element. A pattern without a star leads to nothing.
type pattern struct {
	self          bool
	starred       bool
	before, after []byte // the parts of the key around the star
	field         []byte // nil if the key holds a string
}

var arrow = []byte("->")

// patternOf parses a pattern. As in Redis, the search for a star and an arrow ends at a NUL.
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

// clone copies the bytes of a pattern.
func (p pattern) clone() pattern {
	p.before, p.after = bytes.Clone(p.before), bytes.Clone(p.after)
	if p.field != nil {
		p.field = append([]byte{}, p.field...)
	}
	return p
}

// A place is where SORT reads and replies: in the turn, or outside the turn.
type place struct {
	*command.Reading
	c       *command.Context             // nil outside the turn
	present func(key []byte) value.Value // outside the turn
}

// lookup finds a key. In the turn it removes an expired key and publishes a miss. In both places it counts a miss.
func (at *place) lookup(key []byte) value.Value {
	if at.c != nil {
		v := at.c.DB.Lookup(key)
		if !v.Exists() {
			at.c.Notify(command.EventKeyMiss, "keymiss", key)
		}
		return v
	}
	v := at.present(key)
	if v.Exists() {
		at.Hits++
	} else {
		at.Misses++
	}
	return v
}

// A finder follows patterns. It holds the buffers for that.
type finder struct {
	key, text []byte
	digits    [number.MaxIntLen]byte
	made      bool // the last find's result is in these buffers
}

// find follows p from element. found is false if p leads to no value. Each key is looked up for reading: in the turn an
// expired key or field is removed.
//
// Lifetime: in place, or until the next find.
func (f *finder) find(at *place, p *pattern, element []byte) (text []byte, found bool) {
	f.made = false
	if p.self {
		return element, true
	}
	if !p.starred {
		return nil, false
	}
	f.key = append(append(append(f.key[:0], p.before...), element...), p.after...)
	v := at.lookup(f.key)
	switch {
	case !v.Exists():
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
	c := at.c
	if found && deadline != 0 && deadline < at.Now && (c == nil || !c.Space.Trusting) {
		if c != nil && !c.Space.Replica && !c.Space.Hiding {
			lapse(c, f.key, p.field)
		}
		return nil, false
	}
	f.made = val.IsInt
	return val.Text(f.digits[:]), found
}

// lapse removes a field past its deadline, as every reading command does. Earlier results stay valid, because different
// elements lead to different keys.
func lapse(c *command.Context, key, field []byte) {
	e := c.DB.Edit(key)
	c.Space.Stats.ExpiredFields++
	if c.Space.Hooks.FieldExpired != nil {
		c.Space.Hooks.FieldExpired(c.DB.Index(), key, field)
	}
	c.Name(&c.Lapsed, field)
	hash.Delete(e, field)
	emptied := hash.Len(e.Value()) == 0
	if emptied {
		c.DB.Remove(e)
	} else {
		c.DB.SetFieldsDeadline(key, hash.Least(e.Value()))
		c.DB.Touched(key)
	}
	c.NotifyNamed(command.EventHash, "hexpired", key, &c.Lapsed)
	if emptied {
		c.Notify(command.EventGeneric, "del", key)
	}
}

// bytesOf returns s as bytes, which must not be written.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// textOf returns b as a string, which is valid as long as b.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
