// Package rdb is the RDB file format alone: what stands in a file or a DUMP payload, byte by byte, and nothing of where
// it goes to or comes from.
//
// Owner: whoever calls; an Encoder or Decoder belongs to one goroutine, a Batch to whoever holds it.
// Never: opens a file, starts a goroutine, reads a clock, or knows a keyspace.
// Start here; opcode.go has the table of value types, encoder.go writes, decoder.go reads.
//
//	"REDIS" "0009"                                   magic, version in four digits
//	FA name value …                                  AUX: facts about the file
//	FE db  FB keys volatile                          SELECTDB, RESIZEDB: what follows belongs to this database
//	[FC deadline] [F8 idle | F9 freq] type key value one key; type says how value is written (opcode.go)
//	FF crc64                                         EOF; the sum is of all bytes before it and EOF (from version 5 on)
//
// Numbers: lengths are big endian (length.go), everything else is little endian.
// Source: the RDB file format as published, versions 1 to 12, and files written by the reference server.
package rdb

// MaxVersion is the newest version that is read, and the one that the reference server (7.4) writes.
const MaxVersion = 12

// Magic opens every file; four digits of version follow it.
const Magic = "REDIS"

// headerLen is Magic and version.
const headerLen = len(Magic) + 4

// checksumSince is the first version with a CRC64 behind EOF.
const checksumSince = 5
