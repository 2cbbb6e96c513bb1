// Package resp3 gives RESP2 replies the form that they have in RESP3, command by command. A client may so speak RESP3
// over servers that know RESP2 only.
//
// Owner: its caller; pure functions over bytes.
// Never: guesses. A command that is not in the tables of shapes.go has no form here.
// Start at Append.
package resp3

import (
	"bytes"
	"errors"
	"strconv"
)

// A Shape says what of a reply has another form in RESP3. Nulls always have one: _ for $-1 and *-1. A reply that is no
// array has no part of an array's shape: LCS is a string, and with IDX a map. nil is the plain shape.
type Shape struct {
	kind  kind
	of    *Shape            // of the elements, or of the values
	parts []*Shape          // of a tuple
	named map[string]*Shape // of fields
}

type kind uint8

const (
	plain   kind = iota
	double       // a string becomes a double
	text         // a string becomes a verbatim string
	each         // an array stays one; its elements have the shape of
	set          // an array becomes a set
	pairs        // a flat array becomes an array of pairs, the second of the shape of
	flat         // a flat array becomes a map with values of the shape of
	entries      // an array of pairs becomes a map
	some         // as each, but without elements it becomes a set
	tuple        // each element has its own shape
	fields       // a flat array becomes a map, whose values have shapes by their names
)

// depthMost bounds how deep a reply may be nested.
const depthMost = 1000

var errUnlike = errors.New("the reply has not the form that the command has in RESP2")

// Append appends the RESP3 form of p, a whole RESP2 reply.
//
// Errors: p has not the shape.
func (s *Shape) Append(dst, p []byte) ([]byte, error) {
	dst, rest, err := s.value(dst, p, 0)
	if err == nil && len(rest) > 0 {
		err = errUnlike
	}
	return dst, err
}

// head cuts a header: n of "*n\r\n" or "$n\r\n".
func head(p []byte) (n int, line, rest []byte, err error) {
	end := bytes.IndexByte(p, '\n')
	if end < 2 {
		return 0, nil, nil, errUnlike
	}
	line, rest = p[:end+1], p[end+1:]
	if line[0] == '$' || line[0] == '*' {
		if n, err = strconv.Atoi(string(line[1 : end-1])); err != nil {
			return 0, nil, nil, errUnlike
		}
	}
	return n, line, rest, nil
}

func appendHead(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), '\r', '\n')
}

// value appends the form of the value at the beginning of p, and returns the rest of p.
func (s *Shape) value(dst, p []byte, depth int) (out, rest []byte, err error) {
	n, line, rest, err := head(p)
	if err != nil || depth > depthMost {
		return nil, nil, errUnlike
	}
	switch {
	case line[0] == '+' || line[0] == '-' || line[0] == ':':
		return append(dst, line...), rest, nil
	case line[0] != '$' && line[0] != '*':
		return nil, nil, errUnlike
	case n < 0:
		return append(dst, "_\r\n"...), rest, nil
	case line[0] == '*':
		return s.array(dst, rest, n, depth+1)
	case len(rest) < n+2:
		return nil, nil, errUnlike
	}
	body := rest[:n]
	switch {
	case s == nil:
		dst = append(dst, line...)
	case s.kind == double:
		if _, err := strconv.ParseFloat(string(body), 64); err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, nil, errUnlike
		}
		dst = append(dst, ',')
	case s.kind == text:
		dst = append(appendHead(dst, '=', n+4), "txt:"...)
	default:
		dst = append(dst, line...)
	}
	return append(dst, rest[:n+2]...), rest[n+2:], nil
}

// array appends the form of an array of n elements, which p begins with.
func (s *Shape) array(dst, p []byte, n, depth int) (out, rest []byte, err error) {
	kind := plain
	if s != nil {
		kind = s.kind
	}
	switch {
	case kind == set, kind == some && n == 0:
		dst = appendHead(dst, '~', n)
	case kind == entries:
		dst = appendHead(dst, '%', n)
	case kind == pairs, kind == flat, kind == fields:
		if n%2 != 0 {
			return nil, nil, errUnlike
		}
		letter := byte('%')
		if kind == pairs {
			letter = '*'
		}
		dst = appendHead(dst, letter, n/2)
	default:
		dst = appendHead(dst, '*', n)
	}
	var name []byte
	for i := range n {
		if kind == pairs && i%2 == 0 {
			dst = append(dst, "*2\r\n"...)
		}
		if kind == entries {
			two, line, after, err := head(p)
			if err != nil || line[0] != '*' || two != 2 {
				return nil, nil, errUnlike
			}
			if dst, p, err = (*Shape)(nil).value(dst, after, depth); err != nil {
				return nil, nil, err
			}
		}
		at := len(dst)
		if dst, p, err = s.part(kind, i, name).value(dst, p, depth); err != nil {
			return nil, nil, err
		}
		if kind == fields && i%2 == 0 {
			_, _, name, _ = head(dst[at:])
			name = bytes.Clone(bytes.TrimSuffix(name, []byte("\r\n")))
		}
	}
	return dst, p, nil
}

// part returns the shape of the i-th element. name is the one before it, of fields.
func (s *Shape) part(kind kind, i int, name []byte) *Shape {
	switch kind {
	case each, set, entries, some:
		return s.of
	case pairs, flat:
		if i%2 == 1 {
			return s.of
		}
	case fields:
		if i%2 == 1 {
			return s.named[string(name)]
		}
	case tuple:
		if i < len(s.parts) {
			return s.parts[i]
		}
	}
	return nil
}
