package protocol

// This file reads the telnet form of a request: words on one line, with quotes. "SET k \"a\\x00b\"\r\n".

// parseInline reads the line at the start of buf. When it is complete, p.at is its length, with the newline. A blank
// line is no request.
func (p *Parser) parseInline(buf []byte, args [][]byte) (_ [][]byte, complete bool, err *Error) {
	end, err := p.lineEnd(buf, '\n', ErrTooBigInline)
	if err != nil || end < 0 {
		return args, false, err
	}
	line := buf[:end]
	if end > 0 && buf[end-1] == '\r' {
		line = buf[:end-1]
	}
	before := len(args)
	args, text, ok := SplitWords(line, args, p.scratch.text)
	if !ok {
		return args[:before], false, ErrUnbalancedQuotes
	}
	p.scratch.text = text
	p.at = end + 1
	return args, true, nil
}

// SplitWords splits line into words, like redis-cli, redis.conf and inline requests, and appends them to args.
//
//	plain  "double: \n \r \t \b \a \xHH and \anything"  'single: \' alone'
//
// A quote may begin inside a word. A blank or the end must follow a closing quote. A NUL ends the line.
//
// Shape: a word without quotes points into line. A quoted word is built in text, which is returned longer. No word is
// nil, because nil means a missing argument to handlers.
// Errors: ok is false if a quote is not closed, or if no blank follows it.
func SplitWords(line []byte, args [][]byte, text []byte) (_ [][]byte, _ []byte, ok bool) {
	at := 0
	for {
		for at < len(line) && isBlank(line[at]) {
			at++
		}
		if at == len(line) || line[at] == 0 {
			return args, text, true
		}
		from := at
		for at < len(line) && isPlain[line[at]] {
			at++
		}
		if at == len(line) || endsWord(line[at]) {
			args = append(args, line[from:at:at])
			continue
		}
		begin := len(text)
		text = append(text, line[from:at]...)
		if text, at = appendQuoted(text, line, at); at < 0 {
			return args, text, false
		}
		word := text[begin:len(text):len(text)]
		if word == nil {
			word = []byte{} // the first word is empty
		}
		args = append(args, word)
	}
}

// appendQuoted appends the rest of the word at line[at], a quote, to dst. It returns the offset after the word, or -1.
func appendQuoted(dst, line []byte, at int) ([]byte, int) {
	peek := func(i int) byte { // the byte after the end is a NUL, which ends the line
		if i < len(line) {
			return line[i]
		}
		return 0
	}
	quote := byte(0)
	for {
		c := peek(at)
		switch {
		case quote == 0 && endsWord(c):
			return dst, at
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0:
			dst = append(dst, c)
		case c == 0:
			return dst, -1
		case c == quote:
			if next := peek(at + 1); next != 0 && !isBlank(next) {
				return dst, -1
			}
			return dst, at + 1
		case c == '\\' && quote == '\'' && peek(at+1) == '\'':
			dst = append(dst, '\'')
			at++
		case c == '\\' && quote == '"' && peek(at+1) == 'x' && hexDigit[peek(at+2)] != 0 && hexDigit[peek(at+3)] != 0:
			dst = append(dst, (hexDigit[peek(at+2)]-1)<<4|(hexDigit[peek(at+3)]-1))
			at += 3
		case c == '\\' && quote == '"' && peek(at+1) != 0:
			at++
			dst = append(dst, unescape(peek(at)))
		default:
			dst = append(dst, c)
		}
		at++
	}
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// isBlank is C's isspace: such bytes separate words, and may follow a closing quote.
func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// endsWord is like isBlank, but vertical tab and form feed do not end a word.
func endsWord(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == 0 }

// isPlain has the bytes of a word that stand for themselves.
var isPlain = func() (plain [256]bool) {
	for c := range plain {
		plain[c] = !endsWord(byte(c)) && c != '"' && c != '\''
	}
	return plain
}()

// hexDigit has a hexadecimal digit's value plus one, and 0 for other bytes.
var hexDigit = func() (value [256]byte) {
	for i, c := range "0123456789abcdef" {
		value[c] = byte(i + 1)
		if c >= 'a' {
			value[c-'a'+'A'] = byte(i + 1)
		}
	}
	return value
}()
