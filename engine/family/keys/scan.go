package keys

import (
	"bytes"
	"math"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/glob"
	"spindle/internal/slots"
	"spindle/protocol"
)

// keys is KEYS pattern. Replies: an array of all matching keys, in no order.
//
// Cost: in proportion to the database, or to the slot of the pattern's hash tag. A literal key costs one lookup.
func keys(c *command.Context) error {
	pattern := c.Args[1]
	if glob.IsLiteral(pattern) {
		if !c.DB.Peek(pattern).Exists() {
			c.Reply.Array(0)
			return nil
		}
		c.Reply.Array(1)
		c.Reply.Bulk(pattern)
		return nil
	}
	n, all := c.DB.Len(), c.DB.Present()
	if c.Space.BySlot() && !isEverything(pattern) {
		if slot, one := slots.OfPattern(pattern); one {
			n, all = c.DB.InSlot(slot), c.DB.PresentInSlot(slot)
		}
	}
	past := c.Now // deadlines before it have passed
	if c.Space.Trusting {
		past = math.MinInt64
	}
	if c.IsLong(n) {
		return c.ReadBeside(func(r *command.Reading) error {
			answerKeys(r, all, past)
			return nil
		})
	}
	answerKeys(c.Inline(), all, past)
	return nil
}

// answerKeys replies the keys in all that match KEYS's pattern and have no deadline before past.
func answerKeys(r *command.Reading, all func(func(value.Value) bool), past int64) {
	pattern := r.Args[1]
	everything := isEverything(pattern)
	mark, n := r.Reply.Mark(), 0
	for v := range all {
		r.Step()
		key := v.Key()
		if !everything && !glob.Match(pattern, key) {
			continue
		}
		if d := v.Deadline(); d == 0 || d >= past {
			r.Reply.Bulk(key)
			n++
		}
	}
	r.Reply.ArrayAt(mark, n)
}

func isEverything(pattern []byte) bool { return len(pattern) == 1 && pattern[0] == '*' }

// pastDeadline reports whether v is expired for clients, but not yet removed.
func pastDeadline(c *command.Context, v value.Value) bool {
	d := v.Deadline()
	return d != 0 && c.Now > d && !c.Space.Trusting
}

// scan is SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]. It removes the expired keys that it visits, but a long
// read only leaves them out.
//
// Replies: the next cursor, 0 at the end, and an array of keys.
// Errors: "invalid cursor", ErrSyntax, ErrNotInteger, and an error for NOVALUES.
func scan(c *command.Context) error {
	cursor, ok := command.ParseCursor(c.Args[1])
	if !ok {
		return command.ErrCursor
	}
	o := scanOptions{count: 10}
	if err := o.parse(c.Args[2:]); err != nil {
		return err
	}
	return answerScan(c, cursor, o)
}

func answerScan(c *command.Context, cursor uint64, o scanOptions) error {
	slot, inSlot := uint16(0), false
	if c.Space.BySlot() && o.pattern != nil {
		slot, inSlot = slots.OfPattern(o.pattern)
	}
	past := c.Now // deadlines before it have passed
	if c.Space.Trusting {
		past = math.MinInt64
	}
	keys := c.DB.Len()
	if inSlot {
		keys = c.DB.InSlot(slot)
	}
	if c.IsLong(int(min(o.count, int64(keys)))) {
		own, walk := o.own(), c.DB.ScanPresent()
		if inSlot {
			walk = c.DB.ScanPresentInSlot(slot)
		}
		return c.ReadBeside(func(r *command.Reading) error {
			replyScan(r, walk, cursor, own, past, nil)
			return nil
		})
	}
	walk := c.DB.Scan
	if inSlot {
		walk = func(cursor uint64, count int, yield func(value.Value)) uint64 {
			return c.DB.ScanSlot(slot, cursor, count, yield)
		}
	}
	var gone [][]byte // copies, because removing one key may move another one
	replyScan(c.Inline(), walk, cursor, o, past, func(key []byte) { gone = append(gone, bytes.Clone(key)) })
	for _, key := range gone {
		c.DB.LookupWrite(key)
	}
	return nil
}

// replyScan replies the keys that walk finds, starting at cursor. It passes the keys with a deadline before past to
// gone, unless that is nil.
func replyScan(r *command.Reading, walk func(cursor uint64, count int, yield func(value.Value)) uint64, cursor uint64,
	o scanOptions, past int64, gone func(key []byte)) {
	var found []value.Value
	cursor = walk(cursor, int(min(o.count, math.MaxInt32)), func(v value.Value) {
		r.Step()
		switch d := v.Deadline(); {
		case o.pattern != nil && !glob.Match(o.pattern, v.Key()):
		case d != 0 && d < past:
			if gone != nil {
				gone(v.Key())
			}
		case o.typed && v.TypeName() != o.onlyType:
		default:
			found = command.Collect(r, found, v)
		}
	})
	r.AnswerScan(cursor, len(found))
	for _, v := range found {
		r.Reply.Bulk(v.Key())
	}
}

type scanOptions struct {
	count    int64
	pattern  []byte // nil matches everything
	typed    bool
	onlyType string // "" if the name is no type's
}

// own returns the options in memory that outlives the call.
func (o scanOptions) own() scanOptions {
	o.pattern = bytes.Clone(o.pattern)
	return o
}

func (o *scanOptions) parse(args [][]byte) (err error) {
	for i := 0; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case command.Is(args[i], "COUNT") && more:
			i++
			if o.count, err = command.Int(args[i]); err != nil {
				return err
			}
			if o.count < 1 {
				return protocol.ErrSyntax
			}
		case command.Is(args[i], "MATCH") && more:
			i++
			o.pattern = args[i]
			if isEverything(o.pattern) {
				o.pattern = nil
			}
		case command.Is(args[i], "TYPE") && more:
			i++
			o.typed, o.onlyType = true, typeNamed(args[i])
		case command.Is(args[i], "NOVALUES"):
			return command.ErrNoValues
		default:
			return protocol.ErrSyntax
		}
	}
	return nil
}

// typeNamed returns the type called name, in any case. It returns "" if there is none.
func typeNamed(name []byte) string {
	for _, t := range [...]struct{ word, name string }{
		{"STRING", "string"}, {"LIST", "list"}, {"SET", "set"}, {"ZSET", "zset"}, {"HASH", "hash"}, {"STREAM", "stream"},
		{"MBBLOOM--", value.BloomName},
	} {
		if command.Is(name, t.word) {
			return t.name
		}
	}
	return ""
}

// randomKey is RANDOMKEY. Replies: a random key, or null if the database is empty.
func randomKey(c *command.Context) error {
	for tries := 0; ; tries++ {
		v := c.DB.Random()
		if !v.Exists() {
			c.Reply.Null()
			return nil
		}
		if !pastDeadline(c, v) || ((c.Space.Replica || c.Space.Hiding) && tries == triesAmongExpired) {
			c.Reply.Bulk(v.Key())
			return nil
		}
		c.DB.LookupWrite(append([]byte(nil), v.Key()...))
	}
}

// triesAmongExpired bounds the search where expired keys may not be removed, because all keys may be expired.
const triesAmongExpired = 100
