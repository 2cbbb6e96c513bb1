package memory

// A retireJob frees the blocks and roots of one list, slice by slice, on whichever goroutine runs it.
type retireJob struct {
	t       Returner
	list    shelf
	at      uint64 // entries of the first chunk done so far
	rest    Ref    // what is left of a root whose destruction has begun; kind is its kind
	kind    Kind
	objects int64
	bytes   int64 // the part of Reclaiming that is still on this list
	step    func(budget int) bool
}

// maxSpareJobs is the number of finished jobs that a heap keeps for reuse. So a turn that frees need not allocate.
const maxSpareJobs = 8

func (h *Heap) newJob() *retireJob {
	j := &retireJob{t: Returner{h: h}}
	j.step = j.run
	return j
}

// TakeJob returns work for a reclaimer, or nil: blocks and roots to free, pages to give back, or pages to touch early.
// Each call of job frees about budget blocks. Several goroutines may run job, but only one at a time. objects is the
// number that INFO counts. The core calls TakeJob once per turn. A list that is not taken stays in h.ready, at 8 bytes
// a block.
func (h *Heap) TakeJob() (job func(budget int) (done bool), objects int) {
	if job := h.touchJob(); job != nil {
		return job, 0
	}
	if job, objects := h.TakeFreeing(); job != nil {
		return job, objects
	}
	return h.trimJob(), 0
}

// TakeFreeing is TakeJob for a turn that may have to run the job itself. It returns only jobs that free blocks and
// roots. Kernel calls that touch pages or give them back may take long, whatever the budget.
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

// LazyObjects returns how many objects wait to be freed, and how many have been freed so far. An object is a value, or
// a key of a database that was emptied. Any goroutine may call it.
func (h *Heap) LazyObjects() (pending, freed int64) { return h.pendingObj.Load(), h.freedObj.Load() }

// ResetLazyObjects sets the count of freed objects to 0 (CONFIG RESETSTAT). Any goroutine may call it.
func (h *Heap) ResetLazyObjects() { h.freedObj.Store(0) }
