package memory

import "unsafe"

// Prefetch starts fetching the cache line at p and does not wait for it. p may be any value: a prefetch never faults.
// About 1 ns. Misses of a batch overlap when all its lines are prefetched before the first is used.
//
//go:noescape
func Prefetch(p unsafe.Pointer)
