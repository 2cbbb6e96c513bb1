package geo

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spindle/engine/family/zset"
	"spindle/tests/testkit/commandtest"
)

// anyPolygon returns a random list of corners: as large as a street or the world, near an edge of the map or anywhere.
// Sides may cross, and corners may be equal.
func anyPolygon(rng *rand.Rand) []point {
	middle := anywhere(rng)
	switch rng.IntN(4) {
	case 0:
		middle.lon = [...]float64{-179.9, 179.9, 0}[rng.IntN(3)]
	case 1:
		middle.lat = [...]float64{-84.9, 84.9, 0}[rng.IntN(3)]
	}
	size := [...]float64{0.001, 0.1, 5, 60, 170, 400}[rng.IntN(6)]
	var corners []point
	for range 3 + rng.IntN(12) {
		if len(corners) > 0 && rng.IntN(20) == 0 {
			corners = append(corners, corners[rng.IntN(len(corners))])
			continue
		}
		corners = append(corners, near(rng, middle, size))
	}
	return corners
}

// near returns a point at most size degrees from p, on the map.
func near(rng *rand.Rand, p point, size float64) point {
	return point{min(max(p.lon+size*(rng.Float64()-0.5), -180), 180), min(max(p.lat+size*(rng.Float64()-0.5), -85.05),
		85.05)}
}

// inPolygon reports, by exact arithmetic, whether an odd number of sides is east of q.
func inPolygon(corners []point, q point) bool {
	rat := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
	in := false
	for i, b := range corners {
		a := corners[(i+len(corners)-1)%len(corners)]
		if (a.lat > q.lat) == (b.lat > q.lat) {
			continue
		}
		part := new(big.Rat).Sub(rat(q.lat), rat(b.lat))
		part.Quo(part, new(big.Rat).Sub(rat(a.lat), rat(b.lat)))
		at := new(big.Rat).Sub(rat(a.lon), rat(b.lon))
		at.Mul(at, part).Add(at, rat(b.lon))
		if rat(q.lon).Cmp(at) < 0 {
			in = !in
		}
	}
	return in
}

func text(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// TestPolygon: a search finds exactly the members in a random polygon, each once, and sorts them by their distance.
func TestPolygon(t *testing.T) {
	core := commandtest.Start(t, Family(), zset.Family())
	cl := core.Client(2)
	rng := rand.New(rand.NewPCG(31, 32))
	searches := 0
	for range 250 {
		corners := anyPolygon(rng)
		area := &polygon{}
		area.reset()
		search := []string{"GEOSEARCH", "k", "BYPOLYGON", strconv.Itoa(len(corners))}
		for _, c := range corners {
			area.add(c)
			search = append(search, text(c.lon), text(c.lat))
		}
		core.Do(cl, "ZREMRANGEBYRANK", "k", "0", "-1")
		add, want := []string{"GEOADD", "k"}, []string{}
		for i := range 60 {
			p := anywhere(rng)
			if i%2 == 0 {
				p = near(rng, corners[rng.IntN(len(corners))], [...]float64{0.001, 0.1, 5, 60}[rng.IntN(4)])
			}
			add = append(add, text(p.lon), text(p.lat), "m"+strconv.Itoa(i))
			if inPolygon(corners, pointOf(float64(cellOf(p, maxStep).score()))) {
				want = append(want, "m"+strconv.Itoa(i))
			}
		}
		core.Do(cl, add...)
		got := strings.Fields(core.Do(cl, search...))[1:]
		members := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return line[0] == '$' })
		slices.Sort(members)
		slices.Sort(want)
		if !slices.Equal(members, want) {
			t.Fatalf("%v:\ngot  %v\nwant %v", search, members, want)
		}
		searches += len(want)
		last := -1.0
		for _, m := range strings.Fields(core.Do(cl, append(search, "ASC")...))[1:] {
			if m[0] == '$' {
				continue
			}
			score, _ := strconv.ParseFloat(strings.Fields(core.Do(cl, "ZSCORE", "k", m))[1], 64)
			if d := distance(area.center(), pointOf(score)); d < last {
				t.Fatalf("%v: %s is %v m away, after one %v m away", search, m, d, last)
			} else {
				last = d
			}
		}
	}
	if searches < 200 {
		t.Fatalf("only %d members lay in polygons", searches)
	}
}
