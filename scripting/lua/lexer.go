package lua

import (
	"errors"
	"strconv"
	"strings"
)

type token int

const (
	tokAnd token = iota + 257
	tokBreak
	tokDo
	tokElse
	tokElseif
	tokEnd
	tokFalse
	tokFor
	tokFunction
	tokIf
	tokIn
	tokLocal
	tokNil
	tokNot
	tokOr
	tokRepeat
	tokReturn
	tokThen
	tokTrue
	tokUntil
	tokWhile
	tokConcat
	tokDots
	tokEq
	tokGe
	tokLe
	tokNe
	tokNumber
	tokName
	tokString
	tokEOS
)

var tokenTexts = [...]string{"and", "break", "do", "else", "elseif", "end", "false", "for", "function",
	"if", "in", "local",
	"nil", "not", "or", "repeat", "return", "then", "true", "until", "while", "..", "...", "==", ">=", "<=", "~=",
	"<number>", "<name>", "<string>", "<eof>"}

var reservedWords = func() map[string]token {
	words := map[string]token{}
	for i, text := range tokenTexts[:tokWhile-tokAnd+1] {
		words[text] = tokAnd + token(i)
	}
	return words
}()

func tokenText(t token) string {
	if t >= tokAnd {
		return tokenTexts[t-tokAnd]
	}
	if isControl(byte(t)) {
		return "char(" + strconv.Itoa(int(t)) + ")"
	}
	return string([]byte{byte(t)})
}

// A SyntaxError is Compile's error for invalid source. Its text has the position.
type SyntaxError struct{ Text string }

func (e *SyntaxError) Error() string { return e.Text }

const endOfSource = -1

var errNeedsMore = errors.New("the source ends too early")

// A lexer cuts source text into tokens.
type lexer struct {
	src       string
	more      bool // more may follow src: a read past it panics with errNeedsMore
	at        int  // of the byte after current
	current   int
	line      int // of current
	lastLine  int // of the last token consumed
	tok       token
	text      string // of a name or string
	number    float64
	ahead     token // tokEOS if none
	aheadText string
	aheadNum  float64
	buf       []byte
	source    string
}

func (l *lexer) next() {
	if l.at < len(l.src) {
		l.current = int(l.src[l.at])
		l.at++
		return
	}
	if l.more {
		panic(errNeedsMore)
	}
	l.current = endOfSource
}

func (l *lexer) save(c int) { l.buf = append(l.buf, byte(c)) }

func (l *lexer) saveAndNext() {
	l.save(l.current)
	l.next()
}

// fail ends the compilation. near is the token that the text shows, or 0.
func (l *lexer) fail(text string, near token) {
	text = chunkID(l.source, 80) + ":" + strconv.Itoa(l.line) + ": " + text
	if near != 0 {
		shown := ""
		switch near {
		case tokName, tokString, tokNumber:
			shown = string(l.buf)
			if zero := strings.IndexByte(shown, 0); zero >= 0 {
				shown = shown[:zero]
			}
		default:
			shown = tokenText(near)
		}
		text += " near '" + shown + "'"
	}
	panic(&SyntaxError{text})
}

func (l *lexer) syntaxError(text string) { l.fail(text, l.tok) }

func (l *lexer) isNewline() bool { return l.current == '\n' || l.current == '\r' }

func (l *lexer) newline() {
	old := l.current
	l.next()
	if l.isNewline() && l.current != old {
		l.next()
	}
	l.line++
}

func (l *lexer) advance() {
	l.lastLine = l.line
	if l.ahead != tokEOS {
		l.tok, l.text, l.number = l.ahead, l.aheadText, l.aheadNum
		l.ahead = tokEOS
		return
	}
	l.tok = l.scan()
}

// lookahead reads the token after the current one.
func (l *lexer) lookahead() {
	text, number := l.text, l.number
	l.ahead = l.scan()
	l.aheadText, l.aheadNum = l.text, l.number
	l.text, l.number = text, number
}

func (l *lexer) checkNext(set string) bool {
	if l.current == endOfSource || l.current != 0 && strings.IndexByte(set, byte(l.current)) < 0 {
		return false
	}
	l.saveAndNext() // as in C's strchr, a zero byte is in every set
	return true
}

func (l *lexer) readNumber() {
	for {
		l.saveAndNext()
		if !(isDigit(l.current) || l.current == '.') {
			break
		}
	}
	if l.checkNext("Ee") {
		l.checkNext("+-")
	}
	for isAlnum(l.current) || l.current == '_' {
		l.saveAndNext()
	}
	text := string(l.buf)
	if zero := strings.IndexByte(text, 0); zero >= 0 {
		text = text[:zero]
	}
	f, ok := parseNumber(text)
	if !ok {
		l.fail("malformed number", tokNumber)
	}
	l.number = f
}

// skipSeparator reads [==[ up to the second bracket and returns the number of =. If there is no second bracket, it
// returns a negative number.
func (l *lexer) skipSeparator() int {
	count, s := 0, l.current
	l.saveAndNext()
	for l.current == '=' {
		l.saveAndNext()
		count++
	}
	if l.current == s {
		return count
	}
	return -count - 1
}

