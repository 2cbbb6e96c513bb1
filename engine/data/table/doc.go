// Package table is a copy-on-write hash table off the Go heap: extendible hashing, kept as a trie of small nodes.
//
// Owner: the core writes, in its turn; any goroutine may walk a root that was frozen (R4).
// Never: moves more than one segment in a step, allocates on the Go heap, or knows what a value is.
// Start at segment.go (the picture and the invariants), then table.go; cow.go states the epoch rule, grow.go the
// splits, scan.go the cursor, due.go the index of deadlines. DESIGN.md says why.
package table
