package zset

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
	"spindle/protocol"
)

// addOptions are the options before ZADD's scores.
type addOptions struct {
	flags   zset.Flags
	changed bool // CH
}

// parse reads the options and returns the pairs after them.
func (o *addOptions) parse(args [][]byte) (pairs [][]byte, err error) {
	for ; len(args) > 0; args = args[1:] {
		switch word := args[0]; {
		case len(word) > 4: // mostly a score
		case command.Is(word, "NX"):
			o.flags |= zset.OnlyNew
			continue
		case command.Is(word, "XX"):
			o.flags |= zset.OnlyOld
			continue
		case command.Is(word, "GT"):
			o.flags |= zset.OnlyGreater
			continue
		case command.Is(word, "LT"):
			o.flags |= zset.OnlyLess
			continue
		case command.Is(word, "CH"):
			o.changed = true
			continue
		case command.Is(word, "INCR"):
			o.flags |= zset.Increment
			continue
		}
		break
	}
	has := func(f zset.Flags) bool { return o.flags&f == f }
	switch {
	case len(args) == 0 || len(args)%2 != 0:
		return nil, protocol.ErrSyntax
	case has(zset.OnlyNew | zset.OnlyOld):
		return nil, errNewAndOld
	case has(zset.OnlyGreater | zset.OnlyNew), has(zset.OnlyLess | zset.OnlyNew), has(zset.OnlyGreater | zset.OnlyLess):
		return nil, errDirections
	case has(zset.Increment) && len(args) > 2:
		return nil, errOnePair
	}
	return args, nil
}

// add is ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member …].
//
// Replies: the number of new members; with CH, of new and changed members; with INCR the new score, or null if an
// option forbids it.
// Errors: ErrSyntax, ErrNotFloat, ErrWrongType, those of the options, errNaN.
// Propagates as written.
func add(c *command.Context) error { return addTo(c, addOptions{}) }

// incrBy is ZINCRBY key increment member. It is ZADD with INCR, including the options. Propagates as written.
func incrBy(c *command.Context) error { return addTo(c, addOptions{flags: zset.Increment}) }

func addTo(c *command.Context, o addOptions) error {
	pairs, err := o.parse(c.Args[2:])
	if err != nil {
		return err
	}
	first, err := float(pairs[0])
	if err != nil {
		return err
	}
	for i := 2; i < len(pairs); i += 2 { // check all of them before the first is added
		if _, err := float(pairs[i]); err != nil {
			return err
		}
	}
	key, l := c.Args[1], limits(c)
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		if o.flags&zset.OnlyOld != 0 {
			o.reply(c, zset.Refused, 0, 0, 0)
			return nil
		}
		e = create(c, key, len(pairs)/2, len(pairs[1]), l)
	} else if len(pairs)/2 > l.Entries {
		zset.Convert(e)
	}
	var out zset.Outcome
	now, added, updated := first, 0, 0
	for i := 0; i < len(pairs); i += 2 {
		x := first
		if i > 0 {
			x, _ = float(pairs[i])
		}
		switch out, now = zset.Add(e, x, pairs[i+1], o.flags, l); out {
		case zset.Added:
			added++
		case zset.Updated:
			updated++
		case zset.NotANumber:
			return errNaN
		}
	}
	if added+updated > 0 {
		c.Changed(added + updated)
		c.DB.Touched(key)
		if o.flags&zset.Increment != 0 {
			c.Notify(command.EventZSet, "zincr", key)
		} else {
			c.Notify(command.EventZSet, "zadd", key)
		}
	}
	o.reply(c, out, now, added, updated)
	return nil
}

func (o *addOptions) reply(c *command.Context, out zset.Outcome, now float64, added, updated int) {
	switch {
	case o.flags&zset.Increment != 0 && out == zset.Refused:
		c.Reply.Null()
	case o.flags&zset.Increment != 0:
		c.Reply.Double(now)
	case o.changed:
		c.Reply.Int(int64(added + updated))
	default:
		c.Reply.Int(int64(added))
	}
}

// create makes an empty sorted set for n members at key, which does not exist. The first member has bytes bytes.
func create(c *command.Context, key []byte, n, bytes int, l zset.Limits) (e *value.Edit) {
	if n > l.Entries || bytes > l.Value {
		e = c.DB.CreateRoot(key, value.ZSet, value.SkipList, zset.NewBuilder(c.Space.Store(), n).Root())
	} else {
		e = c.DB.Create(key, value.ZSet, value.Listpack, listpack.EmptyLen)
		listpack.AppendEmpty(e.Packed()[:0])
	}
	c.Notify(command.EventNew, "new", key)
	return e
}

// float reads a score.
//
// Errors: ErrNotFloat.
func float(text []byte) (float64, error) {
	if n, ok := number.ParseInt(text); ok && -1<<53 <= n && n <= 1<<53 {
		return float64(n), nil
	}
	if f, ok := number.ParseDouble(text); ok {
		return f, nil
	}
	return 0, protocol.ErrNotFloat
}
