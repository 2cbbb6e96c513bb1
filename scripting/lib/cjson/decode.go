package cjson

import (
	"strconv"
	"strings"
	"unsafe"

	"spindle/scripting/lua"
)

func decode(o *options, c *lua.Call) lua.Outcome {
	if c.Len() != 1 {
		c.ArgError(1, "expected 1 argument")
	}
	text := c.CheckString(1).Str()
	if len(text) >= 2 && (text[0] == 0 || text[1] == 0) {
		c.Error("JSON parser does not support UTF-16 or UTF-32")
	}
	c.Spend(len(text) >> 2)
	d := decoder{c: c, s: c.State(), o: o, text: lua.CString(text)} // like the original it stops at a zero byte
	d.next()
	v := d.value(1)
	d.next()
	if d.token != tokenEnd {
		d.refuse("the end")
	}
	return c.Return1(v)
}

// A token has a name in errors.
type token uint8

const (
	tokenObject token = iota
	tokenObjectEnd
	tokenArray
	tokenArrayEnd
	tokenString
	tokenNumber
	tokenBoolean
	tokenNull
	tokenColon
	tokenComma
	tokenEnd
	tokenError
)

var tokenNames = [...]string{"T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END", "T_STRING",
	"T_NUMBER", "T_BOOLEAN",
	"T_NULL", "T_COLON", "T_COMMA", "T_END"}

// A decoder reads text token by token. held is the number of values on the stack in the original. Only the limit of
// that stack can be observed.
type decoder struct {
	c     *lua.Call
	s     *lua.State
	o     *options
	text  string
	at    int // after the token
	depth int

	token  token
	index  int     // where the token begins, or the error is
	number float64 // of tokenNumber; 1 for a true tokenBoolean
	str    string  // of tokenString, until the next one; the error of tokenError
}

// refuse raises the error that the token is not the expected one.
func (d *decoder) refuse(expected string) {
	found := d.str
	if d.token != tokenError {
		found = tokenNames[d.token]
	}
	d.c.Error("Expected " + expected + " but found " + found + " at character " + strconv.Itoa(d.index+1))
}

func (d *decoder) value(held int) lua.Value {
	switch d.token {
	case tokenString:
		return d.s.String(d.str)
	case tokenNumber:
		return lua.Number(d.number)
	case tokenBoolean:
		return lua.Bool(d.number == 1)
	case tokenNull:
		return Null
	case tokenObject:
		d.descend(held, 3)
		return d.object(held)
	case tokenArray:
		d.descend(held, 2)
		return d.array(held)
	}
	d.refuse("value")
	return lua.Nil
}

func (d *decoder) descend(held, slots int) {
	d.depth++
	if d.depth > d.o.decodeDepth || held+slots > lua.MaxStack {
		d.c.Error("Found too many nested data structures (" + strconv.Itoa(d.depth) + ") at character " + strconv.Itoa(d.at))
	}
}

// object reads the rest of an object after its brace. The table stays on the stack, so that the memory account includes
// it.
func (d *decoder) object(held int) lua.Value {
	t := d.s.NewTable(0, 0)
	d.c.Push(t.Value())
	d.next()
	for d.token != tokenObjectEnd {
		if d.token != tokenString {
			d.refuse("object key string")
		}
		key := d.s.Key(d.str)
		if d.next(); d.token != tokenColon {
			d.refuse("colon")
		}
		d.next()
		_ = t.Set(key, d.value(held+2)) // a string is always a valid key
		if d.next(); d.token == tokenObjectEnd {
			break
		}
		if d.token != tokenComma {
			d.refuse("comma or object end")
		}
		if d.next(); d.token == tokenObjectEnd {
			d.refuse("object key string")
		}
	}
	d.depth--
	d.c.Pop(1)
	return t.Value()
}

