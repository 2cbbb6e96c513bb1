package load

import (
	"encoding/json"
	"math/bits"
	"time"
)

// A Histogram counts durations in buckets whose width is less than 1 % of their value.
//
//	value in ns   0 … 255          one bucket each
//	              256 … 511        128 buckets of 2
//	              512 … 1023       128 buckets of 4, and so on to 2^40 ns (18 minutes)
//	              longer           the last bucket
//
// load.H1. Every duration has exactly one bucket, and a longer duration never has an earlier bucket.
// load.H2. Count is the sum of all buckets, and Max is exact. Percentile returns a bucket's upper end, but at most Max.
type Histogram struct {
	counts [buckets]int64
	count  int64
	sum    int64
	max    int64
}

const (
	linearBits = 8 // values below 1<<linearBits have a bucket each
	halfBits   = linearBits - 1
	topBit     = 40
	buckets    = 1<<linearBits + (topBit-linearBits)<<halfBits
)

func bucketOf(ns int64) int {
	if ns < 1<<linearBits {
		return int(max(ns, 0))
	}
	top := bits.Len64(uint64(ns)) // linearBits+1 …
	if top > topBit {
		return buckets - 1
	}
	shift := top - linearBits
	return 1<<linearBits + (shift-1)<<halfBits + int(ns>>shift) - 1<<halfBits
}

// upperEnd returns the greatest value of a bucket.
func upperEnd(bucket int) int64 {
	if bucket < 1<<linearBits {
		return int64(bucket)
	}
	bucket -= 1 << linearBits
	shift := bucket>>halfBits + 1
	return (int64(bucket&(1<<halfBits-1))+1<<halfBits+1)<<shift - 1
}

// Record adds n durations of length d.
func (h *Histogram) Record(d time.Duration, n int64) {
	h.counts[bucketOf(int64(d))] += n
	h.count += n
	h.sum += int64(d) * n
	h.max = max(h.max, int64(d))
}

// Merge adds the counts of o to h.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.count += o.count
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count returns the number of durations.
func (h *Histogram) Count() int64 { return h.count }

// Max returns the longest duration.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Mean returns the mean duration, or 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.sum / h.count)
}

// Percentile returns the shortest duration that at least p percent of all durations do not exceed.
func (h *Histogram) Percentile(p float64) time.Duration {
	rank := int64(p / 100 * float64(h.count))
	if float64(rank) < p/100*float64(h.count) || rank == 0 {
		rank++ // the number of the duration, counted from 1
	}
	seen := int64(0)
	for i, n := range h.counts {
		if seen += n; seen >= rank && n > 0 {
			if i == buckets-1 {
				break
			}
			return time.Duration(min(upperEnd(i), h.max))
		}
	}
	return time.Duration(h.max)
}

// histogramJSON is the JSON form of a Histogram. It omits empty buckets.
type histogramJSON struct {
	Buckets [][2]int64 // number, count
	Sum     int64
	Max     int64
}

// MarshalJSON returns a histogramJSON with all counts.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	j := histogramJSON{Buckets: [][2]int64{}, Sum: h.sum, Max: h.max}
	for i, n := range h.counts {
		if n != 0 {
			j.Buckets = append(j.Buckets, [2]int64{int64(i), n})
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON restores a Histogram from its JSON form.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*h = Histogram{sum: j.Sum, max: j.Max}
	for _, b := range j.Buckets {
		if b[0] >= 0 && b[0] < buckets {
			h.counts[b[0]] = b[1]
			h.count += b[1]
		}
	}
	return nil
}
