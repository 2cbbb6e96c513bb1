package protocol

import (
	"fmt"
	"strings"
	"testing"
)

func TestSplitWords(t *testing.T) {
	for _, c := range []struct {
		line string
		want string // %q of the words, or "unbalanced"
	}{
		{``, `[]`},
		{" \t\v\f ", `[]`},
		{`a b`, `["a" "b"]`},
		{"a\vb", `["a\vb"]`},
		{`"a b" c`, `["a b" "c"]`},
		{`a"b c"`, `["ab c"]`},
		{`"a"b`, `unbalanced`},
		{`'a'b`, `unbalanced`},
		{`"a`, `unbalanced`},
		{`'a`, `unbalanced`},
		{`"\x41\n\r\t\b\a\q\\\""`, `["A\n\r\t\b\aq\\\""]`},
		{`"\x4g"`, `["x4g"]`},
		{`"\xfF"`, `["\xff"]`},
		{`'\x41 \' "'`, `["\\x41 ' \""]`},
		{`""`, `[""]`},
		{`'' a`, `["" "a"]`},
		{`a\b`, `["a\\b"]`},
		{`"a\`, `unbalanced`},
		{"a\x00b c", `["a"]`},
		{"\"a\x00b\"", `unbalanced`},
	} {
		args, _, ok := SplitWords([]byte(c.line), nil, nil)
		got := fmt.Sprintf("%q", args)
		if !ok {
			got = "unbalanced"
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.line, got, c.want)
		}
	}
}

// referenceWords is the grammar of SplitWords, written in the simplest way.
func referenceWords(line string) (words []string, ok bool) {
	line, _, _ = strings.Cut(line, "\x00")
	const blanks = " \t\n\v\f\r"
	for {
		line = strings.TrimLeft(line, blanks)
		if line == "" {
			return words, true
		}
		word := ""
		for line != "" && !strings.ContainsRune(" \n\r\t", rune(line[0])) {
			c := line[0]
			line = line[1:]
			if c != '"' && c != '\'' {
				word += string([]byte{c})
				continue
			}
			closed := false
			for line != "" && !closed {
				var a, b byte
				switch {
				case line[0] == c:
					closed = true
					line = line[1:]
				case c == '"' && len(line) >= 4 && line[:2] == `\x` && scanned(line[2:4], &a, &b):
					word += string([]byte{a<<4 | b})
					line = line[4:]
				case c == '"' && len(line) >= 2 && line[0] == '\\':
					if i := strings.IndexByte("nrtba", line[1]); i >= 0 {
						word += "\n\r\t\b\a"[i : i+1]
					} else {
						word += line[1:2]
					}
					line = line[2:]
				case c == '\'' && strings.HasPrefix(line, `\'`):
					word += "'"
					line = line[2:]
				default:
					word += line[:1]
					line = line[1:]
				}
			}
			if !closed || line != "" && !strings.Contains(blanks, line[:1]) {
				return nil, false
			}
			break
		}
		words = append(words, word)
	}
}

func scanned(two string, a, b *byte) bool {
	const digits = "0123456789abcdef"
	i, j := strings.IndexByte(digits, two[0]|0x20*b2i(two[0] > '9')),
		strings.IndexByte(digits, two[1]|0x20*b2i(two[1] > '9'))
	*a, *b = byte(i), byte(j)
	return i >= 0 && j >= 0
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// FuzzInline: SplitWords follows the grammar.
func FuzzInline(f *testing.F) {
	for _, seed := range []string{`set k "a b\x00\n"`, `a"b c" 'd\'e'`, "x\vy \"", `"a"b`, `"\xZZ\x4"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args, _, ok := SplitWords([]byte(line), nil, nil)
		words, wantOK := referenceWords(line)
		if ok != wantOK || ok && fmt.Sprintf("%q", args) != fmt.Sprintf("%q", words) {
			t.Fatalf("%q: %q %t, want %q %t", line, args, ok, words, wantOK)
		}
	})
}

// TestEmptyIsNotNil: an empty argument is not nil, because nil means a missing argument to handlers.
func TestEmptyIsNotNil(t *testing.T) {
	for _, text := range []string{"\"\"\r\n", "SORT l STORE \"\"\r\n", "SORT l STORE ''\r\n", "*1\r\n$0\r\n\r\n",
		"*2\r\n$1\r\nx\r\n$0\r\n\r\n"} {
		p := NewParser(nil)
		n, err := p.Parse([]byte(text))
		if err != nil || n != len(text) || len(p.Requests) != 1 {
			t.Fatalf("%q: %d bytes, %d requests, %v", text, n, len(p.Requests), err)
		}
		for i, arg := range p.Requests[0].Args {
			if arg == nil {
				t.Errorf("%q: argument %d is nil", text, i)
			}
		}
	}
}
