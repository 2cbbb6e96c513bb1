package load

import "bytes"

// A scanner counts replies in a stream without storing them. It reads RESP2 and RESP3, split in any way.
//
// load.S1. need is the number of values missing from the current reply. The reply is complete when need is 0.
// load.S2. skip is the number of bytes of a bulk string, with its CRLF, that have not arrived. partial is a line
// without its end.
type scanner struct {
	need     int64
	skip     int64
	partial  []byte
	errors   int64
	firstErr string
	nulls    int64
	broken   bool // the bytes are not RESP
}

// feed reads p and returns the number of replies that it completes.
func (s *scanner) feed(p []byte) (replies int64) {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, int64(len(p)))
			if s.skip -= n; s.skip > 0 {
				return replies
			}
			p = p[n:]
			replies += s.value()
			continue
		}
		// Most replies of a fill are +OK.
		if len(s.partial) == 0 && s.need <= 1 && len(p) >= 5 && p[0] == '+' && p[4] == '\n' && p[1] == 'O' {
			p = p[5:]
			replies++
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.partial = append(s.partial, p...)
			return replies
		}
		line := p[:end+1]
		p = p[end+1:]
		if len(s.partial) > 0 {
			s.partial = append(s.partial, line...)
			line = s.partial
			s.partial = s.partial[:0]
		}
		if len(line) < 3 || line[len(line)-2] != '\r' {
			s.broken = true
			return replies
		}
		replies += s.line(line[:len(line)-2])
	}
	return replies
}

// value counts one value of the current reply. It returns 1 if this was the last value, and 0 otherwise.
func (s *scanner) value() int64 {
	if s.need > 1 {
		s.need--
		return 0
	}
	s.need = 0
	return 1
}

func (s *scanner) line(line []byte) int64 {
	switch line[0] {
	case '+', ':', ',', '(', '#':
	case '_':
		s.nulls++
	case '-':
		s.fail(line)
	case '$', '=', '!':
		n, ok := parseLength(line[1:])
		switch {
		case !ok:
			s.broken = true
		case n < 0:
			s.nulls++
		default:
			if line[0] == '!' {
				s.fail(line)
			}
			s.skip = n + 2
			return 0
		}
	case '*', '~', '>', '%', '|':
		n, ok := parseLength(line[1:])
		if !ok {
			s.broken = true
		}
		if n < 0 {
			s.nulls++
			n = 0
		}
		if line[0] == '%' || line[0] == '|' {
			n *= 2
		}
		if line[0] == '|' {
			n++ // attributes come before their value
		}
		s.need = max(s.need, 1) + n
	default:
		s.broken = true
	}
	return s.value()
}

func (s *scanner) fail(line []byte) {
	if s.errors++; s.errors == 1 {
		s.firstErr = string(line)
	}
}

func parseLength(text []byte) (n int64, ok bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) == 0 || len(text) > 15 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
