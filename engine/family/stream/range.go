package stream

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

// length is XLEN key. Replies: the number of entries, 0 for a missing key. Errors: ErrWrongType.
func length(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	n := int64(0)
	if v.Exists() {
		n = int64(streams.Of(v).Len())
	}
	c.Reply.Int(n)
	return nil
}

// xrange is XRANGE key start end [COUNT count].
//
// Replies: an array of entries; a null array if COUNT is 0 or less.
// Errors: errID, errIntervalStart, errIntervalEnd, ErrSyntax, ErrNotInteger, ErrWrongType.
func xrange(c *command.Context) error { return rangeOf(c, c.Args[2], c.Args[3], false) }

// revRange is XREVRANGE key end start [COUNT count]: xrange in reverse.
func revRange(c *command.Context) error { return rangeOf(c, c.Args[3], c.Args[2], true) }

func rangeOf(c *command.Context, from, to []byte, reverse bool) error {
	first, last, err := parseRange(from, to)
	if err != nil {
		return err
	}
	count, counted := uint64(0), false
	for i := 4; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) || !command.Is(c.Args[i], "COUNT") {
			return protocol.ErrSyntax
		}
		if count, err = parseCount(c.Args[i+1]); err != nil {
			return err
		}
		counted = true
	}
	v, err := lookup(c, c.Args[1])
	switch {
	case err != nil:
		return err
	case !v.Exists():
		c.Reply.Array(0)
	case counted && count == 0:
		c.Reply.NullArray()
	default:
		return answerRange(c, v, first, last, reverse, count)
	}
	return nil
}

// answerRange replies the entries of v from first to last, at most count unless count is 0.
func answerRange(c *command.Context, v value.Value, first, last streams.ID, reverse bool, count uint64) error {
	if isLong(c, streams.Of(v), first, last, count) {
		return c.ReadBeside(func(r *command.Reading) error {
			readRange(r, v, first, last, reverse, count)
			return nil
		})
	}
	readRange(c.Inline(), v, first, last, reverse, count)
	return nil
}

func readRange(r *command.Reading, v value.Value, first, last streams.ID, reverse bool, count uint64) {
	var it streams.Iterator
	streams.Of(v).Range(&it, first, last, reverse)
	replyRange(r, &it, count)
}

// isLong reports whether reading the entries from first to last, at most count unless count is 0, is a long read.
func isLong(c *command.Context, s streams.Stream, first, last streams.ID, count uint64) bool {
	n := s.Len()
	if count != 0 {
		n = min(n, count)
	}
	return c.IsLong(int(n)) && c.IsLong(int(min(n, s.AtMost(first, last))))
}
