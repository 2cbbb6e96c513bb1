package str

import (
	"bytes"

	"github.com/zeebo/xxh3"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/ascii"
	"spindle/protocol"
)

// A comparison says how a condition compares.
type comparison uint8

const (
	always       comparison = iota
	equal                   // IFEQ
	different               // IFNE
	sameDigest              // IFDEQ
	otherDigest             // IFDNE
	digestLength = 16
)

// comparisonOf returns the comparison that an option names. It returns always for any other word.
func comparisonOf(word []byte) comparison {
	switch {
	case command.Is(word, "IFEQ"):
		return equal
	case command.Is(word, "IFNE"):
		return different
	case command.Is(word, "IFDEQ"):
		return sameDigest
	case command.Is(word, "IFDNE"):
		return otherDigest
	}
	return always
}

// A condition compares a string with an argument of SET or DELEX.
type condition struct {
	is  comparison
	arg []byte // the value, or the digest as hexadecimal digits
}

// check returns nil if the argument can be compared. Errors: errDigest.
func (c *condition) check() error {
	if c.is != sameDigest && c.is != otherDigest {
		return nil
	}
	if len(c.arg) != digestLength {
		return errDigest
	}
	for _, d := range c.arg {
		if !('0' <= d && d <= '9' || 'a' <= d|0x20 && d|0x20 <= 'f') {
			return errDigest
		}
	}
	return nil
}

// holds reports whether v, a string or the zero Value, meets the condition. A missing key is equal to no value.
func (c *condition) holds(v value.Value) bool {
	exists := v.Exists()
	switch c.is {
	case equal:
		return exists && equals(v, c.arg)
	case different:
		return !exists || !equals(v, c.arg)
	case sameDigest:
		return exists && c.matches(v)
	case otherDigest:
		return !exists || !c.matches(v)
	}
	return true
}

func (c *condition) matches(v value.Value) bool {
	var room [digestLength]byte
	return ascii.EqualFold(c.arg, string(appendDigest(nil, room[:0], v)))
}

// equals reports whether a string has exactly these bytes. It compares a long string piece by piece.
func equals(v value.Value, text []byte) bool {
	if v.Len() != len(text) {
		return false
	}
	for piece := range v.Chunks {
		if !bytes.Equal(piece, text[:len(piece)]) {
			return false
		}
		text = text[len(piece):]
	}
	return true
}

// appendDigest appends the 64-bit XXH3 hash of a string, as 16 hexadecimal digits.
//
// Cost: BenchmarkDigest shows the time for a megabyte. A long string is read piece by piece, and not copied as a whole.
// r is nil if no long read needs the hash.
func appendDigest(r *command.Reading, dst []byte, v value.Value) []byte {
	var sum uint64
	if b, ok := v.Contiguous(); ok {
		sum = xxh3.Hash(b)
	} else {
		var h xxh3.Hasher
		for piece := range v.Chunks {
			if r != nil {
				r.Steps(len(piece) >> 10)
			}
			h.Write(piece)
		}
		sum = h.Sum64()
	}
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[sum>>shift&15])
	}
	return dst
}

// digest is DIGEST key. Replies: the XXH3 hash of the string as 16 hexadecimal digits, or null. Errors: ErrWrongType.
func digest(c *command.Context) error {
	v, err := readString(c, c.Args[1])
	if err != nil {
		return err
	}
	if !v.Exists() {
		c.Reply.Null()
		return nil
	}
	return answerDigest(c, v)
}

func answerDigest(c *command.Context, v value.Value) error {
	if c.IsLong(length(v) >> 10) {
		return c.ReadBeside(func(r *command.Reading) error {
			replyDigest(r, v)
			return nil
		})
	}
	replyDigest(c.Inline(), v)
	return nil
}

func replyDigest(r *command.Reading, v value.Value) {
	var room [digestLength]byte
	r.Reply.Bulk(appendDigest(r, room[:0], v))
}

// delEx is DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]. Without a condition it removes a key of
// any type.
//
// Replies: 1, or 0 if there is no such key or the condition does not hold. Errors: arity, ErrSyntax, errDigest; with a
// condition also ErrWrongType. Propagates: DEL key.
func delEx(c *command.Context) error {
	var only condition
	switch len(c.Args) {
	case 2:
	case 4:
		only = condition{is: comparisonOf(c.Args[2]), arg: c.Args[3]}
		if only.is == always {
			return protocol.ErrSyntax
		}
	default:
		return command.ErrArity(c.Spec)
	}
	return delIf(c, only)
}

// delIfEq is DELIFEQ key value, Valkey's name for DELEX key IFEQ value.
func delIfEq(c *command.Context) error { return delIf(c, condition{is: equal, arg: c.Args[2]}) }

func delIf(c *command.Context, only condition) error {
	key := c.Args[1]
	v := c.DB.LookupWrite(key)
	if !v.Exists() {
		c.Reply.Int(0)
		return nil
	}
	if only.is != always && v.Type() != value.String {
		return protocol.ErrWrongType
	}
	if err := only.check(); err != nil {
		return err
	}
	if !only.holds(v) {
		c.Reply.Int(0)
		return nil
	}
	c.DB.Delete(key)
	c.Changed(1)
	c.Propagate(wordDel, key)
	c.Notify(command.EventGeneric, "del", key)
	c.Reply.Int(1)
	return nil
}
