// Package memorytest drives a heap's evacuation for the model tests of structures that lie in heaps.
//
// Owner: one test. It changes heaps as the holder of the turn does.
package memorytest

import "spindle/engine/data/memory"

// Relocate does one step of moving every block of h to another place. If a view is open, the evacuation ends.
//
// move walks the heap's blocks until stop returns true. stop does so after left calls. move reports whether the walk is
// complete.
func Relocate(h *memory.Heap, left int, move func(stop func() bool) (over bool)) {
	switch phase := h.Evacuation(); {
	case phase == memory.EvacuationOver:
		h.Evacuate(0)
	case phase != memory.EvacuationMoves:
		h.StepEvacuation()
	case h.Holding():
		h.EndEvacuation()
	default:
		if move(func() bool { left--; return left < 0 }) {
			h.EndEvacuation()
		}
	}
}
