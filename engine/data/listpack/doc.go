// Package listpack reads and edits listpacks: short lists of strings and integers in one run of bytes, in the published
// format.
//
// Owner: whoever owns the bytes; the package is pure functions over []byte and keeps nothing. Frozen bytes may be read
// by anyone.
// Never: allocates on the way of a read or a planned edit, knows where the bytes lie, or trusts bytes from outside
// before Validate. Start at listpack.go: the picture and the steps. element.go is what an entry holds, splice.go how
// one is changed.
package listpack
