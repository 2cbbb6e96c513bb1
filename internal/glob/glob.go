// Package glob matches the patterns of KEYS, SCAN, PSUBSCRIBE, CONFIG GET and ACL rules.
//
// Owner: the caller; it has only pure functions.
// Never: allocates, or takes more than len(pattern) × len(text) steps, whatever the pattern.
// Start here.
package glob

import (
	"bytes"

	"spindle/internal/ascii"
)

// Match reports whether all of text matches pattern.
//
//	?      any one byte             [abc] [a-z] [z-a]   one of these bytes
//	*      any bytes, or none       [^abc]              one byte that is none of these
//	\x     x itself                 [abc                a class that is not closed ends with the pattern
//
// Special cases are Redis's. The empty text matches only the empty pattern, not "*". "[a-]" is an unclosed range from
// 'a' to ']'. Bytes from 0x80 to 0xff sort before the others in a range. A match that needs more than MaxStars fails.
func Match(pattern, text []byte) bool { return match(pattern, text, false) }

// MatchFold is Match without regard to the case of ASCII letters, except for an escaped letter in a class.
func MatchFold(pattern, text []byte) bool { return match(pattern, text, true) }

// MaxStars is how many runs of stars a match may need, without one at the pattern's end.
const MaxStars = 1000

// IsLiteral reports whether pattern matches only itself.
func IsLiteral(pattern []byte) bool { return !bytes.ContainsAny(pattern, "*?[\\") }

// match walks both texts once, and only returns to the last star. An earlier star need not change, because the last
// star can match whatever a longer match of an earlier star would allow.
func match(pattern, text []byte, fold bool) bool {
	if len(text) == 0 {
		return len(pattern) == 0
	}
	p, t := 0, 0
	star, from := -1, 0 // offset after the last star, and where the text after its match begins
	stars := 0
	for t < len(text) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				for p < len(pattern) && pattern[p] == '*' {
					p++
				}
				if p == len(pattern) {
					return true
				}
				if stars++; stars > MaxStars {
					return false
				}
				star, from = p, t
				if !fold && isLiteral(pattern[p]) {
					skip := bytes.IndexByte(text[t:], pattern[p])
					if skip < 0 {
						return false
					}
					from += skip
					t = from
				}
				continue
			}
			if next, ok := matchOne(pattern, p, text[t], fold); ok {
				p, t = next, t+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		if !fold && isLiteral(pattern[star]) {
			skip := bytes.IndexByte(text[from:], pattern[star])
			if skip < 0 {
				return false
			}
			from += skip
		}
		p, t = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func isLiteral(c byte) bool { return c != '*' && c != '?' && c != '[' && c != '\\' }

// matchOne matches c with the element at pattern[p], which is not a star. It returns the offset after that element.
func matchOne(pattern []byte, p int, c byte, fold bool) (next int, ok bool) {
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchClass(pattern, p+1, c, fold)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, same(pattern[p], c, fold)
}

// matchClass matches c with the class whose first byte after '[' is pattern[p].
func matchClass(pattern []byte, p int, c byte, fold bool) (next int, ok bool) {
	negated := p < len(pattern) && pattern[p] == '^'
	if negated {
		p++
	}
	for p < len(pattern) && pattern[p] != ']' {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			ok = ok || pattern[p+1] == c
			p += 2
		case p+2 < len(pattern) && pattern[p+1] == '-':
			ok = ok || inRange(pattern[p], pattern[p+2], c, fold)
			p += 3
		default:
			ok = ok || same(pattern[p], c, fold)
			p++
		}
	}
	return min(p+1, len(pattern)), ok != negated
}

// inRange compares signed characters, as Redis's C code does.
func inRange(first, last, c byte, fold bool) bool {
	if int8(first) > int8(last) {
		first, last = last, first
	}
	if fold {
		first, last, c = ascii.Lower(first), ascii.Lower(last), ascii.Lower(c)
	}
	return int8(first) <= int8(c) && int8(c) <= int8(last)
}

func same(a, b byte, fold bool) bool { return a == b || fold && ascii.Lower(a) == ascii.Lower(b) }
