// Package scan finds the ends of RESP2 and RESP3 replies in the bytes of a connection.
//
// Owner: its caller; one Scanner a connection.
// Never: keeps bytes, allocates, or makes values of a reply; respclient does that.
package scan

import (
	"bytes"
	"fmt"
)

// Bounds of a server's replies. The bounds of strings and lines are far above what a server sends. The depth is bounded
// because a client can choose what a script returns, and shares the connection with other clients.
const (
	maxBytes = 4 << 30            // a string, or a line of text
	maxCount = 1 << 31            // the elements of one aggregate
	maxLeft  = 1 << 40            // the elements that a whole reply still lacks
	maxWord  = len("CLUSTERDOWN") // the longest word of a Refusal
)

// A Refusal is the first word of an error reply, if a proxy or a client of a cluster acts on it.
type Refusal uint8

const (
	NotRefused  Refusal = iota // no error
	OtherError                 // an error with another first word
	Moved                      // MOVED: another node owns the slot
	Ask                        // ASK: another node imports the slot; it may have the key
	TryAgain                   // TRYAGAIN: the keys are on two nodes while their slot moves
	ClusterDown                // CLUSTERDOWN: the cluster, or the slot, is not served
	Loading                    // LOADING: the node still loads its data
	ReadOnly                   // READONLY: the node is a replica now
	PrimaryDown                // MASTERDOWN: the node is a replica without its primary
	NoScript                   // NOSCRIPT: the node does not have the script
)

// A Scanner finds the ends of the replies of one connection, in RESP2 and RESP3. The zero value is ready.
//
//	p:  $5\r\nhello\r\n  *2\r\n:1\r\n$3\r\nab
//	    '---- n = 11 ---'  '--- n = 13, not complete ---   the rest comes with the next Scan
//
// It keeps no bytes: each Scan gets bytes that it has not seen. A reply may be nested to any depth, because only the
// number of missing elements is kept. A caller that wants to bound a reply's length adds up the results of Scan.
//
// scan.S1. How the bytes are cut into Scans changes neither the ends nor the error, nor the error's place.
// scan.S2. A push and an attribute before a reply are frames with their own ends. Their Kind is '>' or '|'. An
// attribute inside a reply is a part of it.
type Scanner struct {
	Kind    byte    // the first byte of the current reply, or of the last one if none has begun
	Refusal Refusal // the reply's Refusal, once its first word is complete

	state  state
	nested bool // the current element is inside an aggregate
	minus  bool // a number began with '-'
	cr     bool // the last byte of a line of text was CR
	spell  bool // word is still being read
	elem   byte // the first byte of the current element
	digits uint8
	length uint8 // length of word
	word   [maxWord]byte
	left   int64 // elements that are not complete; 0 between replies
	value  int64 // value of the number
	rest   int64 // bytes of a string that are still missing; bytes of a line that have come
}

// A state says what the next byte belongs to.
type state uint8

const (
	inType    state = iota // an element's first byte
	inNumber               // of a number or a length
	inText                 // of a line
	inFlag                 // 't' or 'f'
	inBytes                // of a string
	inEnd                  // the CR after a string, a flag or a null
	inNewline              // the LF after that CR, for an element that is then complete
	inHeader               // the LF after a number
)

// Scan takes bytes of the current reply from p and returns how many. If the reply ends there, complete is true.
// Otherwise n is len(p), unless there is an error.
//
// Errors: the bytes are not a reply. n is the offset of the first wrong byte. The connection cannot be used any more.
// Cost: no allocation; a few ns for a status, a number or a string that is whole in p (BenchmarkScan).
// Source: the RESP2 and RESP3 specifications. Streamed strings and aggregates are refused; no server sends them.
func (s *Scanner) Scan(p []byte) (n int, complete bool, err error) {
	if s.left == 0 {
		if len(p) == 0 {
			return 0, false, nil
		}
		s.Kind, s.Refusal = p[0], NotRefused
		if n := shortReply(p); n > 0 {
			return n, true, nil
		}
		s.left, s.spell, s.length = 1, p[0] == '-', 0
		if p[0] == '!' {
			s.Refusal = OtherError
		}
	}
	return s.resume(p)
}

// Idle reports whether no reply has begun.
func (s *Scanner) Idle() bool { return s.left == 0 }

// Reset forgets the current reply, so that the scanner can serve another connection.
func (s *Scanner) Reset() { *s = Scanner{} }

