// Package exact computes with about 100 bits: a number is the sum of two doubles.
//
// Owner: the caller; it has only pure functions.
package exact

import "math"

// A Pair is Hi+Lo.
//
// exact.T1. Lo is at most half a unit in the last place of Hi, so Hi is the rounded number.
type Pair struct{ Hi, Lo float64 }

// Sum returns a+b without a rounding error.
func Sum(a, b float64) Pair {
	hi := a + b
	t := hi - a
	return Pair{hi, float64(a-float64(hi-t)) + float64(b-t)}
}

// Add returns the same as Sum, for |a| >= |b|.
func Add(a, b float64) Pair {
	hi := a + b
	return Pair{hi, b - float64(hi-a)}
}

// Product returns a*b without a rounding error.
func Product(a, b float64) Pair {
	hi := a * b
	return Pair{hi, math.FMA(a, b, -hi)}
}