func (d *decoder) array(held int) lua.Value {
	t := d.s.NewTable(0, 0)
	d.c.Push(t.Value())
	d.next()
	for i := 1; d.token != tokenArrayEnd; i++ {
		t.SetInt(i, d.value(held+1))
		if d.next(); d.token == tokenArrayEnd {
			break
		}
		if d.token != tokenComma {
			d.refuse("comma or array end")
		}
		if d.next(); d.token == tokenArrayEnd {
			d.refuse("value")
		}
	}
	d.depth--
	d.c.Pop(1)
	return t.Value()
}

// class is the kind of token that begins with a certain byte.
type class uint8

const (
	classError class = iota
	classSpace
	classQuote
	classDigit // or a minus
	classWord  // t f n N i I, or a plus
	classSingle
)

var classes = func() (table [256]class) {
	for _, b := range " \t\n\r" {
		table[b] = classSpace
	}
	for _, b := range "-0123456789" {
		table[b] = classDigit
	}
	for _, b := range "tfnNiI+" {
		table[b] = classWord
	}
	for _, b := range "{}[],:" {
		table[b] = classSingle
	}
	table['"'] = classQuote
	return table
}()

var singles = [256]token{'{': tokenObject, '}': tokenObjectEnd, '[': tokenArray, ']': tokenArrayEnd, ',': tokenComma,
	':': tokenColon}

// next reads a token. After an error, at is unchanged.
func (d *decoder) next() {
	i := d.at
	for i < len(d.text) && classes[d.text[i]] == classSpace {
		i++
	}
	d.at, d.index = i, i
	if i == len(d.text) {
		d.token = tokenEnd
		return
	}
	switch b := d.text[i]; classes[b] {
	case classSingle:
		d.token = singles[b]
		d.at++
	case classQuote:
		d.readString()
	case classDigit:
		if d.o.decodeInvalid == 0 && isInvalidNumber(d.text[i:]) {
			d.fail("invalid number")
			return
		}
		d.readNumber()
	case classWord:
		d.readWord(d.text[i:])
	default:
		d.fail("invalid token")
	}
}

func (d *decoder) fail(what string) {
	d.token, d.index, d.str = tokenError, d.at, what
}

func (d *decoder) readWord(rest string) {
	switch {
	case strings.HasPrefix(rest, "true"):
		d.token, d.number = tokenBoolean, 1
		d.at += 4
	case strings.HasPrefix(rest, "false"):
		d.token, d.number = tokenBoolean, 0
		d.at += 5
	case strings.HasPrefix(rest, "null"):
		d.token = tokenNull
		d.at += 4
	case d.o.decodeInvalid == 1 && isInvalidNumber(rest):
		d.readNumber()
	default:
		d.fail("invalid token")
	}
}

// isInvalidNumber reports a number that C's strtod reads, but JSON forbids: a plus, hexadecimal, leading zeros, inf,
// nan.
func isInvalidNumber(s string) bool {
	if s[0] == '+' {
		return true
	}
	s = strings.TrimPrefix(s, "-")
	if len(s) >= 2 && s[0] == '0' {
		return s[1]|0x20 == 'x' || s[1] >= '0' && s[1] <= '9'
	}
	return len(s) >= 3 && (strings.EqualFold(s[:3], "inf") || strings.EqualFold(s[:3], "nan"))
}

// tens are the powers of ten that a float64 holds exactly.
var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// readNumber reads a number as C's strtod does. Up to 15 digits and the power of ten are exact. So one division rounds
// only once, and no general conversion is needed.
func (d *decoder) readNumber() {
	d.token = tokenNumber
	s, i := d.text, d.at
	negative := s[i] == '-'
	if negative {
		i++
	}
	first, mantissa := i, uint64(0)
	for i < len(s) && s[i]-'0' <= 9 {
		mantissa = mantissa*10 + uint64(s[i]-'0')
		i++
	}
	digits, fraction := i-first, 0
	if digits > 0 && i < len(s) && s[i] == '.' {
		i++
		for i < len(s) && s[i]-'0' <= 9 {
			mantissa = mantissa*10 + uint64(s[i]-'0')
			i++
			fraction++
		}
	}
	if digits > 0 && digits+fraction <= 15 && (i == len(s) || s[i]|0x20 != 'e' && s[i]|0x20 != 'x') {
		d.number = float64(mantissa) / tens[fraction]
		if negative {
			d.number = -d.number
		}
		d.at = i
		return
	}
	f, n := lua.ScanNumber(s[d.at:])
	if n == 0 {
		d.fail("invalid number")
		return
	}
	d.number = f
	d.at += n
}

