// Package value is one value in place: its type, its encoding and where its bytes are.
//
// Owner: the core writes, under R1; a saver reads values of the View it was handed (R4).
// Never: allocates on the Go heap per value, or knows what a command is.
package value

import "unsafe"

// Type is what TYPE answers.
type Type uint8

const (
	None Type = iota
	String
	List
	Set
	ZSet
	Hash
	Stream
	Module
)

// Encoding is what OBJECT ENCODING answers.
type Encoding uint8

const (
	Raw Encoding = iota // a string longer than 44 bytes or changed in place
	Int
	EmbStr
	Listpack
	ListpackEx
	Quicklist
	IntSet
	HashTable
	SkipList
	StreamTree
)

// A Value is an entry of a database in place; the zero Value is "no such key".
//
// Lifetime: until the next write to its database, or, from a View, until the View is closed.
type Value struct{ p unsafe.Pointer }
