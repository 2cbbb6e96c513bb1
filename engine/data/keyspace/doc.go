// Package keyspace holds the databases: keys, values, deadlines and views.
//
// Owner: the core; only the holder of the turn calls anything that writes.
// Elsewhere: a saver may read the View it was handed, and nothing else.
// Never: blocks, costs a Go heap object per key, or knows what a command is.
//
// keyspace.H1. What Keyspace, DB and Loader do is for the holder of the turn. So is what a Writer says is turn only.
// Builds that check assert it. Whoever asks for a part of a Keyspace, or for what never changes, needs no turn.
//
// Start at db.go; expire.go, evict.go and view.go stand on it.
package keyspace
