package hll

import "math"

// histogram holds the number of registers of each rank. Additions never make a rank above 51. A hand-written sketch may
// have a higher rank, which the estimate ignores.
type histogram [64]uint32

// A counter counts eight ranks at a time in four histograms, so that equal ranks in a row need not wait for each other.
type counter [4][64]uint32

// add counts the bytes of x, each at most 63.
func (c *counter) add(x uint64) {
	c[0][x&63]++
	c[1][x>>8&63]++
	c[2][x>>16&63]++
	c[3][x>>24&63]++
	c[0][x>>32&63]++
	c[1][x>>40&63]++
	c[2][x>>48&63]++
	c[3][x>>56&63]++
}

// into adds the counts of c to h.
func (c *counter) into(h *histogram) {
	for rank := range h {
		h[rank] += c[0][rank] + c[1][rank] + c[2][rank] + c[3][rank]
	}
}

// alphaInf is 1/(2 ln 2), the bias correction for infinitely many registers.
const alphaInf = 0.721347520444481703680

// estimate returns the probable number of different elements, given the histogram of the registers' ranks.
//
// The order of operations gives the same number on every machine. Each product is rounded before it is added, because a
// compiler might otherwise fuse the two operations.
// Source: Otmar Ertl, New cardinality estimation algorithms for HyperLogLog sketches, arXiv:1702.01284, algorithm 6.
func estimate(h *histogram) uint64 {
	const m = float64(registerCount)
	const q = 64 - precision
	z := m * tau((m-float64(h[q+1]))/m)
	for rank := q; rank >= 1; rank-- {
		z += float64(h[rank])
		z *= 0.5
	}
	z += float64(m * sigma(float64(h[0])/m))
	n := math.Round(alphaInf * m * m / z)
	if n >= 1<<63 { // a hand-written sketch: all ranks are higher than a hash can give
		return 1 << 63
	}
	return uint64(n)
}

// sigma returns x + Σ x^(2^k) · 2^(k-1) over k ≥ 1: the contribution of the registers of rank 0, whose share is x.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	sum, weight := x, 1.0
	for {
		x *= x
		before := sum
		sum += float64(x * weight)
		weight += weight
		if sum == before {
			return sum
		}
	}
}

// tau returns (1 - x - Σ (1-x^(2^-k))² · 2^-k over k ≥ 1) / 3.
//
// It is the contribution of the registers of the highest rank, whose share is 1-x.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	sum, weight := 1-x, 1.0
	for {
		x = math.Sqrt(x)
		before := sum
		weight *= 0.5
		square := float64((1 - x) * (1 - x))
		sum -= float64(square * weight)
		if sum == before {
			return sum / 3
		}
	}
}
