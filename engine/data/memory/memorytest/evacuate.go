// Package memorytest drives a heap's evacuation for model tests of what lies in heaps.
//
// Owner: tests alone. Never: part of the server.
package memorytest

import "spindle/engine/data/memory"

// Relocate goes on with moving every block of h elsewhere, by one step. A view that lives ends that.
//
// move walks what lies in the heap until stop says so, left blocks later, and answers whether the walk is over.
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
