package command

import "math/bits"

// Stats counts one row's calls and their duration. Only turns write it.
type Stats struct {
	Calls    uint64
	Nanos    uint64 // time spent in Run
	Rejected uint64 // refused before running: arity, OOM, ACL, …
	Failed   uint64 // the reply is an error

	Untracked bool // latency-tracking is off: the histogram stands still
	Latency   Histogram
}

// Record records n calls that took nanos together. Calls that were timed as one run count as n calls of the mean
// duration.
//
// Cost: a division when n > 1 and three adds; the first call of an unseen magnitude allocates 1 KB.
func (s *Stats) Record(n int, nanos int64) {
	nanos = max(nanos, 0)
	s.Calls += uint64(n)
	s.Nanos += uint64(nanos)
	if s.Untracked || n <= 0 {
		return
	}
	if n > 1 {
		nanos /= int64(n)
	}
	s.Latency.Add(nanos, uint64(n))
}

// Reset clears all counts. It keeps the setting of latency tracking.
func (s *Stats) Reset() { *s = Stats{Untracked: s.Untracked} }

// TrackLatency sets whether calls are added to the histograms (latency-tracking). Counts already made stay.
func (k *Catalogue) TrackLatency(on bool) {
	for _, row := range k.all {
		row.Stats.Untracked = !on
	}
}

// ResetStats does the part of CONFIG RESETSTAT for commands.
func (k *Catalogue) ResetStats() {
	for _, row := range k.all {
		row.Stats.Reset()
	}
}

// A Histogram counts durations from 1 ns to 1 s, precise to two digits, because the width of its buckets grows with the
// duration. The buckets are those of HdrHistogram with 256 sub-buckets.
//
//	magnitude 0: 0..255 ns, one bucket each (two chunks' worth: 0..127 and 128..255)
//	magnitude m: 128<<m .. (256<<m)-1 ns, 128 buckets of 1<<m ns
//
// command.H1. A duration below 128 is in chunk 0 at itself; otherwise in chunk m+1 at (duration>>m)-128, m = bit length
// - 8.
// command.H2. Total is the sum of all buckets.
type Histogram struct {
	Total  uint64
	chunks [histogramChunks]*[128]uint64 // nil until a duration of that magnitude was seen
}

const (
	histogramChunks = 24            // 30 bits - 8 + 2
	histogramMost   = 1_000_000_000 // ns; longer ones count as this
)

// Add counts n durations of nanos each.
func (h *Histogram) Add(nanos int64, n uint64) {
	v := uint64(min(max(nanos, 1), histogramMost))
	chunk, at := 0, v
	if v >= 128 {
		m := bits.Len64(v) - 8
		chunk, at = m+1, v>>uint(m)-128
	}
	c := h.chunks[chunk]
	if c == nil {
		c = new([128]uint64)
		h.chunks[chunk] = c
	}
	c[at] += n
	h.Total += n
}

// highest returns the greatest duration that falls into the bucket at of chunk.
func highest(chunk, at int) int64 {
	if chunk == 0 {
		return int64(at)
	}
	m := uint(chunk - 1)
	return int64(128+at)<<m + 1<<m - 1
}

// Percentile returns the duration in ns that p percent of the calls did not exceed, to two digits. It returns 0 without
// calls.
func (h *Histogram) Percentile(p float64) int64 {
	if h.Total == 0 {
		return 0
	}
	p = min(max(p, 0), 100)
	wanted := max(uint64(p/100*float64(h.Total)+0.5), 1)
	seen := uint64(0)
	for chunk, c := range h.chunks {
		if c == nil {
			continue
		}
		for at, n := range c {
			if seen += n; seen >= wanted {
				if p == 0 {
					return lowest(chunk, at)
				}
				return highest(chunk, at)
			}
		}
	}
	return 0
}

// lowest returns the least duration that falls into the bucket at of chunk.
func lowest(chunk, at int) int64 {
	if chunk == 0 {
		return int64(at)
	}
	return int64(128+at) << uint(chunk-1)
}

// Cumulative yields the number of calls that took at most about 1, 2, 4, … µs. It skips steps that add no call. A
// step's upper bound is the end of the bucket that holds 1024 ns, 2048 ns and so on. So the steps are 1, 2, 4, 8, 16,
// 33, 66, …
func (h *Histogram) Cumulative(yield func(micros int64, calls uint64) bool) {
	level := int64(1024)
	seen, told := uint64(0), uint64(0)
	for chunk := 0; chunk < histogramChunks && told < h.Total; chunk++ {
		c := h.chunks[chunk]
		for at := range 128 {
			if c != nil {
				seen += c[at]
			}
			if highest(chunk, at) < level {
				continue
			}
			level *= 2
			if seen > told {
				told = seen
				if !yield(highest(chunk, at)/1000, seen) {
					return
				}
			}
		}
	}
}
