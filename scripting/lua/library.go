package lua

// This file has what libraries in other packages need in addition to the methods of Call and Table.

// MaxString is the maximum length of a string. For a longer one, MakeString raises the error of exhausted memory.
const MaxString = maxString

// CheckStack raises "stack overflow (text)" if n more values exceed the stack of a C function in Lua 5.1.
func (c *Call) CheckStack(n int, text string) { c.checkStack(n, text) }

// MaxStack is the number of values on the stack of a C function in Lua 5.1, arguments included.
const MaxStack = maxCStack

// Pop removes the last n pushed values.
func (c *Call) Pop(n int) { c.t.top -= n }

// Last returns the value that was pushed last.
func (c *Call) Last() Value { return c.t.stack[c.t.top-1] }

// ToNumber converts v to a number as arithmetic does. It also converts strings.
func ToNumber(v Value) (f float64, ok bool) { return toNumber(v) }

// ScanNumber is C's strtod: it returns the number at the start of s, and its length in bytes. n is 0 if there is no
// number.
func ScanNumber(s string) (f float64, n int) { return scanNumber(s) }

// ToInteger converts f like a C cast to 64 bits on x86. A number out of range gives the least integer.
func ToInteger(f float64) int64 { return toInteger(f) }

// CString returns s up to its first zero byte, as C reads it.
func CString(s string) string { return cString(s) }

// RaiseMemory raises "not enough memory", without a position.
func (s *State) RaiseMemory() { s.raiseMemory() }

// Charge counts n bytes that a library is about to allocate in addition to Lua values. A negative n gives bytes back.
// Errors: it raises "not enough memory" if the State's limit is exceeded.
func (s *State) Charge(n int) { s.charge(n) }

// SetPushed replaces the nth value from the top. 1 is the value that was pushed last.
func (c *Call) SetPushed(n int, v Value) { c.t.stack[c.t.top-n] = v }

// TakeBuffer returns an empty buffer for a library. KeepBuffer gives the buffer back for the next call. An error may
// lose it. The memory account does not include the buffer, so only a small one is kept.
func (s *State) TakeBuffer() []byte {
	b := s.buffer[:0]
	s.buffer = nil
	return b
}

// KeepBuffer takes back the buffer of TakeBuffer, or a grown copy.
func (s *State) KeepBuffer(b []byte) {
	if cap(b) <= keptScratch {
		s.buffer = b
	}
}

const (
	keySlots   = 64
	longestKey = 32
)

// Key returns text as a Value. It remembers short texts. The objects of an array have the same keys, so their keys
// share one string and its hash.
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
