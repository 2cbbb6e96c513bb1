// Package number converts numbers to the texts that clients know, and back: 64-bit integers, doubles, and the 80-bit
// long doubles of INCRBYFLOAT.
//
// Owner: the caller; it has only pure functions.
// Never: allocates in the usual case, accepts text that Redis refuses, or prints other digits.
// Start at integer.go; double.go is scores, long.go is INCRBYFLOAT and HINCRBYFLOAT.
package number
