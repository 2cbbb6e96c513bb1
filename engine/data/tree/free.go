package tree

import "spindle/engine/data/memory"

// Clear empties the tree in O(1). It frees up to 63 leaves itself and leaves a larger tree to a reclaimer.
func (t *tree) Clear() {
	root, height := t.root, t.height
	t.State = State{}
	switch {
	case root == 0:
		return
	case height > 1:
		t.releaseTree(root)
		return
	case height == 1:
		n := nodeAt(root)
		for i := range int(n.n) {
			t.release(n.child(i))
		}
	}
	t.release(root)
}

// Destroy frees a node and everything under it, budget blocks at a time. It is the [memory.Destroy] of the kind with
// which a tree is opened.
func Destroy(r *memory.Returner, root memory.Ref, budget int) (rest memory.Ref, spent int) {
	done, spent := destroy(r, root, budget)
	if done {
		return 0, spent
	}
	return root, spent
}

// Destroy frees the tree, budget blocks at a time. The caller calls it again until done is true. It is for the Destroy
// of an owner that has the State in its root block. No view may read that block any more.
func (s *State) Destroy(r *memory.Returner, budget int) (done bool, spent int) {
	switch {
	case s.root == 0:
		return true, 0
	case budget <= 0:
		return false, 0
	case s.height == 0:
		r.Free(s.root, memory.Values)
		done, spent = true, 1
	default:
		done, spent = destroy(r, s.root, budget)
	}
	if done {
		*s = State{}
	}
	return done, spent
}

const destroying = 1

// destroy frees the node ref and everything under it. While it works on a node, its epoch is the index of the next
// child.
func destroy(r *memory.Returner, ref memory.Ref, budget int) (done bool, spent int) {
	n := nodeAt(ref)
	if n.mark != destroying {
		n.mark, n.epoch = destroying, 0
	}
	for n.epoch < uint64(n.n) {
		if spent >= budget {
			return false, spent
		}
		i := int(n.epoch)
		if n.level == 1 {
			if i+4 < int(n.n) { // freeing writes to the block
				memory.PrefetchRef(n.child(i + 4))
			}
			r.Free(n.child(i), memory.Values)
			spent++
		} else {
			done, k := destroy(r, n.child(i), budget-spent)
			spent += k
			if !done {
				return false, spent
			}
		}
		n.epoch++
	}
	r.Free(ref, memory.Values)
	return true, spent + 1
}
