// Package rdb is the RDB file format: the bytes of a file or a DUMP payload. Where they come from is not its concern.
//
// Owner: the caller. One goroutine at a time may use an Encoder, a Decoder or a Batch.
// Never: opens a file, starts a goroutine, reads a clock, or knows a keyspace.
// Start here; opcode.go has the table of value types, encoder.go writes, decoder.go reads.
//
//	"REDIS" "0009"                                   magic, version in four digits
//	FA name value …                                  AUX: facts about the file
//	FE db  FB keys volatile                          SELECTDB, RESIZEDB: what follows belongs to this database
//	[FC deadline] [F8 idle | F9 freq] type key value one key; type says how value is written (opcode.go)
//	FF crc64                                         EOF; the sum is of all bytes before it and EOF (since version 5)
//
// Numbers: lengths are big endian (length.go), everything else is little endian.
// Source: the RDB file format as published, versions 1 to 12, and files written by the reference server.
package rdb

// MaxVersion is the newest version that is read. The reference server (7.4) writes it.
const MaxVersion = 12

// Magic begins every file; four digits of version follow it.
const Magic = "REDIS"

// headerLen is the length of magic and version.
const headerLen = len(Magic) + 4

// checksumSince is the first version with a CRC64 after EOF.
const checksumSince = 5
