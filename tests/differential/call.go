package differential

import (
	"strconv"
	"strings"
)

// A call is one command on one of a pair's connections.
type call struct {
	conn   int
	args   []string
	inline bool // sent as one line, like telnet
}

// name returns the command in lower case.
func (c *call) name() string { return strings.ToLower(c.args[0]) }

// appendTo appends the encoded call.
func (c *call) appendTo(dst []byte) []byte {
	if c.inline {
		for i, a := range c.args {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = append(dst, a...)
		}
		return append(dst, '\r', '\n')
	}
	dst = append(strconv.AppendInt(append(dst, '*'), int64(len(c.args)), 10), '\r', '\n')
	for _, a := range c.args {
		dst = append(strconv.AppendInt(append(dst, '$'), int64(len(a)), 10), '\r', '\n')
		dst = append(append(dst, a...), '\r', '\n')
	}
	return dst
}

// plain reports whether an argument needs no quotes in a line: it has no space, quote or unprintable byte.
func plain(arg string) bool {
	if arg == "" {
		return false
	}
	for i := range len(arg) {
		if c := arg[i]; c <= ' ' || c > '~' || c == '"' || c == '\'' || c == '\\' {
			return false
		}
	}
	return true
}

// text returns the call as a line of a transcript.
func (c *call) text() string {
	words := make([]string, len(c.args))
	for i, a := range c.args {
		words[i] = word(a)
	}
	return strings.Join(words, " ")
}

// word returns an argument as in a transcript: plain, quoted, or {n*x} for a long run of one byte.
func word(a string) string {
	if n := len(a); n > 32 && plain(a[:1]) && a[0] != '}' && strings.Count(a, a[:1]) == n {
		return "{" + strconv.Itoa(n) + "*" + a[:1] + "}"
	}
	if plain(a) {
		return a
	}
	return strconv.QuoteToASCII(a)
}
