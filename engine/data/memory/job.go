package memory

// A retireJob frees the blocks and roots of one list, slice by slice, on whichever goroutine runs it.
type retireJob struct {
	t       Returner
	list    shelf
	at      uint64 // entries of the first chunk done so far
	rest    Ref    // a root begun, with its kind
	kind    Kind
	objects int64
	bytes   int64 // of Reclaiming: what of the list is not freed, as far as was known beforehand
	step    func(budget int) bool
}

// maxSpareJobs is how many jobs that have ended a heap keeps for the next: a turn that frees something should not have
// to allocate.
const maxSpareJobs = 8

func (h *Heap) newJob() *retireJob {
	j := &retireJob{t: Returner{h: h}}
	j.step = j.run
	return j
}

// TakeJob gives a piece of work for a reclaimer, or nil when there is none: blocks and roots that no hold reads,
// pages to give back to the kernel, pages to touch before the turn needs them. job frees about budget blocks each time
// it is called, and says when it is done; it may move between goroutines, but is run by one at a time. objects is what
// INFO counts. The core calls TakeJob once per turn; what it does not take stays listed at 8 bytes a block.
func (h *Heap) TakeJob() (job func(budget int) (done bool), objects int) {
	if job := h.touchJob(); job != nil {
		return job, 0
	}
	if job, objects := h.TakeFreeing(); job != nil {
		return job, objects
	}
	return h.trimJob(), 0
}

// TakeFreeing is TakeJob for a turn that may have to do the job itself, because reclaimers are behind: blocks and roots
// only. Calls to the kernel that touch pages or give them back take as long as they take, whatever the budget.
func (h *Heap) TakeFreeing() (job func(budget int) (done bool), objects int) {
	if h.ready.head != 0 {
		var j *retireJob
		select {
		case j = <-h.spareJobs:
		default:
			j = h.newJob()
		}
		j.list, h.ready = h.ready, shelf{}
		j.objects, j.bytes = j.list.objects, j.list.bytes
		return j.step, int(j.objects)
	}
	return nil, 0
}

func (j *retireJob) run(budget int) (done bool) {
	h := j.t.h
	for budget > 0 {
		if j.rest != 0 {
			rest, spent := h.destroy[j.kind](&j.t, j.rest, budget)
			j.rest = rest
			budget -= max(spent, 1)
			continue
		}
		chunk := j.list.head
		if chunk == 0 {
			break
		}
		n := *Word(chunk + 8)
		if j.at == n {
			j.list.head = Ref(*Word(chunk))
			j.at = 0
			j.t.Free(chunk, Retired)
			budget--
			continue
		}
		const ahead = 8
		if j.at+ahead < n {
			PrefetchRef(Ref(*Word(chunk + chunkFirst + Ref(j.at+ahead)*8) & refMask))
		}
		entry := *Word(chunk + chunkFirst + Ref(j.at)*8)
		j.at++
		budget--
		if kind := Kind(entry >> kindShift); kind != 0 {
			j.rest, j.kind = Ref(entry&refMask), kind
			continue
		}
		j.t.Free(Ref(entry&refMask), Purpose(entry>>purposeShift&0xFF))
	}
	freed := min(j.t.unflushed(), j.bytes)
	j.t.Flush()
	done = j.rest == 0 && j.list.head == 0
	if done {
		freed = j.bytes
	}
	j.bytes -= freed
	h.reclaiming.Add(-freed)
	if !done {
		return false
	}
	h.pendingObj.Add(-j.objects)
	h.freedObj.Add(j.objects)
	*j = retireJob{t: Returner{h: h}, step: j.step}
	select {
	case h.spareJobs <- j:
	default:
	}
	return true
}

// LazyObjects is how many objects wait to be freed, from the moment they are let go, and how many were freed so far. An
// object is a value, or a key of a database that was emptied. Any goroutine.
func (h *Heap) LazyObjects() (pending, freed int64) { return h.pendingObj.Load(), h.freedObj.Load() }

// ResetLazyObjects begins to count freed objects anew (CONFIG RESETSTAT). Any goroutine.
func (h *Heap) ResetLazyObjects() { h.freedObj.Store(0) }
