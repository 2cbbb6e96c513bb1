// Package keyspace holds the databases: keys, values, deadlines and views.
//
// Owner: the core; only the holder of the turn calls anything that writes.
// Elsewhere: a saver may read the View that it was given, and nothing else.
// Never: blocks, costs a Go heap object per key, or knows what a command is.
//
// keyspace.H1. Only the holder of the turn calls methods of Keyspace, DB and Loader, and methods of Writer marked "turn
// only". Builds with invariant checks assert this. Methods that return only a part of a Keyspace, or data that never
// changes, are exempt.
//
// Start at db.go; expire.go, evict.go and view.go build on it.
package keyspace
