package zset

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/protocol"
)

var (
	wordZPopMin = []byte("ZPOPMIN")
	wordZPopMax = []byte("ZPOPMAX")
)

// An end is the side to pop from.
type end bool

const (
	least    end = false
	greatest end = true
)

func (d end) word() []byte {
	if d == greatest {
		return wordZPopMax
	}
	return wordZPopMin
}

func (d end) event() string {
	if d == greatest {
		return "zpopmax"
	}
	return "zpopmin"
}

// popMin is ZPOPMIN key [count].
//
// Replies: the member with the least score and the score. With count: an array of up to count members with their
// scores. In RESP3 each element is a pair.
// Errors: ErrSyntax, ErrNotInteger, "value is out of range, must be positive", ErrWrongType.
// Propagates as written.
func popMin(c *command.Context) error { return pop(c, least) }

// popMax is ZPOPMAX key [count]: the greatest scores come first; see popMin.
func popMax(c *command.Context) error { return pop(c, greatest) }

func pop(c *command.Context, d end) error {
	n, nested := int64(1), false
	if len(c.Args) > 3 {
		return protocol.ErrSyntax
	}
	if len(c.Args) == 3 {
		var err error
		if n, err = command.Int(c.Args[2]); err != nil {
			return errMustBePositive
		}
		if n < 0 {
			return errMustBePositive
		}
		nested = c.Reply.RESP3
	}
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil || n == 0 {
		c.Reply.Array(0)
		return nil
	}
	n = min(n, int64(zset.Len(e.Value())))
	if nested {
		c.Reply.Array(int(n))
	} else {
		c.Reply.Array(2 * int(n))
	}
	popFrom(c, e, key, d, int(n), nested)
	return nil
}

// popFrom removes n members at end d and replies each with its score, as a pair if nested is true. The set has at least
// n members.
func popFrom(c *command.Context, e *value.Edit, key []byte, d end, n int, nested bool) {
	all := zset.Len(e.Value())
	s, from := zset.Span{From: 0, To: n}, 0
	if d == greatest {
		s, from = zset.Span{From: all - n, To: all}, all-1
	}
	reply := c.Reply
	zset.Each(e.Value(), from, n, d == greatest, func(member listpack.Element, x float64) bool {
		if nested {
			reply.Array(2)
		}
		answer(reply, member)
		reply.Double(x)
		return true
	})
	drop(c, e, key, d.event(), s)
}

// multiple holds the parsed arguments of ZMPOP.
type multiple struct {
	keys  [][]byte
	end   end
	count int64
}

// parseMultiple reads numkeys key [key …] MIN|MAX [COUNT count]. numkeys is argument at.
//
// Errors: errNumKeys, errCount, ErrSyntax.
func parseMultiple(args [][]byte, at int) (m multiple, err error) {
	n, err := command.Int(args[at])
	if err != nil || n < 1 {
		return m, errNumKeys
	}
	args = args[at+1:]
	if n >= int64(len(args)) {
		return m, protocol.ErrSyntax
	}
	m.keys, m.count = args[:n], 1
	switch word := args[n]; {
	case command.Is(word, "MIN"):
		m.end = least
	case command.Is(word, "MAX"):
		m.end = greatest
	default:
		return m, protocol.ErrSyntax
	}
	counted := false
	for args = args[n+1:]; len(args) > 0; args = args[2:] {
		if counted || len(args) == 1 || !command.Is(args[0], "COUNT") {
			return m, protocol.ErrSyntax
		}
		if m.count, err = command.Int(args[1]); err != nil || m.count < 1 {
			return m, errCount
		}
		counted = true
	}
	return m, nil
}

// try pops from the first key that exists. If none exists, done is false, and try has not replied.
//
// Replies: the key, and an array of pairs of member and score. Propagates: ZPOPMIN or ZPOPMAX key count.
func (m *multiple) try(c *command.Context) (done bool, err error) {
	for _, key := range m.keys {
		e, err := edit(c, key)
		if err != nil {
			return false, err
		}
		if e == nil {
			continue
		}
		n := int(min(m.count, int64(zset.Len(e.Value()))))
		c.Reply.Array(2)
		c.Reply.Bulk(key)
		c.Reply.Array(n)
		popFrom(c, e, key, m.end, n, true)
		c.Propagate(m.end.word(), key, c.Effects.Number(int64(n)))
		return true, nil
	}
	return false, nil
}

// mPop is ZMPOP numkeys key [key …] MIN|MAX [COUNT count].
//
// Replies: those of multiple.try, or a null array if no key exists. Errors: errNumKeys, errCount, ErrSyntax,
// ErrWrongType.
func mPop(c *command.Context) error {
	m, err := parseMultiple(c.Args, 1)
	if err != nil {
		return err
	}
	done, err := m.try(c)
	if err == nil && !done {
		c.Reply.NullArray()
	}
	return err
}
