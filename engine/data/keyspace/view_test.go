package keyspace

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// TestViewDuringWrites reads views on some goroutines and frees memory on another, while everything changes. Under
// -race it shows that no byte that a view reads is written.
func TestViewDuringWrites(t *testing.T) {
	k := open(t)
	db := k.DB(0)
	n := scaled(12_000)
	text := func(i, generation int) []byte {
		if i%500 == 0 {
			return fmt.Appendf(nil, "%0*d", 150_000, i*1000+generation)
		}
		return fmt.Appendf(nil, "value %d of generation %d", i, generation)
	}
	for i := range n {
		db.SetString(fmt.Appendf(nil, "key:%d", i), text(i, 0), int64(i%2)*9_000_000)
	}
	jobs := make(chan func(int) bool, 100)
	var reclaimer, readers sync.WaitGroup
	reclaimer.Go(func() {
		for job := range jobs {
			for !job(200) {
			}
		}
	})
	for generation := 1; generation <= 4; generation++ {
		view, before := k.Freeze(), generation-1
		const parts = 3
		var left sync.WaitGroup
		var mu sync.Mutex
		seen := 0
		for part := range parts {
			left.Add(1)
			readers.Go(func() {
				defer left.Done()
				count := 0
				view.Walk(0, part, parts, func(v value.Value) bool {
					var i int
					fmt.Sscanf(string(v.Key()), "key:%d", &i)
					if got := string(v.AppendTo(nil)); got != string(text(i, before)) {
						t.Errorf("generation %d: %s is %.50q…, should be %.50q…", before, v.Key(), got, text(i, before))
						return false
					}
					v.Clock()
					count++
					return true
				})
				mu.Lock()
				seen += count
				mu.Unlock()
			})
		}
		readers.Go(func() {
			left.Wait()
			if seen != n || view.Len(0) != n {
				t.Errorf("generation %d: %d keys seen of %d", before, seen, n)
			}
			view.Close()
		})
		for i := range n {
			key := fmt.Appendf(nil, "key:%d", i)
			db.Lookup(key)
			switch {
			case i%500 == 0:
				db.SetRange(key, 150_000-3, fmt.Appendf(nil, "%03d", generation))
			case i%5 == 0:
				db.Delete(key)
				fallthrough
			default:
				db.SetString(key, text(i, generation), KeepTTL)
			}
			if i%50 == 0 {
				k.SetNow(k.Now() + 20)
				k.heap.Drain(100)
				if job, _ := k.heap.TakeJob(); job != nil {
					jobs <- job
				}
			}
		}
		if err := db.d.t.Check(); err != nil {
			t.Fatal(err)
		}
	}
	readers.Wait()
	close(jobs)
	reclaimer.Wait()
	empty := open(t).heap.Used()
	db.Flush()
	reclaim(k)
	if used := k.heap.Used(); used != empty {
		for p := range memory.Purposes {
			t.Errorf("%d bytes are left, of %v %d", used-empty, p, k.heap.UsedBy(p))
		}
	}
}

// TestFreezeIsQuick freezes a large keyspace. The limit is generous, because the machine may be busy.
func TestFreezeIsQuick(t *testing.T) {
	k := open(t)
	for i := range scaled(200_000) {
		k.DB(i%16).SetInt(fmt.Appendf(nil, "key:%d", i), int64(i), 0)
	}
	best := time.Hour
	for range 20 {
		start := time.Now()
		v := k.Freeze()
		best = min(best, time.Since(start))
		v.Close()
	}
	t.Logf("Freeze takes %v", best)
	if best > 50*time.Microsecond {
		t.Errorf("Freeze takes %v", best)
	}
}
