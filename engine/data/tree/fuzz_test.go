package tree

import (
	"cmp"
	"encoding/binary"
	"testing"
)

// script reads steps from fuzzed bytes: an operation and two operands each. Operands are short, so that few bytes make
// a step.
func script(data []byte, step func(op byte, a, b uint64)) {
	for len(data) >= 6 {
		step(data[0], uint64(binary.LittleEndian.Uint16(data[1:])), uint64(binary.LittleEndian.Uint32(data[2:])))
		data = data[6:]
	}
}

func seeds(f *testing.F) {
	f.Add(byte(0), []byte("\x04aaaaaa\x0ebbbbbb\x0bcccccc\x0fdddddd"))
	long := make([]byte, 600)
	for i := range long {
		long[i] = byte(i * i >> 3)
	}
	f.Add(byte(3), long)
	f.Add(byte(5), long[300:])
}

// Run the fuzz tests with -fuzzminimizetime=5x. Steps build on each other, so minimising a script takes long and finds
// little.

// FuzzRecords: after any steps a tree of records equals a sorted slice, its views do not change, and no memory leaks.
func FuzzRecords(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, mode byte, data []byte) {
		m := &recordsModel{t: t, h: newHeap(t), width: 16, order: cmp.Compare[uint64], wide: mode&4 != 0}
		if mode&1 != 0 {
			m.width = 32
		}
		if mode&2 != 0 {
			m.order = backwards
		}
		script(data[:min(len(data), 1500)], m.step)
		m.end(int(mode >> 3))
	})
}

// FuzzBlocks does the same as FuzzRecords for opaque leaves, with a slice.
func FuzzBlocks(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, mode byte, data []byte) {
		m := &blocksModel{t: t, h: newHeap(t), keyed: mode&1 != 0, wide: mode&2 != 0}
		script(data[:min(len(data), 1500)], func(op byte, a, b uint64) {
			if len(m.want) < 6000 {
				m.step(op, a, b)
			}
		})
		m.end(mode&4 != 0)
	})
}
