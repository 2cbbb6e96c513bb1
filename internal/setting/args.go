package setting

import (
	"errors"
	"strings"
)

// ErrQuotes is the error for a line with an unclosed quote, or with other text directly after a quote.
var ErrQuotes = errors.New("Unbalanced quotes in configuration line")

// SplitArgs splits a line into arguments at blanks. "…" may hold \n \r \t \b \a \xHH and \ before any other byte; '…'
// only knows \'. A blank or the end must follow a quote.
func SplitArgs(line string) ([]string, error) {
	args := []string{}
	for at := 0; ; {
		for at < len(line) && isBlank(line[at]) {
			at++
		}
		if at == len(line) {
			return args, nil
		}
		arg, n, err := cutArg(line[at:])
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
		at += n
	}
}

// cutArg reads one argument and returns how many bytes of s it has used.
func cutArg(s string) (string, int, error) {
	var arg []byte
	for at := 0; at < len(s); {
		switch c := s[at]; {
		case isBlank(c):
			return string(arg), at, nil
		case c == '"' || c == '\'':
			inside, n, err := cutQuoted(s[at:])
			if err != nil {
				return "", 0, err
			}
			arg = append(arg, inside...)
			return string(arg), at + n, nil
		default:
			arg = append(arg, c)
			at++
		}
	}
	return string(arg), len(s), nil
}

// cutQuoted reads the text between s[0], a quote, and its closing quote.
func cutQuoted(s string) ([]byte, int, error) {
	quote := s[0]
	inside := []byte{}
	for at := 1; at < len(s); at++ {
		c := s[at]
		switch {
		case c == quote:
			if at+1 < len(s) && !isBlank(s[at+1]) {
				return nil, 0, ErrQuotes
			}
			return inside, at + 1, nil
		case c == '\\' && quote == '\'' && at+1 < len(s) && s[at+1] == '\'':
			at++
			inside = append(inside, '\'')
		case c == '\\' && quote == '"' && at+1 < len(s):
			b, n := unescape(s[at+1:])
			inside = append(inside, b)
			at += n
		default:
			inside = append(inside, c)
		}
	}
	return nil, 0, ErrQuotes
}

// unescape reads the text after a backslash and returns how many bytes it has used.
func unescape(s string) (byte, int) {
	switch s[0] {
	case 'x':
		if len(s) >= 3 && isHex(s[1]) && isHex(s[2]) {
			return hexDigit(s[1])<<4 | hexDigit(s[2]), 3
		}
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'b':
		return '\b', 1
	case 'a':
		return '\a', 1
	}
	return s[0], 1
}

// Quote writes s so that SplitArgs reads it back as one argument.
func Quote(s string) string { return string(AppendQuoted(nil, s)) }

// AppendQuoted appends Quote's text to dst.
func AppendQuoted[S []byte | string](dst []byte, s S) []byte {
	const escaped, letters, hex = "\\\"\n\r\t\a\b", `\"nrtab`, "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c <= '~' && c != '"' && c != '\\' {
			dst = append(dst, c)
		} else if at := strings.IndexByte(escaped, c); at >= 0 {
			dst = append(dst, '\\', letters[at])
		} else {
			dst = append(dst, '\\', 'x', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, '"')
}

func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func hexDigit(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
