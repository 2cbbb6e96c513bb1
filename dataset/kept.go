package dataset

import (
	"fmt"
	"math"
	"time"
)

// kept-memory-limit bounds the memory used beyond maxmemory. It counts blocks that views keep alive or that wait for
// reclaimers, and bytes that replicas or the log's disk have not taken. Past the limit, the oldest save, rewrite or
// full synchronisation is cut off, if such work is the reason. The oldest view keeps most. A full log buffer delays
// writers. Replicas that follow have their own bound, client-output-buffer-limit.

// cutEvery is how long cancelled work may take to close its view before the next work is cancelled.
const cutEvery = 2 * time.Second

// boundKept cancels a save, a rewrite or a full synchronisation if too much memory is kept. It runs ten times a second.
func (d *Set) boundKept(int64) {
	kept, limit := d.Core.Kept()
	now := time.Now()
	if limit == 0 || kept <= limit || now.Sub(d.cutAt) < cutEvery {
		return
	}
	share := d.Heap.Retained()
	if d.Feed.Sending() {
		share += d.Clients.Costs.Replicas()
	}
	if share < limit/2 {
		return // cancelling would not help
	}
	var oldest time.Time
	var cut func(why string)
	for _, work := range []struct {
		began time.Time
		cut   func(why string)
	}{
		{d.Scheduler.Began(), d.Scheduler.CutOff},
		{d.AOF.RewriteBegan(), d.AOF.CutOff},
		{d.Feed.Began(), d.Feed.CutOff},
	} {
		if !work.began.IsZero() && (cut == nil || work.began.Before(oldest)) {
			oldest, cut = work.began, work.cut
		}
	}
	if cut != nil {
		d.cutAt = now
		cut(fmt.Sprintf("%d MB have been kept for it and its like for %.1f s, which is more than kept-memory-limit admits",
			kept>>20, now.Sub(oldest).Seconds()))
	}
}

// leastLogRoom is how many bytes may always wait for the log's disk.
const leastLogRoom = 1 << 20

// logRoom returns how many bytes may wait for the log's disk under kept-memory-limit, in addition to the other kept
// memory. Turn only.
func (d *Set) logRoom() int64 {
	kept, limit := d.Core.Kept()
	if limit == 0 {
		return math.MaxInt64
	}
	return max(leastLogRoom, limit-(kept-d.AOF.Memory()))
}
