package hll

import (
	"encoding/binary"
	"math"

	"spindle/engine/command"
)

const (
	// testElements bounds the time that PFSELFTEST takes to a few milliseconds of the turn.
	testElements = 100_000
	testSeed     = 0x9e3779b97f4a7c15
)

// selfTest is PFSELFTEST. It checks that this machine reads registers back as written, and that it estimates well.
// Replies: OK.
func selfTest(c *command.Context) error {
	var d [denseSize]byte
	copy(d[:], empty[:headerSize])
	d[atEncoding] = encodingDense
	for round := range 64 {
		if err := testRegisters(d[headerSize:], round); err != nil {
			return err
		}
	}
	clear(d[headerSize:])
	if err := testEstimates(d[:]); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

// testRegisters writes a different rank to each register and reads it again.
func testRegisters(body []byte, round int) error {
	rank := func(i int) byte { return byte(i*37+round*11+i>>6) & 63 }
	for i := range registerCount {
		setRegister(body, i, rank(i))
	}
	for i := range registerCount {
		if got := register(body, i); got != rank(i) {
			return errRegister(i, rank(i), got)
		}
	}
	return nil
}

// testEstimates adds the same elements to the dense sketch d and to a sparse one. At each power of ten, both must have
// the same estimate, within six standard errors.
func testEstimates(d []byte) error {
	s := []byte(empty)
	standard := 1.04 / math.Sqrt(registerCount)
	for n, checkpoint := 1, 1; n <= testElements; n++ {
		var element [8]byte
		binary.LittleEndian.PutUint64(element[:], uint64(n)^testSeed)
		index, rank := locate(element[:])
		if register(d[headerSize:], index) < rank {
			setRegister(d[headerSize:], index, rank)
		}
		if s != nil {
			s = testRaise(s, index, rank)
		}
		if n != checkpoint {
			continue
		}
		checkpoint *= 10
		got, err := estimateOf(d)
		if err != nil {
			return err
		}
		if s != nil {
			if other, err := estimateOf(s); err != nil || other != got {
				return errDisagree
			}
		} else if n <= 1000 {
			return errNotUsed
		}
		if off := math.Abs(float64(got) - float64(n)); off > math.Ceil(standard*6*float64(n)) {
			return errTooFar(n, off)
		}
	}
	return nil
}

// testRaise returns the sparse sketch s with one more element, or nil if that is too long.
func testRaise(s []byte, index int, rank byte) []byte {
	r, ok := find(s, start, index)
	if ok && r.rank >= int(rank) {
		return s
	}
	if ok {
		if s, ok = raise(s, r, index, rank, defaultSparseMax); ok {
			return s
		}
	}
	return nil
}
