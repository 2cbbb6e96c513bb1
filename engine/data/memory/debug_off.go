//go:build !invariants && !race

package memory

// The checks of debug_on.go are absent in this build. Their calls are under invariant.Enabled and compiled away.

func debugSegment(first uint32)            {}
func debugSlab(i uint32, s *slab)          {}
func debugAlloc(r Ref, s *slab, p Purpose) {}
func debugFree(r Ref, s *slab, p Purpose)  {}
func debugHoles(*slab, uint32, uint16)     {}
func debugRunAlloc(r Ref, p Purpose)       {}
func debugRunReturned(r Ref, p Purpose)    {}
func debugRunSplit(r, second Ref)          {}
