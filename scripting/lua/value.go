// Package lua is a Lua 5.1 machine: compiler, virtual machine and standard libraries, without file or process access.
//
// Owner: the holder of a [State]; one goroutine at a time uses a State and its values. A [Proto] is immutable, and
// States on any goroutine may share it.
// Never: knows about Redis, starts a goroutine, or keeps a running script on the Go stack. A State can stop between two
// instructions and continue later.
// Start at state.go, then vm.go; DESIGN.md explains values, tables, frames and continuations.
package lua

import (
	"math"
	"unsafe"
)

// A Value is any Lua value, in two words. The zero Value is the number 0, and Nil is nil.
//
//	bits of n                          p
//	any float64 below FFF9 << 48       not used                         number
//	FFF9 | 0, 1, 2                     not used                         nil, false, true
//	FFFA | payload                     not used                         light userdata
//	FFFB | length                      header of the string             string
//	FFFC | 0                           *Table                           table
//	FFFD | 0                           *Closure                         Lua function
//	FFFE | 0                           *Function                        Go function
//	FFFF | 0, 1                        *Userdata, *Thread               userdata, coroutine
//
// lua.V1. Only n decides what a Value is. Where p is not used, it may be stale, and is never read.
// lua.V2. A NaN is stored with the bits 7FF8… or FFF8… only, so no number reaches the tags.
// lua.V3. p points to an object of the type in n. Only the constructors below combine the two.
type Value struct {
	p unsafe.Pointer
	n uint64
}

const (
	tagSimple   = 0xFFF9
	tagLight    = 0xFFFA
	tagString   = 0xFFFB
	tagTable    = 0xFFFC
	tagClosure  = 0xFFFD
	tagFunction = 0xFFFE
	tagHeavy    = 0xFFFF

	firstTag  = uint64(tagSimple) << 48
	bitsNil   = firstTag
	bitsFalse = firstTag + 1
	bitsTrue  = firstTag + 2

	bitsTable    = uint64(tagTable) << 48
	bitsClosure  = uint64(tagClosure) << 48
	bitsFunction = uint64(tagFunction) << 48
	bitsUserdata = uint64(tagHeavy) << 48
	bitsThread   = bitsUserdata + 1
)

// These values need no object.
var (
	Nil   = Value{n: bitsNil}
	False = Value{n: bitsFalse}
	True  = Value{n: bitsTrue}
)

// Type is a Lua type, in the order of lua.h.
type Type uint8

// The types a Value can have.
const (
	TypeNil Type = iota
	TypeBoolean
	TypeLightUserdata
	TypeNumber
	TypeString
	TypeTable
	TypeFunction
	TypeUserdata
	TypeThread
	typeNone // a missing argument
)

var typeNames = [...]string{"nil", "boolean", "userdata", "number", "string", "table", "function", "userdata", "thread",
	"no value"}

// String returns the name that the function type returns.
func (t Type) String() string { return typeNames[t] }

// Type returns the type of v.
func (v Value) Type() Type {
	switch v.n >> 48 {
	case tagSimple:
		if v.n == bitsNil {
			return TypeNil
		}
		return TypeBoolean
	case tagLight:
		return TypeLightUserdata
	case tagString:
		return TypeString
	case tagTable:
		return TypeTable
	case tagClosure, tagFunction:
		return TypeFunction
	case tagHeavy:
		if v.n == bitsThread {
			return TypeThread
		}
		return TypeUserdata
	}
	return TypeNumber
}

// Number returns f as a Value.
func Number(f float64) Value {
	if f != f {
		return Value{n: math.Float64bits(f)&(1<<63) | 0x7FF8<<48} // lua.V2
	}
	return Value{n: math.Float64bits(f)}
}

// Bool returns b as a Value.
func Bool(b bool) Value {
	if b {
		return True
	}
	return False
}

// LightUserdata returns a value that is equal only to another light userdata with the same id. The id has 48 bits.
func LightUserdata(id uint64) Value { return Value{n: uint64(tagLight)<<48 | id&(1<<48-1)} }

func tableValue(t *Table) Value       { return Value{unsafe.Pointer(t), bitsTable} }
func closureValue(c *Closure) Value   { return Value{unsafe.Pointer(c), bitsClosure} }
func functionValue(f *Function) Value { return Value{unsafe.Pointer(f), bitsFunction} }
func userdataValue(u *Userdata) Value { return Value{unsafe.Pointer(u), bitsUserdata} }
func threadValue(t *Thread) Value     { return Value{unsafe.Pointer(t), bitsThread} }

// IsNil reports whether v is nil.
func (v Value) IsNil() bool { return v.n == bitsNil }

// IsNumber reports whether v is a number. It is false for strings.
func (v Value) IsNumber() bool { return v.n < firstTag }

// IsString reports whether v is a string. It is false for numbers.
func (v Value) IsString() bool { return v.n>>48 == tagString }

// IsTable reports whether v is a table.
func (v Value) IsTable() bool { return v.n == bitsTable }

// IsFunction reports whether v is a Lua or Go function.
func (v Value) IsFunction() bool { return v.n == bitsClosure || v.n == bitsFunction }

// Truth returns v as a condition: only nil and false are false.
func (v Value) Truth() bool { return v.n-bitsNil > 1 }

func (v Value) isFalsy() bool { return v.n-bitsNil <= 1 }

