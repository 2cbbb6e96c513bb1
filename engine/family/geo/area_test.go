package geo

import (
	"math/rand/v2"
	"testing"
)

func TestStepFor(t *testing.T) {
	for _, c := range []struct {
		meters, lat float64
		step        uint8
	}{
		{0, 0, 26}, {0, 85, 26}, {0.1, 0, 26}, {0.5, 0, 25}, {100, 0, 17}, {1000, 38, 14}, {1000, 67, 13}, {1000, -81, 12},
		{2e7, 0, 1}, {1e300, 0, 1},
		{1.1e7, 80.5, 1},
	} {
		if got := stepFor(c.meters, c.lat); got != c.step {
			t.Errorf("%v m at %v°: %d steps, want %d", c.meters, c.lat, got, c.step)
		}
	}
}

// TestCover: each point of a shape is in exactly one of its cells (geo.A1). Transcripts check shapes that cross a pole
// or the map's edge.
func TestCover(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	lengths := []float64{1, 100, 10_000, 300_000, 1_000_000}
	for range 3000 {
		s := shape{center: point{-150 + 300*rng.Float64(), -60 + 120*rng.Float64()}, unit: 1}
		r := lengths[rng.IntN(len(lengths))] * (0.5 + rng.Float64())
		if s.box = rng.IntN(2) == 0; s.box {
			s.width, s.height = 2*r, 2*r*rng.Float64()
		} else {
			s.radius = r
		}
		lon, lat := s.bounds()
		all := s.cover()
		for range 20 {
			p := point{lon.min + (lon.max-lon.min)*rng.Float64(), lat.min + (lat.max-lat.min)*rng.Float64()}
			score := cellOf(p, maxStep).score()
			meters, in := s.holds(pointOf(float64(score)), true)
			_, same := s.holds(pointOf(float64(score)), false)
			if d := distance(s.center, pointOf(float64(score))); in != same || in && meters != d || !s.box && in != (d <= r) {
				t.Fatalf("%+v: %v is in: %v, %v away; but %v from the center", s, p, in, meters, d)
			}
			times, last := 0, 0
			for i, c := range all {
				if c.step == 0 || last != 0 && c == all[last] {
					continue
				}
				last = i
				if from, to := c.scores(); float64(score) >= from && float64(score) < to {
					times++
				}
			}
			if in && times != 1 {
				t.Fatalf("%+v: %v is in %d of its cells", s, p, times)
			}
		}
	}
}
