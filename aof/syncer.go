package aof

import "time"

// A syncer says when to sync, and how far the disk has confirmed the log.
//
// aof.W5. The clients that a sync has let go write again at once. The next sync waits until as many bytes have come as
// the last one covered, if that has lately taken less time than a sync costs. Otherwise it would begin with the first
// of the clients, and the others would wait for two.
type syncer struct {
	due     bool      // a sync was asked for
	syncing bool      // a sync is under way
	synced  int64     // the offset up to which the disk has the log
	awaited int64     // a turn is told when synced has come so far; 0: none is
	blocked time.Time // when a sync began to keep bytes from the file; zero: none does

	// aof.W5:
	group   int64 // a sync that replies wait for waits until ready has come so far; 0: none waits
	until   time.Time
	back    int64         // ready, once as many bytes have come as the last sync let go; 0: they have
	left    time.Time     // when it let them go
	returns time.Duration // how long they take: the longest of late, less an eighth for each sync since
}

// handover is what a sync costs beyond the disk's time: it wakes the goroutine, the loops and the monitor of Go's
// runtime. On a quick disk that is as much again.
const handover = 300 * time.Microsecond

// letGo notes that a sync lets the replies to so many bytes go. It puts off the next one if the clients are likely to
// be back before that one could be over.
func (y *syncer) letGo(ready, bytes int64, took time.Duration) {
	if y.back != 0 {
		y.came()
	}
	took += handover
	y.returns = min(y.returns, 2*took) // a pause of the clients is soon forgotten
	y.back, y.left = ready+bytes, time.Now()
	if y.returns < took {
		y.group, y.until = y.back, y.left.Add(2*y.returns)
	}
}

// came notes how long the clients took since the last sync let them go.
func (y *syncer) came() { y.back, y.returns = 0, max(time.Since(y.left), y.returns-y.returns/8) }

// confirm notes that the disk has the log up to an offset. It reports whether a turn waits for that.
func (y *syncer) confirm(at int64) (isAwaited bool) {
	y.synced = max(y.synced, at)
	if isAwaited = y.awaited != 0 && y.awaited <= y.synced; isAwaited {
		y.awaited = 0
	}
	return isAwaited
}
