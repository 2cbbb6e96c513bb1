package zset

import (
	"slices"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
	"spindle/protocol"
)

// A source is one of the sets to combine: a sorted set, or a plain set whose members all have the score 1.
type source struct {
	v      value.Value // the zero Value for a missing key
	plain  bool
	set    set.Reader
	n      int
	weight float64
}

func sourceOf(v value.Value) source {
	s := source{v: v, weight: 1}
	switch v.Type() {
	case value.Set:
		s.plain, s.set = true, set.Read(v)
		s.n = s.set.Len()
	case value.ZSet:
		s.n = zset.Len(v)
	}
	return s
}

// each yields the members and their scores until yield returns false. Members are not copied.
func (s *source) each(yield func(member []byte, score float64) bool) {
	var room [number.MaxIntLen]byte
	switch {
	case s.n == 0:
	case s.plain:
		s.set.All(func(e set.Element) bool { return yield(e.Text(room[:]), 1) })
	default:
		zset.Each(s.v, 0, s.n, false, func(e listpack.Element, score float64) bool { return yield(e.Text(room[:]), score) })
	}
}

// find returns a member's score. ok is false if the member is missing.
func (s *source) find(member []byte) (score float64, ok bool) {
	switch {
	case s.n == 0:
		return 0, false
	case s.plain:
		return 1, s.set.Contains(member)
	}
	return zset.Score(s.v, member)
}

// An operation combines several sets.
type operation uint8

const (
	union operation = iota
	inter
	diff
	interCard
)

// combination holds the parsed arguments: numkeys, the keys, and the options.
type combination struct {
	op         operation
	sources    []source
	aggregate  zset.Aggregate
	counts     bool // AGGREGATE COUNT: a member's score in each source is the source's weight
	withScores bool
	limit      int64 // of ZINTERCARD; 0 means none
}

// parse reads a combination whose numkeys is argument at, and finds the sources. The sources of a union or an
// intersection are sorted by size, the smallest first. A key of the wrong type is reported before errors in options.
//
// Errors: ErrNotInteger, "at least 1 input key is needed", ErrSyntax, ErrWrongType, errWeight, errLimitSign.
func (z *commands) parse(c *command.Context, at int, op operation, store bool) (m combination, err error) {
	n, err := command.Int(c.Args[at])
	if err != nil {
		return m, err
	}
	if n < 1 {
		return m, errNoInput(c.Spec.Full)
	}
	args := c.Args[at+1:]
	if n > int64(len(args)) {
		return m, protocol.ErrSyntax
	}
	if err := z.gather(c, args[:n]); err != nil {
		return m, err
	}
	m.op, m.sources = op, z.sources
	return m, m.options(args[n:], op, store)
}

// score returns the score with which a member of s enters the result.
func (m *combination) score(s *source, score float64) float64 {
	if m.counts {
		return s.weight
	}
	return s.weight * score
}

// gather finds the sources at keys.
//
// Errors: ErrWrongType.
func (z *commands) gather(c *command.Context, keys [][]byte) error {
	z.sources = z.sources[:0]
	mayExpire := c.DB.Volatile() != 0 // one of the keys may expire here
	for _, key := range keys {
		v := c.DB.Lookup(key)
		if !v.Exists() {
			c.Notify(command.EventKeyMiss, "keymiss", key)
		} else if v.Type() != value.ZSet && v.Type() != value.Set {
			return protocol.ErrWrongType
		}
		z.sources = append(z.sources, sourceOf(v))
	}
	if mayExpire { // again: a lookup that deletes an expired key invalidates the values found before
		for i, key := range keys {
			z.sources[i] = sourceOf(c.DB.Peek(key))
		}
	}
	return nil
}

// options reads [WEIGHTS weight …] [AGGREGATE SUM|MIN|MAX|COUNT] of a union or intersection. It reads [WITHSCORES]
// unless store is true, and [LIMIT n] for ZINTERCARD. Then it sorts the sources.
func (m *combination) options(args [][]byte, op operation, store bool) (err error) {
	weighted := op == union || op == inter
	for len(args) > 0 {
		word, n := args[0], len(args)
		switch {
		case weighted && n > len(m.sources) && command.Is(word, "WEIGHTS"):
			for i := range m.sources {
				if m.sources[i].weight, err = float(args[1+i]); err != nil {
					return errWeight
				}
			}
			args = args[1+len(m.sources):]
		case weighted && n >= 2 && command.Is(word, "AGGREGATE"):
			m.counts = command.Is(args[1], "COUNT")
			switch {
			case m.counts || command.Is(args[1], "SUM"):
				m.aggregate = zset.Sum
			case command.Is(args[1], "MIN"):
				m.aggregate = zset.Min
			case command.Is(args[1], "MAX"):
				m.aggregate = zset.Max
			default:
				return protocol.ErrSyntax
			}
			args = args[2:]
		case !store && op != interCard && command.Is(word, "WITHSCORES"):
			m.withScores = true
			args = args[1:]
		case op == interCard && n >= 2 && command.Is(word, "LIMIT"):
			if m.limit, err = command.Int(args[1]); err != nil || m.limit < 0 {
				return errLimitSign
			}
			args = args[2:]
		default:
			return protocol.ErrSyntax
		}
	}
	if op != diff {
		slices.SortStableFunc(m.sources, func(a, b source) int { return a.n - b.n })
	}
	return nil
}
