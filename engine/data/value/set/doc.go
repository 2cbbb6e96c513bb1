// Package set is the value of a set: its encodings, when they change, what is done to it, and how it is read.
//
// Owner: the core writes, inside a turn, through a value.Edit. Elsewhere: a Reader of a frozen value, on any goroutine.
// Never: knows a command, a client or a reply, or gives a member back twice.
// Start at set.go: the encodings. edit.go changes a set in place, builder.go makes one off the keyspace, reader.go and
// filter.go read, draw.go picks at random, structure.go is the root.
package set
