package list

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
	"spindle/protocol"
)

// lPop is LPOP key [count].
//
// Replies: the element, or null for a missing key. With count: an array of up to count elements, or a null array.
// Errors: ErrWrongType, ErrNotInteger, "value is out of range, must be positive".
// Propagates as written.
func lPop(c *command.Context) error { return pop(c, list.Head) }

// rPop is RPOP key [count]; see lPop.
func rPop(c *command.Context) error { return pop(c, list.Tail) }

func pop(c *command.Context, end list.End) error {
	key, n := c.Args[1], int64(-1)
	switch {
	case len(c.Args) > 3:
		return command.ErrArity(c.Spec)
	case len(c.Args) == 3:
		var err error
		if n, err = command.Int(c.Args[2]); err != nil || n < 0 {
			return errNotPositive
		}
	}
	e, err := edit(c, key)
	switch {
	case err != nil:
		return err
	case e == nil && n < 0:
		c.Reply.Null()
	case e == nil:
		c.Reply.NullArray()
	case n < 0:
		popOne(c, e, key, end)
	case n == 0:
		c.Reply.Array(0)
	default:
		popMany(c, e, key, end, n)
	}
	return nil
}

// popOne replies the element at an end and removes it.
func popOne(c *command.Context, e *value.Edit, key []byte, end list.End) {
	var o list.Outermost
	if o.Find(e, end) {
		reply(c.Reply, o.Element)
		o.Remove(end)
	} else {
		reply(c.Reply, list.First(e.Value(), end))
		list.Pop(e, c.Settings.Lists.Limits(), end, 1)
	}
	removed(c, e, key, popped(end), 1)
}

// popMany removes up to most elements at an end and replies them as an array, from the outermost. It returns their
// number.
func popMany(c *command.Context, e *value.Edit, key []byte, end list.End, most int64) (n int) {
	v := e.Value()
	all := list.Len(v)
	n = int(min(most, int64(all)))
	c.Reply.Array(n)
	if end == list.Head {
		replyElements(c.Inline(), v, 0, n, list.Tail)
	} else {
		replyElements(c.Inline(), v, all-1, n, list.Head)
	}
	list.Pop(e, c.Settings.Lists.Limits(), end, n)
	removed(c, e, key, popped(end), n)
	return n
}

func reply(r *protocol.Reply, el listpack.Element) {
	if el.IsInt {
		r.BulkInt(el.Int)
	} else {
		r.Bulk(el.Bytes())
	}
}

// replyElements replies n elements in the direction of towards. The first is at index from.
func replyElements(r *command.Reading, v value.Value, from, n int, towards list.End) {
	var walk list.Cursor
	walk.Seek(v, from, towards)
	for n > 0 {
		if towards == list.Tail {
			if lp, at := walk.Piece(); lp != nil {
				some := replyPiece(r.Reply, lp, at, n)
				r.Steps(some)
				n -= some
				continue
			}
		}
		el, _ := walk.Next()
		r.Step()
		reply(r.Reply, el)
		n--
	}
}

// replyPiece replies up to most elements of a listpack and returns their number. The first is at offset at.
func replyPiece(r *protocol.Reply, lp []byte, at, most int) (n int) {
	for last := listpack.End(lp); n < most && at < last; n++ {
		text, behind, short := listpack.ShortText(lp, at)
		if short {
			r.Bulk(text)
			at = behind
			continue
		}
		el, next := listpack.GetNext(lp, at)
		reply(r, el)
		if at = next; at == 0 {
			at = last
		}
	}
	return n
}

// lMPop is LMPOP numkeys key [key …] LEFT|RIGHT [COUNT count].
//
// Replies: the first key with a list, and an array of up to count of its elements; a null array if there is none.
// Errors: "numkeys should be greater than 0", "count should be greater than 0", ErrSyntax, ErrWrongType.
// Propagates: LPOP or RPOP key count.
func lMPop(c *command.Context) error {
	m, err := parseMultiple(c, 1)
	if err != nil {
		return err
	}
	if done, err := m.try(c); done || err != nil {
		return err
	}
	c.Reply.NullArray()
	return nil
}

// A multiple is the parsed arguments of LMPOP or BLMPOP.
type multiple struct {
	keys  [][]byte
	end   list.End
	count int64
}

// parseMultiple reads numkeys, which is argument at, and the arguments after it.
func parseMultiple(c *command.Context, at int) (m multiple, err error) {
	args := c.Args
	n, err := command.Int(args[at])
	if err != nil || n < 1 {
		return m, errNumKeys
	}
	if n > math.MaxInt32 || at+1+int(n) >= len(args) {
		return m, protocol.ErrSyntax
	}
	where := at + 1 + int(n)
	m.keys, m.count = args[at+1:where], -1
	if m.end, err = endOf(args[where]); err != nil {
		return m, err
	}
	for i := where + 1; i < len(args); i++ {
		if m.count >= 0 || !command.Is(args[i], "COUNT") || i+1 == len(args) {
			return m, protocol.ErrSyntax
		}
		i++
		if m.count, err = command.Int(args[i]); err != nil || m.count < 1 {
			return m, errCount
		}
	}
	m.count = max(m.count, 1)
	return m, nil
}

// try pops from the first key that exists. done is false if none exists.
func (m *multiple) try(c *command.Context) (done bool, err error) {
	for _, key := range m.keys {
		e, err := edit(c, key)
		if err != nil {
			return false, err
		}
		if e != nil {
			c.Reply.Array(2)
			c.Reply.Bulk(key)
			n := popMany(c, e, key, m.end, m.count)
			c.Propagate(wordPop(m.end), key, c.Effects.Number(int64(n)))
			return true, nil
		}
	}
	return false, nil
}
