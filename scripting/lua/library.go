package lua

// This file is what libraries in other packages need of the machine, beside the methods of Call and Table.

// MaxString is the length of the longest string; MakeString refuses a longer one as if memory had run out.
const MaxString = maxString

// CheckStack raises "stack overflow (text)" if n more values are more than a C function of Lua 5.1 may hold.
func (c *Call) CheckStack(n int, text string) { c.checkStack(n, text) }

// MaxStack is how many values a C function of Lua 5.1 may hold, its arguments included.
const MaxStack = maxCStack

// Pop takes the last n pushed values away.
func (c *Call) Pop(n int) { c.t.top -= n }

// Last returns the value that was pushed last.
func (c *Call) Last() Value { return c.t.stack[c.t.top-1] }

// ToNumber converts as arithmetic does: a string counts as the number it reads as.
func ToNumber(v Value) (f float64, ok bool) { return toNumber(v) }

// ScanNumber is C's strtod: the number at the start of s and how many bytes it takes; 0 bytes if there is none.
func ScanNumber(s string) (f float64, n int) { return scanNumber(s) }

// ToInteger converts as a C cast to 64 bits does on x86: what does not fit is the smallest integer.
func ToInteger(f float64) int64 { return toInteger(f) }

// CString cuts s at its first zero byte, as C reads it.
func CString(s string) string { return cString(s) }

// RaiseMemory raises "not enough memory", which no position precedes.
func (s *State) RaiseMemory() { s.raiseMemory() }

// Charge counts n bytes that a library is about to take beside Lua values; a negative n gives them back.
// Errors: it raises "not enough memory" past the State's limit.
func (s *State) Charge(n int) { s.charge(n) }

// SetPushed replaces the nth value from the top, 1 being the last one pushed.
func (c *Call) SetPushed(n int, v Value) { c.t.stack[c.t.top-n] = v }

// TakeBuffer gives a library an empty buffer to append to. KeepBuffer gives it back, for the next call; an error may
// lose it. It stands in no memory account, so it is kept only while it is small.
func (s *State) TakeBuffer() []byte {
	b := s.buffer[:0]
	s.buffer = nil
	return b
}

// KeepBuffer takes a buffer that TakeBuffer has given, or one that has taken its place.
func (s *State) KeepBuffer(b []byte) {
	if cap(b) <= keptScratch {
		s.buffer = b
	}
}

const (
	keySlots   = 64
	longestKey = 32
)

// Key returns text as a Value. Short ones are remembered: the objects of an array have the same keys, and one string
// for all of them needs neither memory nor a hash of its own.
func (s *State) Key(text string) Value {
	n := len(text)
	if n == 0 || n > longestKey {
		return s.String(text)
	}
	slot := &s.keys[(n+int(text[0])*7+int(text[n-1])*31+int(text[n/2])*13)%keySlots]
	if slot.Str() != text {
		*slot = s.String(text)
	}
	return *slot
}
