package lua

import (
	"encoding/binary"
	"math"
)

// stringDump is string.dump: it returns a function as a chunk in Lua 5.1's format. Chunks are never loaded here,
// because a chunk may be malicious and the machine would have to trust it.
func stringDump(c *Call) Outcome {
	c.CheckFunction(1)
	if c.Arg(1).n != bitsClosure {
		c.Error("unable to dump given function")
	}
	chunk := append([]byte(nil), chunkHeader...)
	chunk = appendProto(chunk, c.Arg(1).closure().proto, "")
	c.Spend(len(chunk) >> 4)
	return c.Return1(c.state.Bytes(chunk))
}

// chunkHeader names the format: version 5.1, little endian, floating-point numbers. The sizes in bytes: int 4, size_t
// 8, instruction 4, number 8.
var chunkHeader = []byte("\x1bLua\x51\x00\x01\x04\x08\x04\x08\x00")

// The types of constants in a chunk.
const (
	chunkNil     = 0
	chunkBoolean = 1
	chunkNumber  = 3
	chunkString  = 4
)

// appendProto appends p and its inner functions. If the source of p is that of the enclosing function, around, it is
// omitted.
func appendProto(dst []byte, p *Proto, around string) []byte {
	source := p.source
	if source == around {
		source = ""
	}
	dst = appendChunkString(dst, source)
	dst = appendChunkInt(dst, p.line)
	dst = appendChunkInt(dst, p.lastLine)
	dst = append(dst, byte(p.upCount), byte(p.params), p.vararg, byte(p.registers))
	dst = appendChunkInt(dst, len(p.code))
	for _, i := range p.code {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(i))
	}
	dst = appendChunkInt(dst, len(p.constants))
	for _, k := range p.constants {
		dst = appendConstant(dst, k)
	}
	dst = appendChunkInt(dst, len(p.protos))
	for _, inner := range p.protos {
		dst = appendProto(dst, inner, p.source)
	}
	dst = appendChunkInt(dst, len(p.lines))
	for _, line := range p.lines {
		dst = appendChunkInt(dst, int(line))
	}
	dst = appendChunkInt(dst, len(p.locals))
	for _, l := range p.locals {
		dst = appendChunkString(dst, l.name)
		dst = appendChunkInt(dst, l.start)
		dst = appendChunkInt(dst, l.end)
	}
	dst = appendChunkInt(dst, len(p.upvalues))
	for _, name := range p.upvalues {
		dst = appendChunkString(dst, name)
	}
	return dst
}

func appendConstant(dst []byte, k Value) []byte {
	switch k.Type() {
	case TypeBoolean:
		if k.Truth() {
			return append(dst, chunkBoolean, 1)
		}
		return append(dst, chunkBoolean, 0)
	case TypeNumber:
		return binary.LittleEndian.AppendUint64(append(dst, chunkNumber), math.Float64bits(k.Float()))
	case TypeString:
		dst = append(dst, chunkString)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(k.str())+1))
		return append(append(dst, k.str()...), 0)
	}
	return append(dst, chunkNil)
}

func appendChunkInt(dst []byte, n int) []byte {
	return binary.LittleEndian.AppendUint32(dst, uint32(n))
}

// appendChunkString appends a name. An empty name is written as absent.
func appendChunkString(dst []byte, s string) []byte {
	if s == "" {
		return binary.LittleEndian.AppendUint64(dst, 0)
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(s)+1))
	return append(append(dst, s...), 0)
}
