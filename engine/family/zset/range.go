package zset

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
	"spindle/protocol"
)

// count is ZCOUNT key min max. Replies: the number of members in the range. Errors: errScoreRange, ErrWrongType.
// Cost: O(log N).
func count(c *command.Context) error { return countIn(c, span{by: byScore}) }

// lexCount is ZLEXCOUNT key min max. Replies: the number of members in the range. Errors: errLexRange, ErrWrongType.
// Cost: O(log N).
func lexCount(c *command.Context) error { return countIn(c, span{by: byLex}) }

func countIn(c *command.Context, r span) error {
	if err := r.bounds(c.Args[2], c.Args[3]); err != nil {
		return err
	}
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	n := 0
	if v.Exists() {
		n = r.of(v, false).Len()
	}
	c.Reply.Int(int64(n))
	return nil
}

// A request is a range with its options, for ZRANGE and its kin.
type request struct {
	span
	reverse       bool
	withScores    bool
	offset, limit int64 // below 0: no limit
}

// direction is the order of the reply: fixed by a command's name, or left to an option.
type direction uint8

const (
	either direction = iota
	forward
	backward
)

// parse reads key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]. If the command's name fixes by
// or d, an option cannot repeat it.
func (r *request) parse(args [][]byte, by order, d direction, store bool) (err error) {
	r.limit, r.by, r.reverse = -1, by, d == backward
	for i := 3; i < len(args); i++ {
		switch word := args[i]; {
		case !store && command.Is(word, "WITHSCORES"):
			r.withScores = true
		case command.Is(word, "LIMIT") && i+2 < len(args):
			if r.offset, err = command.Int(args[i+1]); err != nil {
				return err
			}
			if r.limit, err = command.Int(args[i+2]); err != nil {
				return err
			}
			i += 2
		case d == either && command.Is(word, "REV"):
			r.reverse, d = true, backward
		case r.by == 0 && command.Is(word, "BYLEX"):
			r.by = byLex
		case r.by == 0 && command.Is(word, "BYSCORE"):
			r.by = byScore
		default:
			return protocol.ErrSyntax
		}
	}
	if r.by == 0 {
		r.by = byRank
	}
	switch {
	case r.limit != -1 && r.by == byRank:
		return errLimit
	case r.withScores && r.by == byLex:
		return errWithScores
	case r.reverse && r.by != byRank: // given as max, min
		return r.bounds(args[2], args[1])
	}
	return r.bounds(args[1], args[2])
}

// window returns the rank of the first member of r in v, and the number of members. If r is reverse, ranks go down.
func (r *request) window(v value.Value) (from, n int) {
	s := r.of(v, r.reverse)
	if s.Len() == 0 {
		return 0, 0
	}
	first := int64(s.From)
	if r.reverse {
		first = int64(s.To) - 1
	}
	if r.by != byRank {
		off := r.offset
		switch {
		case off > int64(zset.Len(v)) || off < -int64(zset.Len(v)) || off < 0 && v.Packed() != nil:
			return 0, 0
		case off >= 0 && !r.reverse:
			first += off
		case off >= 0:
			first -= off
		case r.reverse: // in a skiplist Redis counts a negative offset from the other end of the range
			first = int64(s.From) - off - 1
		default:
			first = int64(s.To) + off
		}
		if first < int64(s.From) || first >= int64(s.To) {
			return 0, 0
		}
	}
	n = s.To - int(first)
	if r.reverse {
		n = int(first) - s.From + 1
	}
	if r.limit >= 0 && r.by != byRank {
		n = int(min(int64(n), r.limit))
	}
	return int(first), n
}

// zrange is ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES].
//
// Replies: an array of members. With WITHSCORES a score follows each member; in RESP3 they are a pair.
// Errors: ErrSyntax, ErrNotInteger, errLimit, errWithScores, errScoreRange, errLexRange, ErrWrongType.
// Cost: O(log N + members replied).
func zrange(c *command.Context) error { return answerRange(c, 0, either) }

// revRange is ZREVRANGE key start stop [WITHSCORES].
func revRange(c *command.Context) error { return answerRange(c, byRank, backward) }

// rangeByScore is ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count].
func rangeByScore(c *command.Context) error { return answerRange(c, byScore, forward) }

// revRangeByScore is ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count].
func revRangeByScore(c *command.Context) error { return answerRange(c, byScore, backward) }

// rangeByLex is ZRANGEBYLEX key min max [LIMIT offset count].
func rangeByLex(c *command.Context) error { return answerRange(c, byLex, forward) }

