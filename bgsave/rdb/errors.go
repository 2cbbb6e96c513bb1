package rdb

import (
	"errors"
	"fmt"
)

// A FormatError is a place where the bytes are not an RDB file, or not a whole one: what, where, and in which key.
type FormatError struct {
	Offset    int64  // of the byte that is wrong, from the start of the (uncompressed) file
	What      string // what is wrong there
	Doing     string // what was being read
	DB        int
	Key       string // the key being read; "" between keys
	Truncated bool   // the bytes stopped too early; nothing before Offset is wrong
}

// Error is one line: the reason, then the place.
func (e *FormatError) Error() string {
	s := fmt.Sprintf("%s at offset %d", e.What, e.Offset)
	if e.Doing != "" {
		s += ", reading " + e.Doing
	}
	if e.Key != "" {
		s += fmt.Sprintf(", key %q of database %d", e.Key, e.DB)
	}
	return s
}

// What opens a file that is not one we read.
var (
	ErrSignature = errors.New("Wrong signature trying to load DB from file")
	ErrVersion   = errors.New("Can't handle RDB format version")
)

// A ChecksumError is a file whose bytes are not the ones its writer summed up.
type ChecksumError struct {
	Offset              int64 // of the checksum in the file
	Computed, Announced uint64
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("wrong checksum at offset %d: computed %x, the file says %x", e.Offset, e.Computed, e.Announced)
}

// errShort is the cursor's word for "more bytes are needed"; it never leaves the package.
var errShort = errors.New("rdb: short")

// Corrupt is bytes that cannot be right, and why; who knows place and key makes a FormatError of it.
type Corrupt string

func (c Corrupt) Error() string { return string(c) }
