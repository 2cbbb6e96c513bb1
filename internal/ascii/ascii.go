// Package ascii compares words without regard to the case of ASCII letters, for commands, options and patterns. It
// leaves other bytes unchanged, whatever the locale.
//
// Owner: the caller; it has only pure functions, which allocate nothing.
package ascii

// Lower returns c in lower case.
func Lower(c byte) byte {
	if c-'A' < 26 {
		return c | 0x20
	}
	return c
}

// EqualFold reports whether a and b are equal except for case.
func EqualFold[A, B ~[]byte | ~string](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && Lower(a[i]) != Lower(b[i]) {
			return false
		}
	}
	return true
}