func (l *lexer) readLong(isString bool, sep int) {
	l.saveAndNext()
	if l.isNewline() {
		l.newline()
	}
	for {
		switch l.current {
		case endOfSource:
			if isString {
				l.fail("unfinished long string", tokEOS)
			}
			l.fail("unfinished long comment", tokEOS)
		case '[':
			if l.skipSeparator() == sep {
				l.saveAndNext()
				if sep == 0 {
					l.fail("nesting of [[...]] is deprecated", '[')
				}
			}
		case ']':
			if l.skipSeparator() == sep {
				l.saveAndNext()
				if isString {
					l.text = string(l.buf[2+sep : len(l.buf)-2-sep])
				}
				return
			}
		case '\n', '\r':
			l.save('\n')
			l.newline()
			if !isString {
				l.buf = l.buf[:0]
			}
		default:
			if isString {
				l.saveAndNext()
			} else {
				l.next()
			}
		}
	}
}

var escapes = map[int]int{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

func (l *lexer) readString(quote int) {
	l.saveAndNext()
	for l.current != quote {
		switch l.current {
		case endOfSource:
			l.fail("unfinished string", tokEOS)
		case '\n', '\r':
			l.fail("unfinished string", tokString)
		case '\\':
			l.next()
			l.readEscape()
		default:
			l.saveAndNext()
		}
	}
	l.saveAndNext()
	l.text = string(l.buf[1 : len(l.buf)-1])
}

func (l *lexer) readEscape() {
	if c, ok := escapes[l.current]; ok {
		l.save(c)
		l.next()
		return
	}
	switch {
	case l.isNewline():
		l.save('\n')
		l.newline()
	case l.current == endOfSource: // the caller's next step fails
	case !isDigit(l.current):
		l.saveAndNext()
	default:
		c := 0
		for i := 0; i < 3 && isDigit(l.current); i++ {
			c = 10*c + l.current - '0'
			l.next()
		}
		if c > 255 {
			l.fail("escape sequence too large", tokString)
		}
		l.save(c)
	}
}

func (l *lexer) scan() token {
	l.buf = l.buf[:0]
	for {
		switch c := l.current; {
		case l.isNewline():
			l.newline()
		case c == '-':
			l.next()
			if l.current != '-' {
				return '-'
			}
			l.next()
			if l.current == '[' {
				sep := l.skipSeparator()
				l.buf = l.buf[:0]
				if sep >= 0 {
					l.readLong(false, sep)
					l.buf = l.buf[:0]
					continue
				}
			}
			for !l.isNewline() && l.current != endOfSource {
				l.next()
			}
		case c == '[':
			sep := l.skipSeparator()
			if sep >= 0 {
				l.readLong(true, sep)
				return tokString
			}
			if sep == -1 {
				return '['
			}
			l.fail("invalid long string delimiter", tokString)
		case c == '=':
			return l.pair('=', tokEq)
		case c == '<':
			return l.pair('<', tokLe)
		case c == '>':
			return l.pair('>', tokGe)
		case c == '~':
			return l.pair('~', tokNe)
		case c == '"' || c == '\'':
			l.readString(c)
			return tokString
		case c == '.':
			l.saveAndNext()
			if l.checkNext(".") {
				if l.checkNext(".") {
					return tokDots
				}
				return tokConcat
			}
			if !isDigit(l.current) {
				return '.'
			}
			l.readNumber()
			return tokNumber
		case c == endOfSource:
			return tokEOS
		case isSpace(c):
			l.next()
		case isDigit(c):
			l.readNumber()
			return tokNumber
		case isAlpha(c) || c == '_':
			for isAlnum(l.current) || l.current == '_' {
				l.saveAndNext()
			}
			if t, ok := reservedWords[string(l.buf)]; ok {
				return t
			}
			l.text = string(l.buf)
			return tokName
		default:
			l.next()
			return token(c)
		}
	}
}

func (l *lexer) pair(first token, both token) token {
	l.next()
	if l.current != '=' {
		return first
	}
	l.next()
	return both
}

// Character classes of the C locale; endOfSource is in none.
func isDigit(c int) bool { return c >= '0' && c <= '9' }
func isUpper(c int) bool { return c >= 'A' && c <= 'Z' }
func isLower(c int) bool { return c >= 'a' && c <= 'z' }
func isAlpha(c int) bool { return isUpper(c) || isLower(c) }
func isAlnum(c int) bool { return isAlpha(c) || isDigit(c) }
func isSpace(c int) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func isHex(c int) bool   { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
func isPunct(c int) bool { return c > ' ' && c < 127 && !isAlnum(c) }

func isControl(c byte) bool { return c < ' ' || c == 127 }

const shortSource = 60 // chunkID's size in messages of running code

// chunkID returns a chunk's name in messages: the text after = or @, or [string "first line..."]. size is the size of
// C's buffer for it.
func chunkID(source string, size int) string {
	if zero := strings.IndexByte(source, 0); zero >= 0 {
		source = source[:zero]
	}
	switch {
	case strings.HasPrefix(source, "="):
		return source[1:min(len(source), size)]
	case strings.HasPrefix(source, "@"):
		source = source[1:]
		if room := size - len(" '...' ") - 1; len(source) > room {
			source = "..." + source[len(source)-room:]
		}
		return source
	}
	l := strings.IndexAny(source, "\n\r")
	if l < 0 {
		l = len(source)
	}
	l = min(l, size-len(` [string "..."] `)-1)
	if l < len(source) {
		return `[string "` + source[:l] + `..."]`
	}
	return `[string "` + source + `"]`
}