// special are the bytes that end a run of plain bytes in a string.
var special = [256]bool{'"': true, '\\': true}

func (d *decoder) readString() {
	d.at++
	start := d.at
	i := start
	for i < len(d.text) && !special[d.text[i]] {
		i++
	}
	d.at = i
	if i < len(d.text) && d.text[i] == '"' {
		d.token, d.str = tokenString, d.text[start:i]
		d.at++
		return
	}
	d.readEscapes(start)
}

// readEscapes reads a string with escapes. d.text[start:d.at] is plain.
func (d *decoder) readEscapes(start int) {
	out := append(d.o.text[:0], d.text[start:d.at]...)
	for {
		if d.at == len(d.text) {
			d.fail("unexpected end of string")
			return
		}
		b := d.text[d.at]
		if b == '"' {
			break
		}
		if b != '\\' {
			from := d.at
			for d.at < len(d.text) && !special[d.text[d.at]] {
				d.at++
			}
			out = append(out, d.text[from:d.at]...)
			continue
		}
		code := byte(0)
		if d.at+1 < len(d.text) {
			code = unescaped[d.text[d.at+1]]
		}
		switch code {
		case 0:
			d.fail("invalid escape code")
			return
		case 'u':
			r, n := scanUnicode(d.text[d.at:])
			if n == 0 {
				d.fail("invalid unicode escape code")
				return
			}
			out = appendRune(out, r)
			d.at += n
		default:
			out = append(out, code)
			d.at += 2
		}
	}
	d.at++
	if cap(out) <= keptBuffer {
		d.o.text = out
	}
	d.token, d.str = tokenString, unsafe.String(unsafe.SliceData(out), len(out)) // valid until the next token
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 't': '\t', 'n': '\n', 'f': '\f',
	'r': '\r', 'u': 'u'}

// scanUnicode reads \uXXXX, or a surrogate pair of two. n is 0 if s begins with neither.
func scanUnicode(s string) (r uint32, n int) {
	r, ok := hex4(s, 2)
	if !ok {
		return 0, 0
	}
	if r&0xF800 != 0xD800 {
		return r, 6
	}
	if r&0x400 != 0 || len(s) < 8 || s[6] != '\\' || s[7] != 'u' {
		return 0, 0
	}
	low, ok := hex4(s, 8)
	if !ok || low&0xFC00 != 0xDC00 {
		return 0, 0
	}
	return (r&0x3FF<<10 | low&0x3FF) + 0x10000, 12
}

func hex4(s string, at int) (r uint32, ok bool) {
	if len(s) < at+4 {
		return 0, false
	}
	for _, b := range []byte(s[at : at+4]) {
		switch lower := b | 0x20; {
		case b >= '0' && b <= '9':
			r = r<<4 | uint32(b-'0')
		case lower >= 'a' && lower <= 'f':
			r = r<<4 | uint32(lower-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// appendRune appends UTF-8. r is never a lone surrogate.
func appendRune(dst []byte, r uint32) []byte {
	switch {
	case r < 0x80:
		return append(dst, byte(r))
	case r < 0x800:
		return append(dst, 0xC0|byte(r>>6), 0x80|byte(r&0x3F))
	case r < 0x10000:
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
	}
	return append(dst, 0xF0|byte(r>>18), 0x80|byte(r>>12&0x3F), 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
}
