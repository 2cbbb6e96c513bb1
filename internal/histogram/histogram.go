// Package histogram counts durations with a precision of an eighth, in memory of fixed size.
//
// Owner: the caller; one goroutine at a time.
// Never: allocates after an H was made.
package histogram

import (
	"math/bits"
	"time"
)

// An H counts durations from 1 µs to 68 s in buckets whose width grows with them.
//
//	micros 0..7:  one bucket each            (a micro here is 1,024 ns)
//	8..15, 16..31, 32..63, …: eight buckets for each doubling
type H struct {
	Total   uint64
	Sum     time.Duration
	Max     time.Duration
	buckets [buckets]uint64
}

const (
	steps   = 8 // for a doubling
	octaves = 24
	buckets = steps * octaves
)

// bucketOf returns a duration's bucket.
func bucketOf(nanos int64) int {
	v := uint64(max(nanos, 0)) >> 10
	if v < steps {
		return int(v)
	}
	m := bits.Len64(v) - 4 // v>>m is 8..15
	return min(m*steps+int(v>>m), buckets-1)
}

// end returns the end of a bucket's durations.
func end(at int) time.Duration {
	if at < steps {
		return time.Duration(at+1) << 10
	}
	m := at/steps - 1
	return time.Duration(at-m*steps+1) << (m + 10)
}

// Add counts n durations of nanos each.
func (h *H) Add(nanos int64, n uint64) {
	h.Total += n
	h.Sum += time.Duration(nanos) * time.Duration(n)
	h.Max = max(h.Max, time.Duration(nanos))
	h.buckets[bucketOf(nanos)] += n
}

// Merge adds the counts of other.
func (h *H) Merge(other *H) {
	h.Total += other.Total
	h.Sum += other.Sum
	h.Max = max(h.Max, other.Max)
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
}

// Since returns the counts that were added after before, an earlier copy of h. Its Max has the precision of a bucket.
func (h *H) Since(before *H) (later H) {
	if h.Total < before.Total { // h was reset
		return *h
	}
	later.Total, later.Sum = h.Total-before.Total, h.Sum-before.Sum
	for i, n := range h.buckets {
		if later.buckets[i] = n - before.buckets[i]; later.buckets[i] > 0 {
			later.Max = min(end(i), h.Max)
		}
	}
	return later
}

// Percentile returns the duration that p percent did not exceed, to an eighth. It returns 0 if nothing was counted.
func (h *H) Percentile(p float64) time.Duration {
	wanted := max(uint64(p/100*float64(h.Total)+0.5), 1)
	seen := uint64(0)
	for at, n := range h.buckets {
		if seen += n; n > 0 && seen >= wanted {
			return min(end(at), h.Max)
		}
	}
	return 0
}

// Below counts the durations under each of bounds, in the form of Prometheus's buckets. bounds are in seconds and
// ascend.
func (h *H) Below(bounds []float64) map[float64]uint64 {
	counts := make(map[float64]uint64, len(bounds))
	seen, at := uint64(0), 0
	for _, bound := range bounds {
		for at < buckets && end(at).Seconds() <= bound*(1+1e-9) {
			seen += h.buckets[at]
			at++
		}
		counts[bound] = seen
	}
	return counts
}

// Doublings yields 1, 2, 4, … micros (of 1,024 ns), each with how many durations did not exceed it. It leaves out steps
// at which the count does not grow.
func (h *H) Doublings(yield func(micros int64, count uint64) bool) {
	seen, told, at := uint64(0), uint64(0), 0
	for micros := int64(1); seen < h.Total && at < buckets; micros *= 2 {
		for at < buckets && end(at) <= time.Duration(micros)<<10 {
			seen += h.buckets[at]
			at++
		}
		if seen > told && !yield(micros, seen) {
			return
		}
		told = seen
	}
}

// Bounds returns bounds for which Below is exact: from 16 µs to 17 s, each four times the one before.
func Bounds() (bounds []float64) {
	for d := time.Duration(16 << 10); d < 20*time.Second; d *= 4 {
		bounds = append(bounds, d.Seconds())
	}
	return bounds
}
