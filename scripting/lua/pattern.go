package lua

// A matcher finds a Lua pattern in a subject. It keeps the choices for backtracking as data. So it needs no Go stack
// for long patterns and can pause in a long search.
//
// lua.M1. Each item of the pattern that is in use has at most one choice, so there are no more choices than items.
type matcher struct {
	src, pattern string // the pattern ends before its first zero byte
	level        int    // captures begun
	captures     [maxCaptures]capture
	choices      []choice
	s, p         int // where a paused match continues
	count        int // repetitions found by a paused item
	failed       string
}

type capture struct {
	start, length int
}

const (
	maxCaptures       = 32
	captureUnfinished = -1
	capturePosition   = -2
)

type choiceKind uint8

const (
	choiceSkip  choiceKind = iota // of "?": continue at p without the item
	choiceFewer                   // of "*" and "+": one repetition less
	choiceMore                    // of "-": one repetition more
	choiceStart                   // undo the start of a capture
	choiceEnd                     // undo the end of capture n
)

type choice struct {
	kind choiceKind
	s, p int
	end  int // of the item, for choiceMore
	n    int
}

type matchResult uint8

const (
	matchFailed matchResult = iota
	matchFound
	matchPaused
	matchError // the pattern is malformed; failed has the text
)

func (m *matcher) init(src, pattern string) {
	m.src, m.pattern = src, pattern
	m.choices = m.choices[:0]
}

// at returns a byte of the pattern, or 0 past its end.
func (m *matcher) at(p int) byte {
	if p < len(m.pattern) {
		return m.pattern[p]
	}
	return 0
}

func (m *matcher) fail(text string) matchResult {
	m.failed = text
	return matchError
}

// begin starts an attempt at s with the part of the pattern after p.
func (m *matcher) begin(s, p int) {
	m.level, m.s, m.p, m.count = 0, s, p, 0
	m.choices = m.choices[:0]
}

func (m *matcher) classEnd(p int) (end int, ok bool) {
	c := m.at(p)
	p++
	switch c {
	case '%':
		if m.at(p) == 0 {
			m.failed = "malformed pattern (ends with '%')"
			return 0, false
		}
		return p + 1, true
	case '[':
		if m.at(p) == '^' {
			p++
		}
		for {
			c := m.at(p)
			if c == 0 {
				m.failed = "malformed pattern (missing ']')"
				return 0, false
			}
			p++
			if c == '%' && m.at(p) != 0 {
				p++
			}
			if m.at(p) == ']' {
				return p + 1, true
			}
		}
	}
	return p, true
}

func matchClass(c int, class byte) bool {
	var res bool
	switch class | 0x20 {
	case 'a':
		res = isAlpha(c)
	case 'c':
		res = isControl(byte(c))
	case 'd':
		res = isDigit(c)
	case 'l':
		res = isLower(c)
	case 'p':
		res = isPunct(c)
	case 's':
		res = isSpace(c)
	case 'u':
		res = isUpper(c)
	case 'w':
		res = isAlnum(c)
	case 'x':
		res = isHex(c)
	case 'z':
		res = c == 0
	default:
		return int(class) == c
	}
	if !isAlpha(int(class)) {
		return int(class) == c
	}
	return res == isLower(int(class))
}

// matchSet reports whether byte c is in the set between the [ at p and the ] at last.
func (m *matcher) matchSet(c int, p, last int) bool {
	want := true
	if m.at(p+1) == '^' {
		want = false
		p++
	}
	for p++; p < last; p++ {
		switch b := m.at(p); {
		case b == '%':
			p++
			if matchClass(c, m.at(p)) {
				return want
			}
		case m.at(p+1) == '-' && p+2 < last:
			p += 2
			if int(b) <= c && c <= int(m.at(p)) {
				return want
			}
		case int(b) == c:
			return want
		}
	}
	return !want
}

// single reports whether the byte at s matches the item between p and end.
func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	c := m.src[s]
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return matchClass(int(c), m.pattern[p+1])
	case '[':
		return m.matchSet(int(c), p, end-1)
	}
	return m.pattern[p] == c
}

func (m *matcher) push(c choice) { m.choices = append(m.choices, c) }

