//go:build !invariants && !race

// Package invariant asserts conditions that only a bug of this program can break.
//
// Owner: none; it is a function. It costs nothing in a release build and panics under -race or -tags invariants.
package invariant

// Enabled is true in builds with checks.
const Enabled = false

// That panics when ok is false, in builds with checks.
func That(ok bool, format string, args ...any) {}

// Goroutine returns a number that identifies the calling goroutine, in builds with checks.
func Goroutine() uintptr { return 0 }
