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
// Proof: on amd64 only TestGoroutine calls it, to compare it with the faster running.
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
