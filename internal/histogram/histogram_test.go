package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestBuckets: each duration is in its bucket, and no bucket is wider than an eighth of it.
func TestBuckets(t *testing.T) {
	for at := range buckets - 1 {
		last := int64(end(at)) - 1
		if bucketOf(last) != at || bucketOf(last+1) != at+1 {
			t.Fatalf("bucket %d ends at %d: %d, %d", at, last, bucketOf(last), bucketOf(last+1))
		}
		if begin := int64(1) << 10; at >= steps {
			begin = int64(end(at - 1))
			if width := int64(end(at)) - begin; width*8 > begin {
				t.Fatalf("bucket %d from %d is %d wide", at, begin, width)
			}
		}
	}
	if bucketOf(math.MaxInt64) != buckets-1 || bucketOf(-5) != 0 {
		t.Error("the ends")
	}
}

// TestPercentiles: results agree with sorting to an eighth. Two merged halves give the same result.
func TestPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all, half H
	var sorted []int64
	for i := range 20_000 {
		nanos := int64(math.Exp(rng.Float64()*20) * 10)
		sorted = append(sorted, nanos)
		if i%2 == 0 {
			all.Add(nanos, 1)
		} else {
			half.Add(nanos, 1)
		}
	}
	all.Merge(&half)
	slices.Sort(sorted)
	for _, p := range []float64{0, 10, 50, 90, 99, 99.9, 100} {
		want := float64(sorted[max(int(p/100*float64(len(sorted))+0.5), 1)-1])
		if got := float64(all.Percentile(p)); got < want || got > want*1.13+1024 {
			t.Errorf("p%v: %v, want %v", p, got, want)
		}
	}
	bounds := Bounds()
	below := all.Below(bounds)
	for _, bound := range bounds {
		want, _ := slices.BinarySearch(sorted, int64(math.Round(bound*1e9)))
		if below[bound] != uint64(want) {
			t.Errorf("below %v: %d, want %d", bound, below[bound], want)
		}
	}
	if (&H{}).Percentile(50) != 0 || all.Total != 20_000 || all.Max != time.Duration(sorted[len(sorted)-1]) {
		t.Error("totals")
	}
}

// TestSince: durations added after an earlier copy are counted separately, with their own maximum.
func TestSince(t *testing.T) {
	var h H
	h.Add(int64(time.Second), 3)
	before := h
	for i := range 100 {
		h.Add(int64(i+1)*int64(time.Millisecond), 1)
	}
	later := h.Since(&before)
	if later.Total != 100 || later.Max < 100*time.Millisecond || later.Max > 113*time.Millisecond {
		t.Errorf("%d counted, the maximum is %v", later.Total, later.Max)
	}
	if p := later.Percentile(50); p < 50*time.Millisecond || p > 57*time.Millisecond {
		t.Errorf("the median is %v", p)
	}
	if none := h.Since(&h); none.Total != 0 || none.Max != 0 {
		t.Errorf("nothing came, but %d are counted", none.Total)
	}
	if fresh := before.Since(&h); fresh.Total != 3 {
		t.Errorf("after a reset %d are counted", fresh.Total)
	}
}
