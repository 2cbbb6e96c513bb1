// Package report turns measurements into text: medians and spreads, tables, plots, and the sections of BENCHMARKS.md.
//
// Owner: the bench's main goroutine.
// Never: measures anything, or selects runs: the spread includes every run.
// Start at section.go; sample.go has the statistics, plot.go the pictures.
package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// A Sample has the values of one figure from all runs, in the order of the runs.
type Sample []float64

// Median returns the middle value, or the mean of the two middle values. It returns NaN for an empty sample.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Min returns the smallest value, or NaN for an empty sample.
func (s Sample) Min() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return slices.Min(s)
}

// Above returns the number of values greater than limit.
func (s Sample) Above(limit float64) (n int) {
	for _, v := range s {
		if v > limit {
			n++
		}
	}
	return n
}

// Max returns the largest value, or NaN for an empty sample.
func (s Sample) Max() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return slices.Max(s)
}

// Text returns "median (min..max)", each formatted by form. For a single run it returns only the value.
func (s Sample) Text(form func(float64) string) string {
	switch len(s) {
	case 0:
		return "–"
	case 1:
		return form(s[0])
	}
	return fmt.Sprintf("%s (%s..%s)", form(s.Median()), form(s.Min()), form(s.Max()))
}

// Short returns only the median.
func (s Sample) Short(form func(float64) string) string {
	if len(s) == 0 {
		return "–"
	}
	return form(s.Median())
}

// Ratio returns the median of the pairwise ratios s[i]/base[i]. The pairs are consecutive runs, so that a slow minute
// of the machine affects both.
func (s Sample) Ratio(base Sample) float64 {
	var ratios Sample
	for i := range min(len(s), len(base)) {
		if base[i] != 0 {
			ratios = append(ratios, s[i]/base[i])
		}
	}
	return ratios.Median()
}

// The following functions format figures.

// Number formats a number with about three significant digits.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1 || a == 0:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.001:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// Thousands formats a number as 1,234,567.
func Thousands(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	text := strconv.FormatInt(int64(math.Round(v)), 10)
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return sign + text
}

// Micros formats nanoseconds as µs.
func Micros(ns float64) string { return Number(ns / 1e3) }

// Duration formats nanoseconds in a suitable unit.
func Duration(ns float64) string {
	switch {
	case math.IsNaN(ns):
		return "–"
	case ns >= 1e9:
		return Number(ns/1e9) + " s"
	case ns >= 1e6:
		return Number(ns/1e6) + " ms"
	case ns >= 1e3:
		return Number(ns/1e3) + " µs"
	}
	return Number(ns) + " ns"
}

// Took formats a time.Duration like Duration.
func Took(d time.Duration) string { return Duration(float64(d)) }

// Megabytes formats bytes as MB of 2^20 bytes.
func Megabytes(v float64) string { return Number(v/(1<<20)) + " MB" }

// Percent formats a share as a percentage.
func Percent(v float64) string { return Number(v*100) + " %" }

// Times formats a ratio.
func Times(v float64) string { return Number(v) + " ×" }
