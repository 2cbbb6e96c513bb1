package rdb

import (
	"errors"
	"fmt"

	"spindle/internal/logging"
)

// A FormatError says where bytes are not a valid or complete RDB file, why, and in which key.
type FormatError struct {
	Offset    int64  // offset of the wrong byte in the uncompressed file
	What      string // the fault
	Doing     string // the part that was being read
	DB        int
	Key       string // the key being read; "" between keys
	Truncated bool   // the bytes end too early; everything before Offset is valid
	Unknown   bool   // the bytes are of a newer version, and may be valid
}

// Public implements logging.Private. It is Error without the key.
func (e *FormatError) Public() string {
	shown := *e
	if shown.Key != "" {
		shown.Key = logging.Redacted
	}
	return shown.Error()
}

// Error returns one line: the reason, then the place.
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

// Errors of a file that does not begin like an RDB file.
var (
	ErrSignature = errors.New("Wrong signature trying to load DB from file")
	ErrVersion   = errors.New("Can't handle RDB format version")
)

// A VersionError is the error for a file of a version that cannot be read. It is an ErrVersion.
type VersionError struct {
	Dialect Dialect
	Version int
}

func (e *VersionError) Error() string {
	if e.Dialect == Valkey {
		return fmt.Sprintf("%s %d of Valkey", ErrVersion, e.Version)
	}
	return fmt.Sprintf("%s %d", ErrVersion, e.Version)
}

// Is makes errors.Is(err, ErrVersion) true.
func (e *VersionError) Is(err error) bool { return err == ErrVersion }

// A ChecksumError is the error for a file whose checksum does not match.
type ChecksumError struct {
	Offset              int64 // offset of the checksum in the file
	Computed, Announced uint64
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("wrong checksum at offset %d: computed %x, the file says %x", e.Offset, e.Computed, e.Announced)
}

// errShort is the cursor's error for "more bytes are needed". It never leaves the package.
var errShort = errors.New("rdb: short")

// Corrupt is the reason why bytes are invalid. Callers that know the place and the key make a FormatError of it.
type Corrupt string

func (c Corrupt) Error() string { return string(c) }

// Unknown is the reason why bytes are not understood: a newer version has written them.
type Unknown string

func (u Unknown) Error() string { return string(u) }
