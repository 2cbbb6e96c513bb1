// Package intset reads and edits intsets: sorted sets of distinct integers in one run of bytes, in the published
// format.
//
// Owner: the owner of the bytes. The package is pure functions over []byte and keeps nothing. Any goroutine may read
// frozen bytes.
// Never: allocates in a read or a planned edit, knows where the bytes lie, or trusts bytes from outside before
// Validate.
// Start at intset.go: the picture and the reads. edit.go is how an intset is changed and built.
package intset
