// Package tree is a counted, copy-on-write B+ tree off the Go heap: order and rank for sorted sets, lists, streams and
// pending entries.
//
// Owner: the core writes, in its turn. Any goroutine may read a frozen [State] (R4).
// Never: allocates on the Go heap, calls SetPosition, or knows what a record or an opaque leaf means.
// Start at node.go (the picture and the invariants). state.go and cursor.go read. records.go and blocks.go are the two
// kinds of leaves. cow.go has the epoch rule, shape.go splits and joins, free.go frees. DESIGN.md gives the reasons.
package tree
