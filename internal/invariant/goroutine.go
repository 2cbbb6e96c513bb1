//go:build invariants || race

package invariant

import "runtime"

// Goroutine returns a number that identifies the calling goroutine. No two live goroutines have the same number, and
// none has 0.
//
// It is only for assertions in builds with invariants: "the caller is the goroutine that took this".
func Goroutine() uintptr { return running() }

// numbered returns the number that a stack trace gives the goroutine: "goroutine 17 [running]:".
// Cost: some microseconds.
// Proof: where the processor has a shorter way, tests compare both.
func numbered() (n uintptr) {
	var text [32]byte
	for _, c := range text[len("goroutine "):runtime.Stack(text[:], false)] {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uintptr(c-'0')
	}
	return n
}
