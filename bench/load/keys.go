package load

import (
	"math"
	"math/rand/v2"
)

// A chooser chooses the next key.
type chooser struct {
	first, count uint64
	state        uint64 // of a xorshift: it takes a few cycles, and scatters keys well enough
	next         uint64
	sequential   bool
	sampled      []uint32 // zipf: drawn in advance, because a draw needs two powers
}

func newChooser(space KeySpace, seed uint64) *chooser {
	c := &chooser{first: space.First, count: space.Count, state: seed*0x9E3779B97F4A7C15 | 1,
		sequential: space.Order == Sequential}
	if space.Order == Zipf {
		c.sampled = zipfSample(min(space.Count, math.MaxUint32), 1<<20, seed)
	}
	return c
}

func (c *chooser) key() uint64 {
	if c.sequential {
		n := c.next
		if c.next++; c.next == c.count {
			c.next = 0
		}
		return c.first + n
	}
	c.state ^= c.state << 13
	c.state ^= c.state >> 7
	c.state ^= c.state << 17
	if c.sampled != nil {
		return c.first + uint64(c.sampled[c.state>>44]) // 20 bits: len(sampled)
	}
	return c.first + (c.state>>32)*c.count>>32
}

// zipfSample draws n ranks of 0..count-1 with probability ∝ (rank+1)^-0.99 and scatters them over the key space.
// Source: Gray et al., "Quickly generating billion-record synthetic databases", as YCSB uses it.
func zipfSample(count uint64, n int, seed uint64) []uint32 {
	const theta = 0.99
	zeta := 0.0
	for i := range count {
		zeta += math.Pow(float64(i+1), -theta)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	alpha := 1 / (1 - theta)
	eta := (1 - math.Pow(2/float64(count), 1-theta)) / (1 - (1+math.Pow(0.5, theta))/zeta)
	sample := make([]uint32, n)
	for i := range sample {
		u := rng.Float64()
		var rank uint64
		switch uz := u * zeta; {
		case uz < 1:
		case uz < 1+math.Pow(0.5, theta):
			rank = 1
		default:
			rank = uint64(float64(count) * math.Pow(eta*u-eta+1, alpha))
		}
		rank = min(rank, count-1)
		sample[i] = uint32(rank * 0x9E3779B1 % count)
	}
	return sample
}
