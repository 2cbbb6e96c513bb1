package stream

import (
	"bytes"
	"math/bits"

	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
	"spindle/internal/number"
)

const lastSeq = 1<<64 - 1

// is reports whether arg is word, in the same case.
func is(arg []byte, word string) bool { return string(arg) == word }

// parseID reads an ID: milliseconds-sequence, or milliseconds alone. In the second form the sequence is seq.
func parseID(arg []byte, seq uint64) (id streams.ID, err error) {
	id, auto, ok := scanID(arg, seq)
	if !ok || auto {
		return id, errID
	}
	return id, nil
}

// parseAddID is parseID for XADD. auto means that the ID was milliseconds-*, which asks for the next sequence.
func parseAddID(arg []byte) (id streams.ID, auto bool, err error) {
	id, auto, ok := scanID(arg, 0)
	if !ok {
		return id, false, errID
	}
	return id, auto, nil
}

// parseBound reads the bound of a range: an ID, "-" or "+". A "(" before an ID excludes that ID, and open is then true.
func parseBound(arg []byte, seq uint64) (id streams.ID, open bool, err error) {
	if len(arg) > 1 && arg[0] == '(' {
		id, err = parseID(arg[1:], seq)
		return id, true, err
	}
	id, err = parseEdge(arg, seq)
	return id, false, err
}

// parseEdge reads an ID, "-" or "+".
func parseEdge(arg []byte, seq uint64) (streams.ID, error) {
	switch {
	case is(arg, "-"):
		return streams.ID{}, nil
	case is(arg, "+"):
		return streams.MaxID, nil
	}
	return parseID(arg, seq)
}

// parseRange reads both bounds of a range.
func parseRange(from, to []byte) (first, last streams.ID, err error) {
	first, open, err := parseBound(from, 0)
	if err != nil {
		return first, last, err
	}
	if open {
		var ok bool
		if first, ok = first.Next(); !ok {
			return first, last, errIntervalStart
		}
	}
	if last, open, err = parseBound(to, lastSeq); err != nil {
		return first, last, err
	}
	if open {
		var ok bool
		if last, ok = last.Prev(); !ok {
			return first, last, errIntervalEnd
		}
	}
	return first, last, nil
}

// parseIDs reads args into h.ids. If one of them is wrong, it returns none.
func (h *commands) parseIDs(args [][]byte) ([]streams.ID, error) {
	h.ids = h.ids[:0]
	for _, a := range args {
		id, err := parseID(a, 0)
		if err != nil {
			return nil, err
		}
		h.ids = append(h.ids, id)
	}
	return h.ids, nil
}

// scanID reads an ID. As in Redis, a NUL ends the ID, and numbers that are not canonical are read as C reads them.
func scanID(arg []byte, missing uint64) (id streams.ID, auto, ok bool) {
	if len(arg) > 127 {
		return id, false, false
	}
	if at := bytes.IndexByte(arg, 0); at >= 0 {
		arg = arg[:at]
	}
	ms, seq, both := bytes.Cut(arg, []byte{'-'})
	if id.Ms, ok = parseUint(ms); !ok {
		return id, false, false
	}
	switch {
	case !both:
		id.Seq = missing
	case is(seq, "*"):
		auto = true
	default:
		id.Seq, ok = parseUint(seq)
	}
	return id, auto, ok
}

// parseUint reads a 64-bit number. A canonical signed number must not be negative. Other texts are read as strtoull
// reads them: leading blanks and a sign are allowed, and a minus negates modulo 2^64.
func parseUint(text []byte) (n uint64, ok bool) {
	if n, ok := number.ParseUint(text); ok {
		return n, true
	}
	if _, ok := number.ParseInt(text); ok {
		return 0, false
	}
	for len(text) > 0 && (text[0] == ' ' || text[0] >= '\t' && text[0] <= '\r') {
		text = text[1:]
	}
	minus := len(text) > 0 && text[0] == '-'
	if minus || len(text) > 0 && text[0] == '+' {
		text = text[1:]
	}
	for _, c := range text {
		hi, lo := bits.Mul64(n, 10)
		sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
		if c < '0' || c > '9' || hi|carry != 0 {
			return 0, false
		}
		n = sum
	}
	if minus {
		n = -n
	}
	return n, len(text) > 0
}

// parseCount reads a COUNT. A negative number counts as 0.
func parseCount(arg []byte) (uint64, error) {
	n, err := command.Int(arg)
	return uint64(max(n, 0)), err
}
