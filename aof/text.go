package aof

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// A text splits the text of a log into units. A unit is a command alone, or all commands between MULTI and EXEC.
//
//	#TS:1628217470\r\n                                     an annotation, skipped
//	*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n              a command, which is a unit
//	*1\r\n$5\r\nMULTI\r\n … *1\r\n$4\r\nEXEC\r\n           a unit of several commands
//
// aof.S1. buf[from:to] are the bytes that are read but not returned yet. They begin with the unit that is being read.
// aof.S2. An annotation has no zero byte. A power cut can leave zeros in its place. Its line would end in a later
// command, and all commands between would be skipped.
// Source: the append-only file's format, which is RESP's with annotations in between.
type text struct {
	r        io.Reader
	buf      []byte
	from, to int
	offset   int64 // offset of buf[from] in the file
	lines    int64 // lines before buf[from]
	ended    bool
	second   int64 // the last annotation's; 0: there was none
	until    int64 // Unix seconds: a later annotation ends the text with errLater; 0: none does
	strict   bool  // MULTI inside a transaction and EXEC outside of one are errors; a load ignores them

	args  [][]byte // the memory from which commands are cut
	units commands
	torn  commands // with errTruncated: the commands of a transaction without an end
	where spot     // of the last fault
}

// commands are the commands of one or several units, in order. The arguments point into the text's buffer.
type commands [][][]byte

// A spot is a place in a file.
type spot struct {
	offset int64 // the file is good up to here
	line   int64 // the line of the fault
	at     int64 // of the fault itself
}

var (
	errFormat    = errors.New("bad file format")
	errTruncated = errors.New("unexpected end of file")
	errLater     = errors.New("what follows came later")
)

// An unexpected is the name of a command that is not allowed at its place.
type unexpected string

func (e unexpected) Error() string { return "Unexpected " + string(e) }

// How many bytes a text reads at a time.
const (
	streamBuffer = 256 << 10
	streamBatch  = 512     // commands that next returns at once, perhaps a unit more
	streamMost   = 1 << 40 // bound of arguments and bytes of a command: more than proto-max-bulk-len and memory allow
)

func newText(r io.Reader) *text { return &text{r: r, buf: make([]byte, streamBuffer)} }

