//go:build invariants || race

package invariant

import "fmt"

// Enabled is true in builds that check.
const Enabled = true

// That panics when ok is false: our own mistake, after which the data is not known to be right.
func That(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
