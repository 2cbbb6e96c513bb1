package server

import (
	"fmt"
	"math"
	"time"
)

// What is used beyond maxmemory is bounded by kept-memory-limit: what views keep alive, what reclaimers have not freed,
// what replicas have not read, and what the log has not written. Past it the work that has gone on for longest is cut
// off, if such work is the reason: its view is the oldest, and keeps most. What the log may still keep holds writers.
// Replicas that follow have a bound of their own, client-output-buffer-limit.

// cutEvery is how long what was cut off has to close its view, before the next is looked for.
const cutEvery = 2 * time.Second

// boundKept cuts off a save, a rewrite or a full synchronisation if too much is kept. Ten times a second.
func (in *instance) boundKept(int64) {
	kept, limit := in.core.Kept()
	now := time.Now()
	if limit == 0 || kept <= limit || now.Sub(in.cutAt) < cutEvery {
		return
	}
	share := in.heap.Retained()
	if in.feed.Sending() {
		share += in.clients.Costs.Replicas()
	}
	if share < limit/2 {
		return // cutting off would not help
	}
	var oldest time.Time
	var cut func(why string)
	for _, work := range []struct {
		began time.Time
		cut   func(why string)
	}{
		{in.scheduler.Began(), in.scheduler.CutOff},
		{in.aof.RewriteBegan(), in.aof.CutOff},
		{in.feed.Began(), in.feed.CutOff},
	} {
		if !work.began.IsZero() && (cut == nil || work.began.Before(oldest)) {
			oldest, cut = work.began, work.cut
		}
	}
	if cut != nil {
		in.cutAt = now
		cut(fmt.Sprintf("%d MB are kept for it and its like since %.1f s, which is more than kept-memory-limit admits",
			kept>>20, now.Sub(oldest).Seconds()))
	}
}

// leastLogRoom is what may wait for the log's disk whatever else is kept.
const leastLogRoom = 1 << 20

// logRoom is how much may wait for the log's disk by kept-memory-limit, beside what else is kept. Turn only.
func (in *instance) logRoom() int64 {
	kept, limit := in.core.Kept()
	if limit == 0 {
		return math.MaxInt64
	}
	return max(leastLogRoom, limit-(kept-in.aof.Memory()))
}