// shortLine is the longest status that shortReply looks for.
const shortLine = 24

// shortReply returns the length of a reply that is whole at the start of p, otherwise 0. It handles short statuses,
// numbers, nulls, booleans and strings.
func shortReply(p []byte) int {
	if len(p) < 4 {
		if len(p) == 3 && string(p) == "_\r\n" {
			return 3
		}
		return 0
	}
	switch p[0] {
	case '$':
		size, at := shortHeader(p, '$')
		if size < 0 {
			if len(p) >= 5 && string(p[:5]) == "$-1\r\n" {
				return 5
			}
			return 0
		}
		if end := at + size; end <= len(p)-2 && p[end] == '\r' && p[end+1] == '\n' {
			return end + 2
		}
	case ':':
		if p[1] == '-' {
			if n, at := shortHeader(p[1:], '-'); n > 0 {
				return at + 1
			}
		} else if n, at := shortHeader(p, ':'); n >= 0 {
			return at
		}
	case '+':
		if p[3] == '\r' && len(p) >= 5 && p[4] == '\n' && p[1] != '\r' && p[2] != '\r' { // OK
			return 5
		}
		for i := 1; i < len(p)-1 && i < shortLine; i++ {
			if p[i] == '\r' {
				if p[i+1] == '\n' {
					return i + 2
				}
				return 0
			}
		}
	case '_':
		if p[1] == '\r' && p[2] == '\n' {
			return 3
		}
	case '#':
		if (p[1] == 't' || p[1] == 'f') && p[2] == '\r' && p[3] == '\n' {
			return 4
		}
	}
	return 0
}

// resume continues with the current reply.
func (s *Scanner) resume(p []byte) (at int, complete bool, err error) {
	for at < len(p) {
		c := p[at]
		switch s.state {
		case inType:
			if n := shortReply(p[at:]); n > 0 {
				at += n
				if s.endElement() {
					return at, true, nil
				}
				continue
			}
			if err := s.beginElement(c); err != nil {
				return at, false, err
			}
			at++
		case inNumber:
			if c == '\r' && s.digits > 0 {
				s.state = inHeader
			} else if err := s.digit(c); err != nil {
				return at, false, err
			}
			at++
		case inHeader:
			if c != '\n' {
				return at, false, wrongByte(c, "in the place of the LF after a number")
			}
			if err := s.endNumber(); err != nil {
				return at, false, err
			}
			at++
			if s.left == 0 {
				return at, true, nil
			}
		case inText:
			n, ended, err := s.text(p[at:])
			at += n
			if err != nil {
				return at, false, err
			}
			if ended && s.endElement() {
				return at, true, nil
			}
		case inFlag:
			if c != 't' && c != 'f' {
				return at, false, wrongByte(c, "as a boolean")
			}
			s.state = inEnd
			at++
		case inBytes:
			n := min(s.rest, int64(len(p)-at))
			at += int(n)
			if s.rest -= n; s.rest == 0 {
				s.state = inEnd
			}
		case inEnd:
			if c != '\r' {
				return at, false, wrongByte(c, "in the place of a CR")
			}
			s.state = inNewline
			at++
		case inNewline:
			if c != '\n' {
				return at, false, wrongByte(c, "in the place of a LF")
			}
			at++
			if s.endElement() {
				return at, true, nil
			}
		}
	}
	return at, false, nil
}

// beginElement handles an element's first byte.
func (s *Scanner) beginElement(c byte) error {
	s.elem = c
	switch c {
	case '+', '-', ',', '(':
		s.state, s.rest, s.cr = inText, 0, false
	case ':', '$', '!', '=', '*', '~', '%', '|':
		s.state, s.value, s.digits, s.minus = inNumber, 0, 0, false
	case '>':
		if s.nested {
			return fmt.Errorf("a push inside a reply")
		}
		s.state, s.value, s.digits, s.minus = inNumber, 0, 0, false
	case '#':
		s.state = inFlag
	case '_':
		s.state = inEnd
	default:
		return wrongByte(c, "as the type of a reply")
	}
	return nil
}

// endElement reports whether the whole reply is complete with this element.
func (s *Scanner) endElement() bool {
	s.state = inType
	s.left--
	if s.left > 0 {
		return false
	}
	s.nested = false
	return true
}

