package lazyfree

import (
	"sync/atomic"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// wait polls until done returns true, because the system decides when reclaimers run.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	testkit.Await(t, 10*time.Second, what, done)
}

// counted returns a job of n blocks that adds the number of blocks it frees to sum.
func counted(n int, sum *atomic.Int64) Job {
	return func(budget int) bool {
		step := min(n, budget)
		n -= step
		sum.Add(int64(step))
		return n == 0
	}
}

func TestJobsRunWholeAndAreCounted(t *testing.T) {
	q := New(Options{Reclaimers: 2, Slice: 10})
	defer q.Close()
	var sum atomic.Int64
	for range 20 {
		if !q.Offer(counted(95, &sum)) {
			t.Fatal("an empty queue refused a job")
		}
	}
	wait(t, "20 jobs", func() bool { return q.Stats().Jobs == 20 })
	wait(t, "idleness", q.Idle)
	s := q.Stats()
	if sum.Load() != 20*95 || s.Slices != 200 {
		t.Errorf("%d freed, %+v", sum.Load(), s)
	}
}

// One reclaimer starts jobs in the order in which they were offered (lazyfree.Q1).
func TestOrder(t *testing.T) {
	q := New(Options{})
	defer q.Close()
	q.Pause()
	var order []int
	for i := range 50 {
		q.Offer(func(int) bool { order = append(order, i); return true })
	}
	q.Resume()
	wait(t, "the last job", q.Idle)
	for i, got := range order {
		if got != i {
			t.Fatalf("lazyfree.Q1: job %d ran as number %d", got, i)
		}
	}
	if len(order) != 50 {
		t.Fatalf("%d jobs ran", len(order))
	}
}

// A long job lets a small one pass, whether the queue is full or not (lazyfree.Q1).
func TestLongJobsLetOthersPass(t *testing.T) {
	for _, length := range []int{1, 2, 8} {
		q := New(Options{Length: length})
		var slices atomic.Int64
		var after atomic.Int64
		q.Offer(func(int) bool { slices.Add(1); return after.Load() > 0 && slices.Load() > 100 })
		wait(t, "the long job", func() bool { return slices.Load() > 0 })
		for range length {
			q.Offer(func(int) bool { after.Store(slices.Load()); return true })
		}
		wait(t, "the small ones", func() bool { return q.Stats().Jobs >= int64(length) && after.Load() > 0 })
		wait(t, "all", q.Idle)
		if s := q.Stats(); s.Jobs != int64(length)+1 {
			t.Errorf("lazyfree.Q1: %d jobs done of %d", s.Jobs, length+1)
		}
		q.Close()
	}
}

// A full queue refuses jobs. The turn frees small slices itself and takes no more jobs. Every block is freed once
// (lazyfree.Q2).
func TestFullQueueSlowsTheProducer(t *testing.T) {
	q := New(Options{Length: 2})
	defer q.Close()
	q.Pause()
	var sum atomic.Int64
	made := 0
	take := func() Job {
		if made == 10 {
			return nil
		}
		made++
		return counted(10*Overflow, &sum)
	}
	if q.Full() {
		t.Fatal("an empty queue is full")
	}
	q.Turn(take)
	if !q.Full() {
		t.Fatal("a full queue is not full")
	}
	if s := q.Stats(); made != 3 || s.Waiting != 2 || s.Spilled != 1 {
		t.Fatalf("lazyfree.Q2: after one turn %d jobs were taken: %+v", made, s)
	}
	if q.Offer(counted(1, &sum)) {
		t.Fatal("lazyfree.Q2: a full queue took a job")
	}
	for turn := 1; turn <= 5; turn++ {
		q.Turn(take)
		if sum.Load() != int64(turn*Overflow) || made != 3 {
			t.Fatalf("lazyfree.Q2: turn %d freed %d blocks in all and %d jobs were taken", turn, sum.Load(), made)
		}
	}
	for range 5 { // the spilled job ends on the turn, the next one spills
		q.Turn(take)
	}
	if s := q.Stats(); made != 4 || s.Jobs != 1 {
		t.Fatalf("lazyfree.Q2: %d jobs taken, %+v", made, s)
	}
	q.Resume()
	wait(t, "10 jobs", func() bool {
		if q.Stats().Jobs >= 10 {
			return true
		}
		q.Turn(take)
		return false
	})
	if s := q.Stats(); sum.Load() != 100*Overflow || s.Jobs != 10 {
		t.Errorf("%d blocks freed, %+v", sum.Load(), s)
	}
}

// Close stops the reclaimers although a job is not done, and drops the rest (lazyfree.Q3).
func TestClose(t *testing.T) {
	q := New(Options{Reclaimers: 2})
	var runs atomic.Int64
	q.Offer(func(int) bool { runs.Add(1); return false })
	wait(t, "a slice", func() bool { return runs.Load() > 0 })
	q.Close()
	ended := runs.Load()
	if q.Offer(func(int) bool { return true }) {
		t.Error("lazyfree.Q3: a closed queue took a job")
	}
	if runs.Load() != ended {
		t.Error("lazyfree.Q3: a job ran after Close")
	}
}

// While turns run, a reclaimer rests about as long as it works, and never longer than maxRest (lazyfree.P1).
func TestPace(t *testing.T) {
	var p pace
	for _, c := range []struct {
		what    string
		turn    bool
		worked  time.Duration
		crowded bool
		want    time.Duration
	}{
		{"a busy core", true, time.Millisecond, false, time.Millisecond},
		{"a busy core after long work", true, time.Hour, false, maxRest},
		{"jobs piling up", true, 500 * time.Millisecond, true, 0},
		{"an idle core", false, 500 * time.Millisecond, false, 0},
	} {
		if c.turn {
			p.turn()
		}
		if d := p.due(c.worked, c.crowded); d != c.want {
			t.Errorf("lazyfree.P1: the rest with %s is %v, want %v", c.what, d, c.want)
		}
	}
	p.turn()
	begin := time.Now()
	if owed := p.rest(time.Millisecond, false); owed != 0 || time.Since(begin) < time.Millisecond {
		t.Errorf("rested %v after 1 ms, and %v is owed", time.Since(begin), owed)
	}
}

// While turns run, short slices take about twice their time, instead of a sleep each (lazyfree.P2).
func TestShortSlicesRestTogether(t *testing.T) {
	var p pace
	const slices, each = 400, 100 * time.Microsecond
	begin, owed, rests := time.Now(), time.Duration(0), 0
	for i := range slices {
		if i%10 == 0 {
			p.turn() // once a millisecond, as duties do
		}
		before := owed + each
		if owed = p.rest(before, false); owed < before {
			rests++
		}
	}
	if rests != slices/10 {
		t.Errorf("lazyfree.P2: %d rests for %d slices of %v", rests, slices, each)
	}
	if slept := time.Since(begin); slept < slices*each {
		t.Errorf("rested %v for %v of work", slept, slices*each)
	}
}

// BenchmarkTurn is the cost of a turn that frees nothing.
func BenchmarkTurn(b *testing.B) {
	q := New(Options{})
	defer q.Close()
	none := func() Job { return nil }
	b.ReportAllocs()
	for b.Loop() {
		q.Turn(none)
	}
}
