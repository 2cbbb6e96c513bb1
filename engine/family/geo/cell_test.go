package geo

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestCells(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    point
		step  uint8
		bits  uint64
		score uint64
	}{
		{"Palermo", point{13.361389, 38.115556}, 26, 3479099956230698, 3479099956230698},
		{"Catania", point{15.087269, 37.502669}, 26, 3479447370796909, 3479447370796909},
		{"the middle is north-east of itself", point{0, 0}, 26, 3 << 50, 3 << 50},
		{"one step", point{-1, 1}, 1, 1, 1 << 50},
		{"one step, south-east", point{1, -1}, 1, 2, 2 << 50},
		{"south-western corner", point{-180, -85.05112878}, 26, 0, 0},
		{"north-eastern corner has a bit more (C2)", point{180, 85.05112878}, 26, 3 << 52, 3 << 52},
		{"the same with larger cells", point{180, 85.05112878}, 2, 3 << 4, 3 << 52},
	} {
		got := cellOf(c.at, c.step)
		if got != (cell{c.bits, c.step}) || got.score() != c.score {
			t.Errorf("%s: cell %b of %d steps, score %d; want %b, %d", c.name, got.bits, got.step, got.score(), c.bits, c.score)
		}
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		at   point
		text string
	}{
		{point{-5.6, 42.6}, "ezs42e44yx0"},
		{point{10.407439, 57.64911}, "u4pruydqqv0"}, // the first geohash published was u4pruydqqvj
		{point{0, 0}, "s0000000000"},
		{point{-180, -85.05112878}, "00bh0hbj200"},
	} {
		if got := string(appendText(nil, c.at)); got != c.text {
			t.Errorf("%v: %s, want %s", c.at, got, c.text)
		}
	}
}

func TestNeighbors(t *testing.T) {
	// With three steps there are 8 columns and 8 rows. The neighbor is in the next column and row; the map wraps
	// around.
	for lon := range uint32(8) {
		for lat := range uint32(8) {
			for _, d := range around {
				got := cell{interleave(lat, lon), 3}.neighbor(d[0], d[1])
				want := cell{interleave((lat+uint32(d[1]))%8, (lon+uint32(d[0]))%8), 3}
				if got != want {
					t.Fatalf("beside column %d, row %d: %b is %v of it; want %b", lon, lat, got.bits, d, want.bits)
				}
			}
		}
	}
}

// TestCasts tests the conversion of doubles that are out of range.
func TestCasts(t *testing.T) {
	for _, c := range []struct {
		f        float64
		signed   int64
		unsigned uint64
	}{
		{1.7, 1, 1},
		{-1.7, -1, math.MaxUint64},
		{-1, -1, math.MaxUint64},
		{1 << 62, 1 << 62, 1 << 62},
		{1 << 63, math.MinInt64, 1 << 63},
		{1<<63 + 1<<62, math.MinInt64, 1<<63 + 1<<62},
		{1 << 64, math.MinInt64, 0},
		{math.Inf(1), math.MinInt64, 0},
		{math.Inf(-1), math.MinInt64, 1 << 63},
		{math.NaN(), math.MinInt64, 1 << 63},
	} {
		if s, u := signed(c.f), unsigned(c.f); s != c.signed || u != c.unsigned {
			t.Errorf("%v: %d, %d; want %d, %d", c.f, s, u, c.signed, c.unsigned)
		}
	}
}

// FuzzCell: a point is in its cell at every step, and a smaller cell's scores are in the larger cell's range. The
// middle of a cell is in the same cell. A step to a neighbor and back ends in the same cell.
func FuzzCell(f *testing.F) {
	f.Add(13.361389, 38.115556, byte(26))
	f.Add(180.0, 85.05112878, byte(1))
	f.Add(180.0, 85.05112878, byte(25))
	f.Add(-180.0, -85.05112878, byte(13))
	f.Add(-1e-300, 1e-300, byte(2))
	f.Fuzz(func(t *testing.T, lon, lat float64, step byte) {
		p := point{lon, lat}
		if !p.onMap() {
			return
		}
		checkCell(t, p, step%maxStep+1)
	})
}

func checkCell(t *testing.T, p point, step uint8) {
	t.Helper()
	c := cellOf(p, step)
	const ulps = 1e-12
	if onLon, onLat := c.area(); p.lon < onLon.min-ulps || p.lon > onLon.max+ulps || p.lat < onLat.min-ulps ||
		p.lat > onLat.max+ulps {
		t.Fatalf("%v is not in its cell of %d steps: %v, %v", p, step, onLon, onLat)
	}
	score := cellOf(p, maxStep).score()
	if p.lon == longitudes.max || p.lat == latitudes.max {
		return // geo.C2: past 2^53 doubles cannot tell scores apart
	}
	if from, to := c.scores(); float64(score) < from || float64(score) >= to {
		t.Fatalf("%v: score %d is not in [%v, %v) of %d steps", p, score, from, to, step)
	}
	if again := cellOf(pointOf(float64(score)), maxStep).score(); again != score {
		t.Fatalf("%v: score %d is at %v, whose score is %d", p, score, pointOf(float64(score)), again)
	}
	for _, d := range around {
		if there := c.neighbor(d[0], d[1]); there.neighbor(-d[0], -d[1]) != c {
			t.Fatalf("%b of %d steps: by way of %v back to another", c.bits, step, d)
		}
	}
	lat, lon := deinterleave(c.bits)
	if interleave(lat, lon) != c.bits {
		t.Fatalf("%b is not put together again", c.bits)
	}
}

func TestRandomCells(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		checkCell(t, anywhere(rng), uint8(1+rng.IntN(maxStep)))
	}
}

func anywhere(rng *rand.Rand) point {
	return point{-180 + 360*rng.Float64(), -85.05 + 170.1*rng.Float64()}
}