// revRangeByLex is ZREVRANGEBYLEX key max min [LIMIT offset count].
func revRangeByLex(c *command.Context) error { return answerRange(c, byLex, backward) }

func answerRange(c *command.Context, by order, d direction) error {
	var r request
	if err := r.parse(c.Args[1:], by, d, false); err != nil {
		return err
	}
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	if !v.Exists() {
		c.Reply.Array(0)
		return nil
	}
	from, n := r.window(v)
	w := window{from, n, r.reverse, r.withScores}
	if c.IsLong(n) {
		return c.ReadBeside(func(r *command.Reading) error {
			w.answer(r, v)
			return nil
		})
	}
	w.answer(c.Inline(), v)
	return nil
}

// A window is a range of n members to reply. The first has the rank from.
type window struct {
	from, n             int
	reverse, withScores bool
}

// answer replies the window of v.
func (w window) answer(r *command.Reading, v value.Value) {
	head(r.Reply, w.n, w.withScores)
	zset.Each(v, w.from, w.n, w.reverse, func(member listpack.Element, x float64) bool {
		r.Step()
		answerPair(r.Reply, member, x, w.withScores)
		return true
	})
}

// head opens an array of n members, with or without scores.
func head(r *protocol.Reply, n int, withScores bool) {
	if withScores && !r.RESP3 {
		n *= 2
	}
	r.Array(n)
}

// answerPair replies one member, and its score if withScore is true. head has been called before.
func answerPair(r *protocol.Reply, member listpack.Element, x float64, withScore bool) {
	if withScore && r.RESP3 {
		r.Array(2)
	}
	answer(r, member)
	if withScore {
		r.Double(x)
	}
}

func appendScore(dst []byte, x float64) []byte { return number.AppendDouble(dst, x) }

// rangeStore is ZRANGESTORE destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count].
//
// Replies: the size of the destination. If the result is empty, destination is deleted. Errors: those of zrange.
// Propagates as written.
func (z *commands) rangeStore(c *command.Context) error {
	var r request
	if err := r.parse(c.Args[2:], 0, either, true); err != nil {
		return err
	}
	v, err := lookup(c, c.Args[2])
	if err != nil {
		return err
	}
	from, n := 0, 0
	if v.Exists() {
		from, n = r.window(v)
	}
	if n == 0 {
		storeNothing(c, c.Args[1])
		return nil
	}
	if r.reverse {
		from -= n - 1
	}
	if l := limits(c); n > l.Entries || !z.pack(v, from, n, l) {
		b := zset.NewBuilder(c.Space.Store(), n)
		var room [number.MaxIntLen]byte
		zset.Each(v, from, n, false, func(member listpack.Element, x float64) bool {
			return b.Add(member.Text(room[:]), x)
		})
		z.store(c, c.Args[1], b.Root())
	} else {
		z.storePacked(c, c.Args[1])
	}
	c.Changed(1)
	c.Notify(command.EventZSet, "zrangestore", c.Args[1])
	c.Reply.Int(int64(n))
	return nil
}

// pack fills z.packed with a range, as a listpack. fits is false if a member is too long.
func (z *commands) pack(v value.Value, from, n int, l zset.Limits) (fits bool) {
	fits = true
	var room [number.MaxIntLen]byte
	lp := listpack.AppendEmpty(z.packed[:0])
	zset.Each(v, from, n, false, func(member listpack.Element, x float64) bool {
		text := member.Text(room[:])
		if fits = len(text) <= l.Value && len(lp)+len(text) < math.MaxInt32/2; fits {
			lp = zset.AppendPair(lp, 0, text, x)
		}
		return fits
	})
	z.packed = lp
	return fits
}

// store stores the skiplist root at key and replaces any old value.
func (z *commands) store(c *command.Context, key []byte, root memory.Ref) {
	c.Overwrites(key, value.ZSet)
	if c.DB.PutRoot(key, value.ZSet, value.SkipList, root, 0) {
		c.Notify(command.EventNew, "new", key)
	}
}

// storePacked stores the listpack z.packed at key and replaces any old value.
func (z *commands) storePacked(c *command.Context, key []byte) {
	c.Overwrites(key, value.ZSet)
	if c.DB.PutPacked(key, value.ZSet, value.Listpack, z.packed, 0) {
		c.Notify(command.EventNew, "new", key)
	}
	if cap(z.packed) > command.ItemsKept*16 {
		z.packed = nil
	}
}

// storeNothing deletes the destination of a STORE command whose result is empty.
func storeNothing(c *command.Context, key []byte) {
	if c.DB.Delete(key) {
		c.Changed(1)
		c.Notify(command.EventGeneric, "del", key)
	}
	c.Reply.Int(0)
}