// digit handles one byte of a number other than its CR.
func (s *Scanner) digit(c byte) error {
	switch {
	case c == '-' && s.digits == 0 && !s.minus:
		s.minus = true
		return nil
	case c == '?' && s.digits == 0 && !s.minus:
		return fmt.Errorf("a streamed reply of type %q", s.elem)
	case c < '0' || c > '9' || s.digits == 19:
		return wrongByte(c, "in a number")
	case s.digits == 1 && s.value == 0, c == '0' && s.minus && s.digits == 0:
		return wrongByte(c, "in a number: a leading zero")
	}
	s.digits++
	s.value = s.value*10 + int64(c-'0') // may overflow with 19 digits, which only an integer may have
	if s.elem != ':' && s.value > maxBytes {
		return fmt.Errorf("a length of more than %d in a reply of type %q", int64(maxBytes), s.elem)
	}
	return nil
}

// endNumber handles the LF after a number. The number is an integer reply, or the length of what follows.
func (s *Scanner) endNumber() error {
	if s.elem == ':' {
		s.endElement()
		return nil
	}
	n := s.value
	if s.minus {
		if n != 1 || s.elem != '$' && s.elem != '*' {
			return fmt.Errorf("a negative length in a reply of type %q", s.elem)
		}
		s.endElement() // a null of RESP2
		return nil
	}
	switch s.elem {
	case '$', '!', '=':
		s.state, s.rest = inBytes, n
		if n == 0 {
			s.state = inEnd
		}
		return nil
	case '%', '|':
		n *= 2
	}
	if n > maxCount || s.left+n > maxLeft {
		return fmt.Errorf("too many elements: %d in a reply of type %q", n, s.elem)
	}
	if s.elem == '|' && s.nested {
		s.left++ // an attribute is not an element: the next value is
	}
	s.nested = true
	s.left += n
	s.endElement()
	return nil
}

// text handles bytes of a line. ended means that the line's CRLF was among them.
func (s *Scanner) text(p []byte) (n int, ended bool, err error) {
	if s.spell {
		s.spellWord(p)
	}
	for n < len(p) {
		if s.cr && p[n] == '\n' {
			return n + 1, true, nil
		}
		lf := bytes.IndexByte(p[n:], '\n')
		if lf < 0 {
			lf = len(p) - n
		} else if lf > 0 && p[n+lf-1] == '\r' {
			return n + lf + 1, true, nil
		} else {
			lf++ // a LF alone ends no line
		}
		n += lf
		s.cr = p[n-1] == '\r'
		if s.rest += int64(lf); s.rest > maxBytes {
			return n, false, fmt.Errorf("a line of more than %d bytes", int64(maxBytes))
		}
	}
	return n, false, nil
}

// spellWord reads an error's first word, up to a space or the CR.
func (s *Scanner) spellWord(p []byte) {
	for _, c := range p {
		if c == ' ' || c == '\r' {
			s.spell, s.Refusal = false, refusalOf(s.word[:s.length])
			return
		}
		if int(s.length) == len(s.word) {
			s.spell, s.Refusal = false, OtherError
			return
		}
		s.word[s.length] = c
		s.length++
	}
}

func refusalOf(word []byte) Refusal {
	switch string(word) {
	case "MOVED":
		return Moved
	case "ASK":
		return Ask
	case "TRYAGAIN":
		return TryAgain
	case "CLUSTERDOWN":
		return ClusterDown
	case "LOADING":
		return Loading
	case "READONLY":
		return ReadOnly
	case "MASTERDOWN":
		return PrimaryDown
	case "NOSCRIPT":
		return NoScript
	}
	return OtherError
}

func wrongByte(c byte, where string) error { return fmt.Errorf("byte %q %s", c, where) }

// shortHeader reads kind, one to nine digits, CR and LF at the start of p. It returns the number and the offset after
// them. For an incomplete, wrong or unusual header n is -1.
func shortHeader(p []byte, kind byte) (n, next int) {
	if len(p) < 4 || p[0] != kind {
		return -1, 0
	}
	n = int(p[1] - '0')
	if n > 9 || n == 0 && p[2] != '\r' {
		return -1, 0
	}
	for i := 2; i < len(p)-1 && i < 11; i++ {
		c := p[i]
		if c == '\r' {
			if p[i+1] != '\n' {
				return -1, 0
			}
			return n, i + 2
		}
		digit := int(c - '0')
		if digit > 9 {
			return -1, 0
		}
		n = n*10 + digit
	}
	return -1, 0
}
