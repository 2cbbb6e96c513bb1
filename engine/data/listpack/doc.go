// Package listpack reads and edits listpacks: short lists of strings and integers in one run of bytes, in the published
// format.
//
// Owner: the owner of the bytes. The package has only pure functions over []byte and keeps no state. Any goroutine may
// read frozen bytes.
// Never: allocates in a read or a planned edit, knows where the bytes lie, or trusts bytes from outside before
// Validate.
// Start at listpack.go: the picture and the steps from entry to entry. element.go reads and writes an entry's content,
// splice.go changes entries.
package listpack
