package engine

import (
	"math"
	"math/rand/v2"

	"spindle/engine/command"
	"spindle/engine/diagnose"
)

const (
	samplesPerSecond = 20_000 // at 60,000 a GET at pipeline 1 cost 7 % more than without
	timedOf          = 4      // one of this many samples is timed alone
	sampledKeys      = 64     // of one command; if it has more, some in a row stand for all
)

// A sampler decides which commands are sampled.
type sampler struct {
	keys    *diagnose.HotKeys
	off     bool
	left    int // commands until the next sample
	since   int // commands between the last sample and the next
	gap     int // average number of commands between two samples
	rng     rand.PCG
	timed   int    // samples until one is timed
	counted uint64 // meter.commands at the last tick
	found   []command.KeyPosition
}

// never is more commands than a server ever runs.
const never = math.MaxInt / 2

func (s *sampler) init(seed uint64) {
	s.keys, s.gap = diagnose.NewHotKeys(), 1
	s.rng.Seed(seed, 0)
}

// tick adapts the number of samples to the load, ten times a second.
func (s *sampler) tick(nanos int64, commands uint64) {
	if s.off {
		return
	}
	s.keys.Fade(nanos)
	if commands >= s.counted { // otherwise CONFIG RESETSTAT has cleared it
		s.gap = int(max((commands-s.counted)*10/samplesPerSecond, 1))
	}
	s.counted = commands
	s.left = min(s.left, 2*s.gap)
}

// pick returns which of the next n commands to sample, and how many commands it stands for (engine.S1). It returns -1
// if none is to be sampled.
func (s *sampler) pick(n int) (at int, weight float64) {
	if s.left -= n; s.left > 0 || s.off {
		return -1, 0
	}
	chance := s.rng.Uint64()
	weight = float64(max(s.since-s.left, 1))
	s.since = s.gap
	if s.gap > 1 {
		s.since = s.gap/2 + int(chance>>32)%s.gap
	}
	s.left = s.since
	return int(uint32(chance)) % n, weight
}
