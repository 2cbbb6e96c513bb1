package keyspace

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// threadTime returns the CPU time of this thread. It leaves out stalls of the machine.
func threadTime() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

// steps runs f n times, in up to 200 parts. It returns the duration of the longest run in each part, in CPU time of
// this thread.
func steps(n int, f func(i int)) (longest []time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	longest = make([]time.Duration, min(n, 200))
	last := threadTime()
	for i := range n {
		f(i)
		now, part := threadTime(), i*len(longest)/n
		longest[part] = max(longest[part], now-last)
		last = now
	}
	return longest
}

// TestNoLongStep grows a database, rewrites it under a view, expires and deletes it key by key, and loads it. It looks
// for the longest step. It does all that twice and checks the second run, when the kernel has already provided the
// memory. A first touch of a huge page may take milliseconds. Thread time also includes interrupts, and times when a
// hypervisor stops the processor. So on a busy host some of 200,000 steps are long. A step that is truly long is long
// every time, in the same part of the steps.
func TestNoLongStep(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which takes long: run it without -race and -tags invariants")
	}
	h, err := memory.New(memory.Options{Warm: 4 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	k := New(h, Options{StartMs: 1_000_000})
	n := scaled(200_000)
	longSteps(t, k, n)
	const runs = 20
	long := longSteps(t, k, n)
	for run := 1; run < runs && len(long) > 0; run++ {
		again := longSteps(t, k, n)
		long = slices.DeleteFunc(long, func(step string) bool { return !slices.Contains(again, step) })
	}
	if len(long) > 0 {
		t.Errorf("long in each of %d times: %s", runs, strings.Join(long, "; "))
	}
}

// longestStep is the limit for a step. A step is a part of a turn of 1 ms.
const longestStep = 500 * time.Microsecond

// longSteps returns the kinds and parts of the steps that were too long.
func longSteps(t *testing.T, k *Keyspace, n int) (long []string) {
	db := k.DB(0)
	val := []byte("0123456789abcdef0123456789abcdef")
	key := make([]byte, 0, 16)
	told := func(what string, longest []time.Duration) {
		t.Logf("%-28s %v", what, slices.Max(longest))
		for part, took := range longest {
			if took > longestStep {
				long = append(long, fmt.Sprintf("%s, part %d of %d", what, part, len(longest)))
			}
		}
	}
	k.SetNow(1_500_000)
	told("grow", steps(n, func(i int) {
		key = fmt.Appendf(key[:0], "key:%012d", i)
		db.SetString(key, val, 2_000_000+int64(i%2)*1_000_000)
	}))
	v := k.Freeze()
	told("rewrite under a view", steps(n, func(i int) {
		key = fmt.Appendf(key[:0], "key:%012d", i)
		db.SetString(key, val, KeepTTL)
		k.heap.Drain(100)
	}))
	v.Close()
	reclaim(k)
	k.SetNow(2_500_000)
	told("expire, slices of 100 µs", steps(n/20, func(int) { k.ExpireDue(100 * time.Microsecond) }))
	if db.Len() != n/2 {
		t.Errorf("%d keys are left of %d", db.Len(), n)
	}
	told("delete", steps(n, func(i int) {
		key = fmt.Appendf(key[:0], "key:%012d", i)
		db.Delete(key)
	}))
	if db.Len() != 0 {
		t.Errorf("%d keys are left", db.Len())
	}
	reclaim(k)
	for _, announced := range []int{0, n, 20 * n} {
		db.Reserve(announced)
		l, next := db.Loader(announced), 0
		told(fmt.Sprintf("load, %d announced", announced), steps(2*n, func(int) {
			if l.Full() {
				l.Settle()
			} else if next < n {
				key = fmt.Appendf(key[:0], "key:%012d", next)
				l.AddString(key, val, int64(next%2)*3_000_000)
				next++
			}
		}))
		told(fmt.Sprintf("finish, %d announced", announced), steps(len(l.fill)*pileKeys/settleKeys, func(int) { l.Finish() }))
		db.Reserve(0)
		if db.Len() != n {
			t.Errorf("%d keys of %d", db.Len(), n)
		}
		db.Flush()
		reclaim(k)
	}
	return long
}

// TestBigValuesInShortSteps frees, overwrites, flushes and grows strings of 64 MB.
func TestBigValuesInShortSteps(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which takes long: run it without -race and -tags invariants")
	}
	const size = 64 << 20
	k := open(t)
	db := k.DB(0)
	key := []byte("big")
	empty := k.heap.Used()
	make := func() {
		ref := k.heap.Alloc(size, 1)
		db.SetBulk(key, uint64(ref), size, 0)
	}
	for _, c := range []struct {
		name string
		step func()
	}{
		{"Delete", func() { db.Delete(key) }},
		{"overwrite", func() { db.SetInt(key, 1, 0) }},
		{"Flush", func() { db.Flush() }},
		{"expire", func() { db.SetDeadline(key, k.Now()-1); db.LookupWrite(key) }},
		{"Append", func() { db.Append(key, []byte("x")) }},
		{"SetRange far behind the end", func() { db.SetRange(key, 8*size, []byte("x")) }},
		{"Rename", func() { db.Rename(key, []byte("other")) }},
		{"Pin, then SetRange", func() { db.Pin(db.Lookup(key)); db.SetRange(key, 5, []byte("x")) }},
	} {
		best := time.Hour
		for tries := 0; tries < 6 && best > longestStep; tries++ {
			make()
			best = min(best, steps(1, func(int) { c.step() })[0])
			if c.name != "Pin, then SetRange" {
				db.Flush()
				reclaim(k)
				if used := k.heap.Used(); used != empty {
					t.Fatalf("%s: %d bytes are left", c.name, used-empty)
				}
			}
		}
		t.Logf("%-28s %v", c.name, best)
		if best > longestStep {
			t.Errorf("%s of 64 MB takes %v", c.name, best)
		}
	}
}
