//go:build (invariants || race) && amd64

package invariant

// running returns the address of the runtime's record of the calling goroutine, which stays while the goroutine lives.
func running() uintptr