// Float returns the number in v. IsNumber must be true.
func (v Value) Float() float64 { return math.Float64frombits(v.n) }

// Table returns the table in v, or nil.
func (v Value) Table() *Table {
	if v.n != bitsTable {
		return nil
	}
	return (*Table)(v.p)
}

// Light returns the id of a light userdata. ok is false for any other value.
func (v Value) Light() (id uint64, ok bool) { return v.n & (1<<48 - 1), v.n>>48 == tagLight }

// Userdata returns the userdata in v, or nil.
func (v Value) Userdata() *Userdata {
	if v.n != bitsUserdata {
		return nil
	}
	return (*Userdata)(v.p)
}

func (v Value) closure() *Closure   { return (*Closure)(v.p) }
func (v Value) function() *Function { return (*Function)(v.p) }
func (v Value) thread() *Thread     { return (*Thread)(v.p) }

// Userdata is a value that only Go code can read.
type Userdata struct {
	Data any
	meta *Table
	id   uint32
	mark uint32
}

// A stringHeader precedes a string's bytes, in one block without pointers.
//
//	0      4      8                 8+length
//	+------+------+------ ~ --------+
//	| hash | mark | bytes           |   hash 0: not computed yet; mark: see memory.go
//	+------+------+------ ~ --------+
//
// The bytes never change. A string made for a Proto has its hash and markStatic from the start, so it is never written.
type stringHeader struct {
	hash uint32
	mark uint32
}

const (
	headerBytes = 8
	maxString   = 1<<31 - 64 // a longer one fails as if memory were exhausted
)

// str returns the bytes of a string value. The result keeps the string's memory alive.
func (v Value) str() string {
	return unsafe.String((*byte)(unsafe.Add(v.p, headerBytes)), int(uint32(v.n)))
}

// Bytes returns the bytes of a string value, which must not be changed. It returns nil if v is not a string.
func (v Value) Bytes() []byte {
	if v.n>>48 != tagString {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(v.p, headerBytes)), int(uint32(v.n)))
}

// Str returns the bytes of a string value without copying them. It returns "" if v is not a string.
func (v Value) Str() string {
	if v.n>>48 != tagString {
		return ""
	}
	return v.str()
}

// rawString returns a string of n bytes, and its bytes. Write them before any use of the string.
func rawString(n int) (Value, []byte) {
	if n <= 1 {
		block := new([2]uint64)
		return Value{unsafe.Pointer(block), uint64(tagString)<<48 | uint64(n)},
			unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(block), headerBytes)), n)
	}
	block := make([]uint64, (headerBytes+n+7)/8)
	p := unsafe.Pointer(unsafe.SliceData(block))
	return Value{p, uint64(tagString)<<48 | uint64(n)}, unsafe.Slice((*byte)(unsafe.Add(p, headerBytes)), n)
}

// staticString makes a string that belongs to no State. Goroutines may share it, and it is never counted.
func staticString(s string) Value {
	v, room := rawString(len(s))
	copy(room, s)
	h := (*stringHeader)(v.p)
	h.hash, h.mark = hashBytes(s), markStatic
	return v
}

// Empty strings and strings of one byte are made once.
var (
	emptyString Value
	byteStrings [256]Value
)

func init() {
	emptyString = staticString("")
	for i := range byteStrings {
		byteStrings[i] = staticString(string([]byte{byte(i)}))
	}
}

// hashEveryByte selects the hash of Redis's Lua. Lua 5.1 itself skips bytes of strings of at least 32 bytes. Tests that
// compare with Lua 5.1 set it to false.
var hashEveryByte = true

// hashBytes returns the string hash of Redis's Lua. The order of pairs over string keys depends on this hash, and
// scripts depend on that order.
func hashBytes(s string) uint32 {
	h := uint32(len(s))
	step := 1
	if !hashEveryByte {
		step += len(s) >> 5
	}
	for l := len(s); l >= step; l -= step {
		h ^= h<<5 + h>>2 + uint32(s[l-1])
	}
	return h
}

func stringHash(p unsafe.Pointer, n uint64) uint32 {
	head := (*stringHeader)(p)
	if head.hash != 0 || head.mark == markStatic {
		return head.hash
	}
	head.hash = hashBytes(Value{p, n}.str())
	return head.hash
}

// rawEqual reports whether two values are equal, without metamethods.
func rawEqual(a, b Value) bool {
	if a.n < firstTag || b.n < firstTag {
		return a.n < firstTag && b.n < firstTag && a.Float() == b.Float()
	}
	if a.n != b.n {
		return false // covers strings of unequal length
	}
	if a.n < uint64(tagString)<<48 || a.p == b.p {
		return true
	}
	return a.n>>48 == tagString && a.str() == b.str()
}

// sameText reports whether two strings of equal length are equal. It spends budget for the comparison.
func (s *State) sameText(a, b Value) bool {
	s.budget -= a.textLen() >> 6
	return a.str() == b.str()
}

// textLen returns the length of a string in bytes.
func (v Value) textLen() int { return int(uint32(v.n)) }

// hash is stringHash for a string whose hash may not have been computed yet. It spends budget for that.
func (s *State) hash(text Value) uint32 {
	s.budget -= text.textLen() >> 4
	return stringHash(text.p, text.n)
}

// RawEqual reports whether two values are equal, without metamethods.
func RawEqual(a, b Value) bool { return rawEqual(a, b) }
