//go:build invariants || race

package invariant

import "fmt"

// Enabled is true in builds with checks.
const Enabled = true

// That panics when ok is false. That is a bug of this program, and the data may be wrong after it.
func That(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
