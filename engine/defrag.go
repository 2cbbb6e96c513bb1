package engine

import (
	"time"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/internal/info"
)

const (
	defragSlice = 200 * time.Microsecond
	defragRest  = 100             // ticks
	defragLeast = int64(64) << 10 // bytes that a run must gain
)

// defragDue begins a run when the slabs in use have too much empty room. It is called ten times a second.
func (c *Core) defragDue() {
	d, heap := &c.defrag, c.space.Heap()
	free, live := heap.Scattered()
	s := c.settings
	if d.rest > 0 {
		d.rest--
	}
	percent := free * 100 / max(live, 1)
	switch {
	case heap.Evacuation() != memory.EvacuationOver:
		if d.share > 0 {
			d.share = c.defragShare(percent)
		}
	case !c.mayDefrag() || free <= s.DefragIgnore.Get() || percent < s.DefragLower.Get():
	case d.rest > 0 && free < d.settled+d.settled/8+defragLeast:
	default:
		heap.Evacuate(max(defragLeast, free/8))
		d.share, d.began, d.next = c.defragShare(percent), c.nanos, c.nanos
	}
}

// defragShare returns the share of time that a run may take, in percent. The share grows with the memory to gain.
func (c *Core) defragShare(percent int64) int64 {
	s := c.settings
	lower, upper := s.DefragLower.Get(), s.DefragUpper.Get()
	least, most := s.DefragCycleMin.Get(), s.DefragCycleMax.Get()
	if upper <= lower || percent >= upper {
		return max(least, most)
	}
	return min(max(least+(most-least)*max(percent-lower, 0)/(upper-lower), least), max(least, most))
}

// mayDefrag reports whether blocks may move now (engine.D1).
func (c *Core) mayDefrag() bool {
	heap := c.space.Heap()
	return c.settings.Defrag.Get() && !heap.Holding() && !heap.Short() && !c.duties.loading && c.lent == nil
}

// defragSliceDue runs a slice if one is due.
func (c *Core) defragSliceDue() {
	d, heap := &c.defrag, c.space.Heap()
	phase := heap.Evacuation()
	if phase == memory.EvacuationOver {
		return
	}
	began := c.wall.Nanos()
	if began < d.next {
		return
	}
	stop := func() bool { return c.wall.Nanos()-began > int64(defragSlice) }
	switch {
	case phase != memory.EvacuationMoves:
		for !stop() && phase == heap.StepEvacuation() {
		}
		if heap.Evacuation() == memory.EvacuationOver {
			c.defragOver()
		}
	case !c.mayDefrag():
		heap.EndEvacuation()
	case c.space.Defragment(&d.walk, stop):
		w := &d.walk
		*w = keyspace.Defrag{Moved: w.Moved, Stayed: w.Stayed, KeysMoved: w.KeysMoved, KeysStayed: w.KeysStayed}
		heap.EndEvacuation()
	}
	now := c.wall.Nanos()
	d.spent += now - began
	d.next = now + (now-began)*(100-d.share)/max(d.share, 1)
	c.watchDuty("active-defrag-cycle", time.Duration(began))
}

// defragOver records the result of a finished run. The next run may begin soon if this one freed enough.
func (c *Core) defragOver() {
	d, heap := &c.defrag, c.space.Heap()
	d.share, d.rest = 0, defragRest
	if d.settled, _ = heap.Scattered(); heap.Emptied() > d.settled/4 {
		d.rest = 0
	}
}

// DefragSections returns INFO's figures of defragmentation. They are read in turns.
func (c *Core) DefragSections() []info.Section {
	d, w := &c.defrag, &c.defrag.walk
	number := func(name string, at *int64) info.Field { return info.Int(name, func() int64 { return *at }) }
	return []info.Section{
		{Name: "Memory", Fields: []info.Field{number("active_defrag_running", &d.share)}},
		{Name: "Stats", Fields: []info.Field{
			number("active_defrag_hits", &w.Moved), number("active_defrag_misses", &w.Stayed),
			number("active_defrag_key_hits", &w.KeysMoved), number("active_defrag_key_misses", &w.KeysStayed),
			info.Int("total_active_defrag_time", func() int64 { return d.spent / int64(time.Millisecond) }),
			info.Int("current_active_defrag_time", func() int64 {
				if d.share == 0 {
					return 0
				}
				return (c.nanos - d.began) / int64(time.Millisecond)
			}),
		}},
	}
}

// resetDefrag does the part of CONFIG RESETSTAT for defragmentation.
func (c *Core) resetDefrag() {
	w := &c.defrag.walk
	w.Moved, w.Stayed, w.KeysMoved, w.KeysStayed = 0, 0, 0, 0
	c.defrag.spent = 0
}
