package zset

import (
	"bytes"
	"math"
	"strconv"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
)

// order is the type of a range: by rank, score or member.
type order uint8

const (
	byRank order = iota + 1
	byScore
	byLex
)

// A span is a parsed range of members.
type span struct {
	by          order
	start, stop int64
	scores      zset.ScoreRange
	members     zset.LexRange
}

// bounds reads the two ends of a range. For scores and members, low is the lower end.
//
// Errors: ErrNotInteger, errScoreRange, errLexRange.
func (r *span) bounds(low, high []byte) (err error) {
	switch r.by {
	case byRank:
		if r.start, err = command.Int(low); err == nil {
			r.stop, err = command.Int(high)
		}
		return err
	case byScore:
		var ok, too bool
		r.scores.Min, r.scores.MinOut, ok = scoreBound(low)
		r.scores.Max, r.scores.MaxOut, too = scoreBound(high)
		if !ok || !too {
			return errScoreRange
		}
	case byLex:
		if !lexBound(&r.members.Min, low) || !lexBound(&r.members.Max, high) {
			return errLexRange
		}
	}
	return nil
}

// of returns the ranks of r in v. If reverse is true, ranks count from the end, and members are searched from there.
func (r *span) of(v value.Value, reverse bool) zset.Span {
	switch r.by {
	case byScore:
		return r.scores.Span(v)
	case byLex:
		return r.members.Span(v, reverse)
	}
	n := int64(zset.Len(v))
	start, stop := r.start, r.stop
	if start < 0 {
		start = max(start+n, 0)
	}
	if stop < 0 {
		stop += n
	}
	stop = min(stop, n-1)
	if start > stop || start >= n {
		return zset.Span{}
	}
	if reverse {
		start, stop = n-1-stop, n-1-start
	}
	return zset.Span{From: int(start), To: int(stop) + 1}
}

// scoreBound reads a score bound. out means that "(" excludes the bound from the range. Like C's strtod, it stops at a
// NUL. An empty text is 0, leading blanks are skipped, and a number out of range is infinite.
func scoreBound(text []byte) (x float64, out, ok bool) {
	if len(text) > 0 && text[0] == '(' {
		text, out = text[1:], true
	}
	if n, ok := number.ParseInt(text); ok && -1<<53 <= n && n <= 1<<53 {
		return float64(n), out, true
	}
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	if len(text) == 0 {
		return 0, out, true
	}
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	if x, ok = number.ParseDouble(text); ok {
		return x, out, true
	}
	if bytes.IndexByte(text, '_') >= 0 { // Go's syntax only
		return 0, out, false
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil && !math.IsInf(x, 0) {
		return 0, out, false
	}
	return x, out, !math.IsNaN(x)
}

// lexBound reads a member bound. "[" text includes it, "(" text excludes it, "-" is before all members, "+" after all.
func lexBound(b *zset.LexBound, text []byte) bool {
	if len(text) == 0 {
		return false
	}
	switch text[0] {
	case '-', '+':
		b.Edge = 1
		if text[0] == '-' {
			b.Edge = -1
		}
		return len(text) == 1 || text[1] == 0
	case '(', '[':
		b.Text, b.Out = text[1:], text[0] == '('
		return true
	}
	return false
}
