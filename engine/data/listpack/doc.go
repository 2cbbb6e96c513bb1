// Package listpack reads and edits listpacks: short lists of strings and integers in one run of bytes, in the published
// format.
//
// Owner: the owner of the bytes. The package is pure functions over []byte and keeps nothing. Any goroutine may read
// frozen bytes.
// Never: allocates in a read or a planned edit, knows where the bytes lie, or trusts bytes from outside before
// Validate.
// Start at listpack.go: the picture and the steps. element.go is an entry's content, splice.go is how entries change.
package listpack
