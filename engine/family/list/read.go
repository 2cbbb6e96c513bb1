package list

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
	"spindle/protocol"
)

// lLen is LLEN key. Replies: the length, 0 for a missing key. Errors: ErrWrongType.
func lLen(c *command.Context) error {
	v, err := find(c, c.Args[1])
	if err != nil {
		return err
	}
	n := 0
	if v.Exists() {
		n = list.Len(v)
	}
	c.Reply.Int(int64(n))
	return nil
}

// lIndex is LINDEX key index. A negative index counts from the end. Replies: the element, or null.
// Errors: ErrWrongType, ErrNotInteger.
func lIndex(c *command.Context) error {
	v, err := find(c, c.Args[1])
	if err != nil {
		return err
	}
	if !v.Exists() {
		c.Reply.Null()
		return nil
	}
	index, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	if el, ok := list.At(v, index); ok {
		reply(c.Reply, el)
	} else {
		c.Reply.Null()
	}
	return nil
}

// lRange is LRANGE key start stop. Negative indices count from the end. Replies: an array.
// Errors: ErrNotInteger, ErrWrongType.
func lRange(c *command.Context) error {
	start, stop, err := bounds(c)
	if err != nil {
		return err
	}
	v, err := find(c, c.Args[1])
	if err != nil {
		return err
	}
	from, n := 0, 0
	if v.Exists() {
		from, n = clip(start, stop, list.Len(v))
	}
	return answerRange(c, v, from, n)
}

// answerRange replies n elements of v. The first is at index from.
func answerRange(c *command.Context, v value.Value, from, n int) error {
	if c.IsLong(n) {
		return c.ReadBeside(func(r *command.Reading) error {
			replyRange(r, v, from, n)
			return nil
		})
	}
	replyRange(c.Inline(), v, from, n)
	return nil
}

func replyRange(r *command.Reading, v value.Value, from, n int) {
	r.Reply.Array(n)
	if n > 0 {
		replyElements(r, v, from, n, list.Tail)
	}
}

// bounds reads the two indices of LRANGE and LTRIM.
//
// Errors: ErrNotInteger.
func bounds(c *command.Context) (start, stop int64, err error) {
	if start, err = command.Int(c.Args[2]); err == nil {
		stop, err = command.Int(c.Args[3])
	}
	return start, stop, err
}

// clip converts start and stop to a range in a list of this length: n elements, the first at index from.
func clip(start, stop int64, length int) (from, n int) {
	all := int64(length)
	if start < 0 {
		start = max(start+all, 0)
	}
	if stop < 0 {
		stop += all
	}
	stop = min(stop, all-1)
	if start > stop {
		return 0, 0
	}
	return int(start), int(stop - start + 1)
}

// symmetric reads an integer that can be negated, so any but the least.
//
// Errors: ErrNotInteger, "value is out of range, …".
func symmetric(arg []byte) (int64, error) {
	n, err := command.Int(arg)
	if err == nil && n == math.MinInt64 {
		err = errSymmetric
	}
	return n, err
}

// A search holds the options of LPOS.
type search struct {
	rank, count, maxLen int64 // count -1: no COUNT, so the reply is one index or null
}

func (s *search) parse(args [][]byte) (err error) {
	s.rank, s.count = 1, -1
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) {
			return protocol.ErrSyntax
		}
		switch arg := args[i+1]; {
		case command.Is(args[i], "RANK"):
			if s.rank, err = symmetric(arg); err != nil {
				return err
			}
			if s.rank == 0 {
				return errRank
			}
		case command.Is(args[i], "COUNT"):
			if s.count, err = command.Int(arg); err != nil || s.count < 0 {
				return errMany
			}
		case command.Is(args[i], "MAXLEN"):
			if s.maxLen, err = command.Int(arg); err != nil || s.maxLen < 0 {
				return errMaxLen
			}
		default:
			return protocol.ErrSyntax
		}
	}
	return nil
}

// lPos is LPOS key element [RANK rank] [COUNT matches] [MAXLEN len].
//
// Replies: the index of the match number rank, or null. If rank is negative, matches count from the end. With COUNT: an
// array of that many matches from match number rank; 0 means all. MAXLEN limits the number of comparisons.
// Errors: ErrSyntax, those of the options, ErrWrongType.
func lPos(c *command.Context) error {
	var s search
	if err := s.parse(c.Args[3:]); err != nil {
		return err
	}
	v, err := find(c, c.Args[1])
	if err != nil {
		return err
	}
	return answerPos(c, v, s)
}

func answerPos(c *command.Context, v value.Value, s search) error {
	if v.Exists() && c.IsLong(s.compares(v)) {
		return c.ReadBeside(func(r *command.Reading) error {
			s.reply(r, v)
			return nil
		})
	}
	s.reply(c.Inline(), v)
	return nil
}

// compares returns the maximum number of elements of v that the search compares.
func (s search) compares(v value.Value) int {
	all := list.Len(v)
	if s.maxLen > 0 {
		return int(min(int64(all), s.maxLen))
	}
	return all
}

// reply replies the positions of the matches in v, which may be the zero Value.
func (s search) reply(r *command.Reading, v value.Value) {
	reply := r.Reply
	mark, found := reply.Mark(), 0
	if v.Exists() {
		from, rank := list.Head, s.rank
		if rank < 0 {
			from, rank = list.Tail, -rank
		}
		var f list.Finder
		f.Start(v, r.Args[2], from, s.compares(v))
		for index, ok := f.Next(); ok; index, ok = f.Next() {
			r.Step()
			if rank--; rank > 0 {
				continue
			}
			reply.Int(int64(index))
			if found++; s.count < 0 || int64(found) == s.count {
				break
			}
		}
	}
	switch {
	case s.count >= 0:
		reply.ArrayAt(mark, found)
	case found == 0:
		reply.Null()
	}
}
