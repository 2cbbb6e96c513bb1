//go:build (invariants || race) && !amd64

package invariant

func running() uintptr { return numbered() }
