// Package table is a copy-on-write hash table off the Go heap: extendible hashing, stored as a trie of small nodes.
//
// Owner: the core writes, in its turn. Any goroutine may walk a frozen root (R4).
// Never: moves more than one segment in a step, allocates on the Go heap, or knows what a value is.
// Start at segment.go (the picture and the invariants), then table.go. cow.go has the epoch rule, grow.go the splits,
// scan.go the cursor, due.go the index of deadlines. DESIGN.md gives the reasons.
package table