// run continues the attempt until it is decided or fuel is used up. After a match, m.s is the end of the match.
func (m *matcher) run(fuel *int) matchResult {
	s, p := m.s, m.p
	for {
		if *fuel--; *fuel < 0 {
			m.s, m.p = s, p
			return matchPaused
		}
		ok := false
		switch m.at(p) {
		case 0:
			m.s = s
			return matchFound
		case '(':
			if m.level >= maxCaptures {
				return m.fail("too many captures")
			}
			length := captureUnfinished
			p++
			if m.at(p) == ')' {
				length = capturePosition
				p++
			}
			m.captures[m.level] = capture{s, length}
			m.level++
			m.push(choice{kind: choiceStart})
			continue
		case ')':
			l := m.level - 1
			for l >= 0 && m.captures[l].length != captureUnfinished {
				l--
			}
			if l < 0 {
				return m.fail("invalid pattern capture")
			}
			m.captures[l].length = s - m.captures[l].start
			m.push(choice{kind: choiceEnd, n: l})
			p++
			continue
		case '$':
			if p+1 >= len(m.pattern) {
				if s == len(m.src) {
					m.s = s
					return matchFound
				}
				break
			}
			var res matchResult
			if s, p, ok, res = m.item(s, p, fuel); res != matchFailed {
				m.s, m.p = s, p
				return res
			}
		case '%':
			next := m.at(p + 1)
			switch {
			case next == 'b':
				if m.at(p+2) == 0 || m.at(p+3) == 0 {
					return m.fail("unbalanced pattern")
				}
				if s, ok = m.balance(s, p+2, fuel); ok {
					p += 4
				}
			case next == 'f':
				p += 2
				if m.at(p) != '[' {
					return m.fail("missing '[' after '%f' in pattern")
				}
				end, good := m.classEnd(p)
				if !good {
					return matchError
				}
				before, here := 0, 0
				if s > 0 {
					before = int(m.src[s-1])
				}
				if s < len(m.src) {
					here = int(m.src[s])
				}
				*fuel -= (end - p) >> 2
				if ok = !m.matchSet(before, p, end-1) && m.matchSet(here, p, end-1); ok {
					p = end
				}
			case isDigit(int(next)):
				l := int(next) - '1'
				if l < 0 || l >= m.level || m.captures[l].length == captureUnfinished {
					return m.fail("invalid capture index")
				}
				// A position capture has a negative length. In C it is unsigned, and larger than any rest.
				if n := m.captures[l].length; n >= 0 && len(m.src)-s >= n {
					start := m.captures[l].start
					*fuel -= n >> 5
					if ok = m.src[start:start+n] == m.src[s:s+n]; ok {
						s += n
						p += 2
					}
				}
			default:
				var res matchResult
				if s, p, ok, res = m.item(s, p, fuel); res != matchFailed {
					m.s, m.p = s, p
					return res
				}
			}
		default:
			var res matchResult
			if s, p, ok, res = m.item(s, p, fuel); res != matchFailed {
				m.s, m.p = s, p
				return res
			}
		}
		if ok {
			continue
		}
		if s, p, ok = m.backtrack(fuel); !ok {
			return matchFailed
		}
	}
}

// stride is the approximate number of bytes compared between two checks of the fuel.
const stride = 4096

// item matches one character class with its suffix. res is matchFailed, unless the pattern is malformed or the fuel ran
// out during repetitions. In the second case the item is tried again from the same place.
func (m *matcher) item(s, p int, fuel *int) (nextS, nextP int, ok bool, res matchResult) {
	end, good := m.classEnd(p)
	if !good {
		return s, p, false, matchError
	}
	first := s
	weight := (end - p) >> 3 // a set costs in proportion to its length
	*fuel -= weight
	switch m.at(end) {
	case '?':
		if m.single(s, p, end) {
			m.push(choice{kind: choiceSkip, s: s, p: end + 1})
			return s + 1, end + 1, true, 0
		}
		return s, end + 1, true, 0
	case '+':
		if !m.single(s, p, end) {
			return s, p, false, 0
		}
		first++
		fallthrough
	case '*':
		n, known := m.count, m.count
		m.count = 0
		for most := max(1, stride/(end-p)); m.single(first+n, p, end); {
			if n++; n-known == most {
				known = n
				if *fuel -= most>>3 + most*weight; *fuel < 0 {
					m.count = n
					return s, p, false, matchPaused
				}
			}
		}
		*fuel -= (n-known)>>3 + (n-known)*weight
		s = first
		if n > 0 {
			m.push(choice{kind: choiceFewer, s: s, p: end + 1, n: n})
		}
		return s + n, end + 1, true, 0
	case '-':
		m.push(choice{kind: choiceMore, s: s, p: p, end: end})
		return s, end + 1, true, 0
	}
	if !m.single(s, p, end) {
		return s, p, false, 0
	}
	return s + 1, end, true, 0
}

func (m *matcher) balance(s, p int, fuel *int) (int, bool) {
	if s >= len(m.src) || m.src[s] != m.pattern[p] {
		return s, false
	}
	open, shut, depth := m.pattern[p], m.pattern[p+1], 1
	start := s
	for s++; s < len(m.src); s++ {
		switch c := m.src[s]; {
		case c == shut:
			if depth--; depth == 0 {
				*fuel -= (s - start) >> 3
				return s + 1, true
			}
		case c == open:
			depth++
		}
	}
	*fuel -= (s - start) >> 3
	return s, false
}

// backtrack takes the alternative of the last choice.
func (m *matcher) backtrack(fuel *int) (s, p int, ok bool) {
	for len(m.choices) > 0 {
		c := &m.choices[len(m.choices)-1]
		switch c.kind {
		case choiceFewer:
			c.n--
			s, p = c.s+c.n, c.p
			if c.n == 0 {
				m.choices = m.choices[:len(m.choices)-1]
			}
			return s, p, true
		case choiceMore:
			*fuel -= (c.end - c.p) >> 3
			if m.single(c.s, c.p, c.end) {
				c.s++
				return c.s, c.end + 1, true
			}
		case choiceSkip:
			s, p = c.s, c.p
			m.choices = m.choices[:len(m.choices)-1]
			return s, p, true
		case choiceStart:
			m.level--
		case choiceEnd:
			m.captures[c.n].length = captureUnfinished
		}
		m.choices = m.choices[:len(m.choices)-1]
	}
	return 0, 0, false
}

// pushCapture pushes capture i of a match from s to e.
func (c *Call) pushCapture(m *matcher, i, s, e int) {
	if i >= m.level {
		if i != 0 {
			c.Error("invalid capture index")
		}
		c.Push(c.state.String(m.src[s:e]))
		return
	}
	switch got := m.captures[i]; got.length {
	case captureUnfinished:
		c.Error("unfinished capture")
	case capturePosition:
		c.Push(Number(float64(got.start + 1)))
	default:
		c.Push(c.state.String(m.src[got.start : got.start+got.length]))
	}
}

// pushCaptures pushes all captures. If whole is true, a match without captures is its own capture.
func (c *Call) pushCaptures(m *matcher, s, e int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		c.pushCapture(m, i, s, e)
	}
	return n
}
