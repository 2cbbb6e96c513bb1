package server

import (
	"fmt"
	"time"
)

// What views keep alive is bounded by kept-memory-limit. Past it the work that has gone on for longest is cut off: its
// view is the oldest, and keeps most.

// cutEvery is how long what was cut off has to close its view, before the next is looked for.
const cutEvery = 2 * time.Second

// boundKept cuts off a save, a rewrite or a full synchronisation if views keep too much. Ten times a second.
func (in *instance) boundKept(int64) {
	kept, over := in.core.KeptTooMuch()
	now := time.Now()
	if !over || now.Sub(in.cutAt) < cutEvery {
		return
	}
	var oldest time.Time
	var cut func(why string)
	for _, work := range []struct {
		began time.Time
		cut   func(why string)
	}{
		{in.scheduler.Began(), in.scheduler.CutOff}, {in.aof.RewriteBegan(), in.aof.CutOff}, {in.feed.Began(), in.feed.CutOff},
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
