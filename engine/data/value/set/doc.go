// Package set is the value of a set: its encodings, when they change, its changes and its reads.
//
// Owner: the core writes, inside a turn, through a value.Edit.
// Elsewhere: a Reader of a frozen value, on any goroutine.
// Never: knows a command, a client or a reply, or yields a member twice.
// Start at set.go: the encodings. edit.go changes a set in place, builder.go makes one outside the keyspace. reader.go
// and filter.go read, draw.go draws at random, structure.go is the root.
package set
