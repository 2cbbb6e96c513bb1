// Package intset reads and edits intsets: sorted sets of distinct integers in one run of bytes, in the published
// format.
//
// Owner: the owner of the bytes. The package has only pure functions over []byte and keeps no state. Any goroutine may
// read frozen bytes.
// Never: allocates in a read or a planned edit, knows where the bytes lie, or trusts bytes from outside before
// Validate.
// Start at intset.go: the picture and the reads. edit.go changes and builds intsets.
package intset
