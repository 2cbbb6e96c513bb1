// Package keyspace holds the databases: keys, values, deadlines and views.
//
// Owner: the core; only the holder of the turn calls anything that writes.
// Elsewhere: a saver may read the View it was handed, and nothing else.
// Never: blocks, costs a Go heap object per key, or knows what a command is.
//
// keyspace.H1. Only the holder of the turn calls methods of Keyspace, DB and Loader, and those of Writer that say "turn
// only". Builds that check assert it. A method that returns a part of a Keyspace, or what never changes, needs no turn.
//
// Start at db.go; expire.go, evict.go and view.go build on it.
package keyspace
