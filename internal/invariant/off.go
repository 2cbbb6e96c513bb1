//go:build !invariants && !race

// Package invariant asserts conditions that only our own bug can break.
//
// Owner: none; it is a function. It costs nothing in a release build and panics under -race or -tags invariants.
package invariant

// Enabled is true in builds that check.
const Enabled = false

// That panics when ok is false, in builds that check.
func That(ok bool, format string, args ...any) {}

// Goroutine returns a name of the calling goroutine, in builds that check.
func Goroutine() uintptr { return 0 }
