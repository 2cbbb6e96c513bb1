package hll

import (
	"strconv"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
)

// debug is PFDEBUG with four subcommands.
//
// - GETREG key replies all registers and makes the sketch dense.
// - DECODE key replies the opcodes of a sparse sketch as text.
// - ENCODING key replies "dense" or "sparse".
// - TODENSE key makes the sketch dense and replies 1, or 0 if it was dense.
//
// Errors: no such key, ErrWrongType, errNotSketch, errCorrupt, not sparse.
// Propagates as written if the sketch became dense.
func (h *commands) debug(c *command.Context) error {
	key := c.Args[2]
	v := c.DB.LookupWrite(key)
	if !v.Exists() {
		return errNoKey
	}
	s, err := sketchOf(v)
	if err != nil {
		return err
	}
	switch sub := c.Args[1]; {
	case command.Is(sub, "GETREG"):
		if s, _, err = h.densify(c, key, s); err != nil {
			return err
		}
		c.Reply.Array(registerCount)
		for i := range registerCount {
			c.Reply.Int(int64(register(s[headerSize:], i)))
		}
	case command.Is(sub, "DECODE"):
		if isDense(s) {
			return errNotSparse
		}
		c.Reply.Bulk(decode(s))
	case command.Is(sub, "ENCODING"):
		if isDense(s) {
			c.Reply.Simple("dense")
		} else {
			c.Reply.Simple("sparse")
		}
	case command.Is(sub, "TODENSE"):
		_, converted, err := h.densify(c, key, s)
		if err != nil {
			return err
		}
		if converted {
			c.Reply.Int(1)
		} else {
			c.Reply.Int(0)
		}
	default:
		return errSubcommand(sub)
	}
	return nil
}

// densify makes the sketch s at key dense, if it is not, and returns the result.
func (h *commands) densify(c *command.Context, key, s []byte) (dense []byte, converted bool, err error) {
	if isDense(s) {
		return s, false, nil
	}
	if !toDense(&h.dense, s) {
		return nil, false, errCorrupt
	}
	c.DB.SetRaw(key, h.dense[:], keyspace.KeepTTL)
	c.Changed(1)
	return h.dense[:], true, nil
}

// decode returns the opcodes of a sparse sketch as text: z:n for ZERO, Z:n for XZERO, v:rank,n for VAL.
func decode(s []byte) []byte {
	var text []byte
	for at := headerSize; at < len(s); {
		length, rank, size := opAt(s, at)
		if at > headerSize {
			text = append(text, ' ')
		}
		switch {
		case rank != 0:
			text = strconv.AppendInt(append(text, "v:"...), int64(rank), 10)
			text = append(text, ',')
		case isXZero(s[at]):
			text = append(text, "Z:"...)
		default:
			text = append(text, "z:"...)
		}
		text = strconv.AppendInt(text, int64(length), 10)
		at += size
	}
	return text
}
