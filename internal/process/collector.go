package process

import (
	"runtime/debug"
	gometrics "runtime/metrics"
	"sync/atomic"
)

// A Collector makes the Go heap give memory back after a burst, such as a script with large tables or many long
// replies.
//
// Go's own collector starts again when the heap is five times as large as the live data of its last run (gcPercent).
// After a burst that is hundreds of megabytes. Without a Collector, that garbage would stay resident for minutes.
//
// Owner: the turn. The collection itself runs on another goroutine.
type Collector struct {
	size    func() int64 // the resident bytes of the heap: live, dead and free
	collect func()       // runs a full collection, and gives free pages back to the kernel

	ticks    int
	swollen  int          // how often in a row the heap was large
	rest     atomic.Int64 // the heap's size after the last collection; it decreases (collectForget)
	underway atomic.Bool
}

const (
	collectLook   = 10 // in ticks: a second
	collectAfter  = 2  // in checks: a shorter burst is not worth a collection
	collectFrom   = 32 << 20
	collectLeast  = 8 << 20
	collectForget = 64 // each check lowers rest by this part: by half within 45 s
)

func NewCollector() *Collector { return &Collector{size: goHeapSize, collect: debug.FreeOSMemory} }

// Tick is called ten times a second. maxMemory is the setting; 0 means no bound.
func (g *Collector) Tick(maxMemory int64) {
	if g.ticks++; g.ticks%collectLook != 0 || g.underway.Load() {
		return
	}
	from, size, rest := int64(collectFrom), g.size(), g.rest.Load()
	if maxMemory > 0 {
		from = min(from, max(collectLeast, maxMemory/8))
	}
	g.rest.Store(min(size, rest-rest/collectForget))
	if size <= max(from, 2*rest) {
		g.swollen = 0
		return
	}
	if g.swollen++; g.swollen < collectAfter {
		return
	}
	g.swollen = 0
	g.underway.Store(true)
	go func() {
		g.collect()
		g.rest.Store(g.size())
		g.underway.Store(false)
	}()
}

// goHeapSize reads the runtime's counters. It does not stop the world. Any goroutine.
func goHeapSize() (bytes int64) {
	classes := []gometrics.Sample{{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	gometrics.Read(classes)
	for _, c := range classes {
		if c.Value.Kind() == gometrics.KindUint64 {
			bytes += int64(c.Value.Uint64())
		}
	}
	return bytes
}
