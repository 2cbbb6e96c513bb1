// Package rdb is the RDB file format: the bytes of a file or a DUMP payload. It does not care where they come from.
//
// Owner: the caller. One goroutine at a time may use an Encoder, a Decoder or a Batch.
// Never: opens a file, starts a goroutine, reads a clock, or knows a keyspace.
// Start here; opcode.go has the table of value types, encoder.go writes, decoder.go reads.
//
//	"REDIS" "0009" or "VALKEY" "080"                 magic, version in digits
//	FA name value …                                  AUX: facts about the file
//	FE db  FB keys volatile                          SELECTDB, RESIZEDB: what follows belongs to this database
//	[FC deadline] [F8 idle | F9 freq] type key value one key; type says how value is written (opcode.go)
//	FF crc64                                         EOF; the sum is of all bytes before it and EOF (since version 5)
//
// Numbers: lengths are big endian (length.go), everything else is little endian.
// Source: the RDB file format as published, versions 1 to 12, and files that Redis and Valkey have written. opcode.go
// and template.go name the sources for newer types.
package rdb

import "fmt"

// A Dialect is a family of servers. Some types and opcodes mean different things in the two families.
type Dialect uint8

const (
	Redis  Dialect = iota // magic REDIS; payload versions up to 79
	Valkey                // magic VALKEY; payload versions 80 and above
)

// The newest versions that can be read. Redis 7.4 writes 12, Redis 8.10 writes 15, Valkey 9 writes 80.
const (
	MaxVersion       = 15
	ValkeyVersion    = 80 // also the first version of Valkey's dialect
	MaxValkeyVersion = 80
)

// Each file begins with one of two magics. The digits of the version follow. Both headers have the same length.
const (
	Magic       = "REDIS"  // 4 digits follow
	ValkeyMagic = "VALKEY" // 3 digits follow
)

// headerLen is the length of magic and version.
const headerLen = len(Magic) + 4

// MarkLen is how many bytes Begins looks at.
const MarkLen = len(Magic)

// Begins reports whether a file that begins with these MarkLen bytes may be an RDB file.
func Begins(head []byte) bool {
	return len(head) >= MarkLen && (string(head[:MarkLen]) == Magic || string(head[:MarkLen]) == ValkeyMagic[:MarkLen])
}

// checksumSince is the first version with a CRC64 after EOF.
const checksumSince = 5

// DialectOf returns the dialect of a version number. A payload has no magic, so its version number alone tells the
// dialect.
func DialectOf(version int) Dialect {
	if version >= ValkeyVersion {
		return Valkey
	}
	return Redis
}

// understood reports whether everything in this version can be read.
func (d Dialect) understood(version int) bool {
	if d == Valkey {
		return version >= ValkeyVersion && version <= MaxValkeyVersion
	}
	return version >= 1 && version <= MaxVersion
}

// String returns the name of the servers.
func (d Dialect) String() string {
	if d == Valkey {
		return "Valkey"
	}
	return "Redis"
}

// header returns magic and version.
func (d Dialect) header(version int) string {
	if d == Valkey {
		return fmt.Sprintf(ValkeyMagic+"%03d", version)
	}
	return fmt.Sprintf(Magic+"%04d", version)
}
