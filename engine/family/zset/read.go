package zset

import (
	"math"
	"strconv"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/internal/glob"
	"spindle/internal/number"
	"spindle/protocol"
)

func card(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	n := 0
	if v.Exists() {
		n = zset.Len(v)
	}
	c.Reply.Int(int64(n))
	return nil
}

// score is ZSCORE key member. Replies: the score, or null. Errors: ErrWrongType.
func score(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	if v.Exists() {
		if x, ok := zset.Score(v, c.Args[2]); ok {
			c.Reply.Double(x)
			return nil
		}
	}
	c.Reply.Null()
	return nil
}

// mScore is ZMSCORE key member [member …]. Replies: an array of scores, null for a missing member. Errors:
// ErrWrongType.
func mScore(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
		x, ok := 0.0, false
		if v.Exists() {
			x, ok = zset.Score(v, member)
		}
		if ok {
			c.Reply.Double(x)
		} else {
			c.Reply.Null()
		}
	}
	return nil
}

// rank is ZRANK key member [WITHSCORE]. Replies: the number of members before this one; with WITHSCORE a pair of rank
// and score. For a missing member it replies null, or a null array. Errors: wrong number of arguments, ErrSyntax,
// ErrWrongType.
func rank(c *command.Context) error { return rankFrom(c, false) }

// revRank is ZREVRANK: it counts the members after this one; see rank.
func revRank(c *command.Context) error { return rankFrom(c, true) }

func rankFrom(c *command.Context, reverse bool) error {
	withScore := len(c.Args) == 4
	switch {
	case len(c.Args) > 4:
		return errArguments(c.Spec.Full)
	case withScore && !command.Is(c.Args[3], "WITHSCORE"):
		return protocol.ErrSyntax
	}
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	at, x, ok := 0, 0.0, false
	if v.Exists() {
		at, x, ok = zset.Rank(v, c.Args[2])
	}
	switch {
	case !ok && withScore:
		c.Reply.NullArray()
		return nil
	case !ok:
		c.Reply.Null()
		return nil
	case reverse:
		at = zset.Len(v) - 1 - at
	}
	if withScore {
		c.Reply.Array(2)
	}
	c.Reply.Int(int64(at))
	if withScore {
		c.Reply.Double(x)
	}
	return nil
}

// found is a member for the reply of ZSCAN or ZRANDMEMBER.
type found struct {
	member listpack.Element
	score  float64
}

// scan is ZSCAN key cursor [MATCH pattern] [COUNT count].
//
// Replies: the next cursor, 0 at the end, and an array of alternating members and scores.
// Errors: "invalid cursor", ErrWrongType, and those of the options. For a missing key the options are not read.
func (z *commands) scan(c *command.Context) error {
	v, cursor, o, err := c.OpenScan(value.ZSet, false)
	if err != nil || !v.Exists() {
		return err
	}
	return z.answerScan(c, v, cursor, o)
}

func (z *commands) answerScan(c *command.Context, v value.Value, cursor uint64, o command.Scan) error {
	if c.IsLong(min(o.Count, zset.Len(v))) {
		own := o.Own()
		return c.ReadBeside(func(r *command.Reading) error {
			replyScan(r, v, cursor, own, nil)
			return nil
		})
	}
	z.found = command.Release(replyScan(c.Inline(), v, cursor, o, z.found))
	return nil
}

// replyScan replies members, starting at cursor. It collects them in seen, and returns it.
func replyScan(r *command.Reading, v value.Value, cursor uint64, o command.Scan, seen []found) []found {
	var room [number.MaxIntLen]byte
	next := zset.Scan(v, cursor, o.Count, func(member listpack.Element, x float64) {
		if r.Step(); o.Pattern == nil || glob.Match(o.Pattern, member.Text(room[:])) {
			seen = command.Collect(r, seen, found{member, x})
		}
	})
	r.AnswerScan(next, 2*len(seen))
	var text [scannedRoom]byte
	for i := range seen {
		answer(r.Reply, seen[i].member)
		r.Reply.Bulk(appendScanned(text[:0], v, seen[i].score))
	}
	return seen
}

// scannedRoom is the length of the longest score that appendScanned appends.
const scannedRoom = 32

// appendScanned appends a score as ZSCAN shows it: in the usual form for a listpack, and in the form of C's %.17g for a
// skiplist.
func appendScanned(dst []byte, v value.Value, x float64) []byte {
	if v.Encoding() == value.Listpack || math.IsInf(x, 0) {
		return appendScore(dst, x)
	}
	return strconv.AppendFloat(dst, x, 'g', 17, 64)
}