// next returns the units that have been read completely: at least one unit, and some hundred commands at most.
//
// Lifetime: the commands hold until the next call.
// Errors: io.EOF; errFormat and errTruncated, with the spot in where; the reader's.
func (s *text) next() (commands, error) {
	s.args, s.units = s.args[:0], s.units[:0]
	for {
		n, err := s.unit(s.buf[s.from:s.to])
		switch {
		case err != nil && len(s.units) > 0:
			return s.units, nil // the next call returns the fault
		case err != nil:
			return nil, err
		case n > 0:
			s.lines += int64(bytes.Count(s.buf[s.from:s.from+n], lineEnd))
			s.from += n
			s.offset += int64(n)
			if len(s.units) < streamBatch {
				continue
			}
		}
		if len(s.units) > 0 {
			return s.units, nil
		}
		if s.ended {
			if s.from == s.to {
				return nil, io.EOF
			}
			s.where = spot{s.offset, s.line(s.buf[s.from:s.to]), s.offset + int64(s.to-s.from)}
			return nil, errTruncated
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more bytes, after those in the buffer.
func (s *text) fill() error {
	if s.from > 0 {
		s.to = copy(s.buf, s.buf[s.from:s.to])
		s.from = 0
	}
	if s.to == len(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	n, err := s.r.Read(s.buf[s.to:])
	s.to += n
	if err == io.EOF {
		s.ended, err = true, nil
	}
	return err
}

// line is the number of the line after p, which begins at from.
func (s *text) line(p []byte) int64 { return s.lines + int64(bytes.Count(p, lineEnd)) + 1 }

// unit reads one unit from the beginning of p and appends its commands to units. n is the unit's length, or 0 if p has
// only a part of it. An annotation is a unit without commands.
func (s *text) unit(p []byte) (n int, err error) {
	args, units := len(s.args), len(s.units)
	inside := false
	for n < len(p) {
		if p[n] == '#' {
			end := bytes.IndexByte(p[n:], '\n')
			if end < 0 {
				break
			}
			if bytes.IndexByte(p[n:n+end], 0) >= 0 { // aof.S2
				s.where = spot{s.offset, s.line(p[:n]), s.offset + int64(n)}
				s.units = s.units[:units]
				return 0, errFormat
			}
			second := secondOf(p[n : n+end])
			if s.until > 0 && second > s.until {
				s.where = spot{offset: s.offset}
				s.units = s.units[:units]
				return 0, errLater
			}
			if second > 0 {
				s.second = second
			}
			if n += end + 1; !inside {
				return n, nil
			}
			continue
		}
		args, length, err := s.command(p[n:])
		if err != nil {
			s.where = spot{s.offset, s.line(p[:n]), s.offset + int64(n)}
			s.units = s.units[:units] // nothing of an incomplete unit
			return 0, err
		}
		if length == 0 {
			break
		}
		word := ""
		switch name := args[0]; {
		case !s.strict:
		case inside && isWord(name, "MULTI"):
			word = "MULTI"
		case !inside && isWord(name, "EXEC"):
			word = "EXEC"
		}
		if word != "" {
			s.where = spot{s.offset, s.line(p[:n]), s.offset + int64(n)}
			s.units = s.units[:units]
			return 0, unexpected(word)
		}
		n += length
		switch name := args[0]; {
		case !inside && isWord(name, "MULTI"):
			inside = true
		case isWord(name, "EXEC"):
			return n, nil
		case inside && isWord(name, "MULTI"):
		default:
			if s.units = append(s.units, args); !inside {
				return n, nil
			}
		}
	}
	if s.ended {
		s.torn = slices.Clone(s.units[units:])
	}
	s.args, s.units = s.args[:args], s.units[:units]
	return 0, nil
}

// command reads one command from the beginning of p. n is the command's length, or 0 if p has only a part of it.
func (s *text) command(p []byte) (args [][]byte, n int, err error) {
	count, n, err := header(p, '*')
	if n == 0 || err != nil {
		return nil, 0, err
	}
	if count < 1 {
		return nil, 0, errFormat
	}
	first := len(s.args)
	for range count {
		length, digits, err := header(p[n:], '$')
		if digits == 0 || err != nil {
			return nil, 0, err
		}
		n += digits
		if n+length+2 > len(p) {
			return nil, 0, nil
		}
		if p[n+length] != '\r' || p[n+length+1] != '\n' {
			return nil, 0, errFormat
		}
		s.args = append(s.args, p[n:n+length:n+length])
		n += length + 2
	}
	return s.args[first:len(s.args):len(s.args)], n, nil
}

// header reads a line of a sign and a number. n is the line's length, or 0 if p has only a part of it.
func header(p []byte, sign byte) (value, n int, err error) {
	if len(p) == 0 {
		return 0, 0, nil
	}
	if p[0] != sign {
		return 0, 0, errFormat
	}
	for n = 1; n < len(p); n++ {
		c := p[n]
		if c == '\r' {
			break
		}
		if c < '0' || c > '9' || value > streamMost {
			return 0, 0, errFormat
		}
		value = value*10 + int(c-'0')
	}
	if n == 1 && n < len(p) || value > streamMost {
		return 0, 0, errFormat
	}
	if n+1 >= len(p) {
		return 0, 0, nil
	}
	if p[n+1] != '\n' {
		return 0, 0, errFormat
	}
	return value, n + 2, nil
}

var lineEnd = []byte("\n")

// isWord compares a command's name with a word in capitals.
func isWord(name []byte, word string) bool {
	return len(name) == len(word) && bytes.EqualFold(name, []byte(word))
}

// secondOf returns the second that an annotation names, or 0 if it names none.
func secondOf(line []byte) int64 {
	digits, found := bytes.CutPrefix(line, []byte("#TS:"))
	if !found {
		return 0
	}
	return leadingNumber(string(digits))
}
