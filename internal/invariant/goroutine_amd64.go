//go:build (invariants || race) && amd64

package invariant

// running is the address of the runtime's record of the goroutine that calls, which stays while the goroutine lives.
func running() uintptr
