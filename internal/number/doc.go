// Package number turns numbers into the texts clients know and back: 64-bit integers, doubles, and the 80-bit long
// doubles of INCRBYFLOAT.
//
// Owner: whoever calls; it is pure functions.
// Never: allocates on the usual path, accepts what the reference server refuses, or prints another digit than it does.
// Start at integer.go; double.go is scores, long.go is INCRBYFLOAT and HINCRBYFLOAT.
package number
