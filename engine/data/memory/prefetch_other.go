//go:build !amd64

package memory

import "unsafe"

// Prefetch does nothing on this architecture.
func Prefetch(p unsafe.Pointer) {}
