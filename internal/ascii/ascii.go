// Package ascii compares words without regard to the case of ASCII letters, as commands, options and patterns are
// compared. Other bytes stay as they are, whatever the locale.
//
// Owner: its caller; pure functions, which allocate nothing.
package ascii

// Lower is c, as a small letter if it is a capital.
func Lower(c byte) byte {
	if c-'A' < 26 {
		return c | 0x20
	}
	return c
}

// EqualFold says whether a and b are the same word, capitals or not.
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
