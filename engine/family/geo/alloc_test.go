package geo

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"spindle/tests/testkit/commandtest"
)

func newCore(t testing.TB) *commandtest.Core { return commandtest.Start(t, Family()) }

// TestNoAllocations: in steady state no search, and no command on single points, allocates on the Go heap.
func TestNoAllocations(t *testing.T) {
	core := newCore(t)
	cl := core.Client(2)
	core.Do(cl, "GEOADD", "small", "13.361389", "38.115556", "Palermo", "15.087269", "37.502669", "Catania", "13.583333",
		"37.316667", "42")
	for i := range 1000 {
		core.Do(cl, "GEOADD", "large", strconv.FormatFloat(13+float64(i)/1000, 'f', 4, 64), "38", "m"+strconv.Itoa(i))
	}
	commandtest.NoAllocations(t, core,
		"GEOADD small 13.361389 38.115556 Palermo", "GEOADD small CH 15 37 Palermo 15.087269 37.502669 Catania",
		"GEOADD large 13.5 38 m7",
		"GEODIST small Palermo Catania", "GEODIST large m1 m999 km",
		"GEOPOS small Palermo nosuch 42", "GEOHASH small Palermo nosuch",
		"GEOSEARCH small FROMLONLAT 15 37 BYRADIUS 200 km WITHDIST WITHCOORD WITHHASH",
		"GEOSEARCH small FROMMEMBER 42 BYBOX 900 900 km ASC",
		"GEOSEARCH large FROMLONLAT 13.5 38 BYRADIUS 5 km", "GEOSEARCH large FROMLONLAT 13.5 38 BYRADIUS 5 km COUNT 10",
		"GEOSEARCH large FROMMEMBER m8 BYBOX 90 90 km DESC",
		"GEOSEARCH large BYPOLYGON 4 13 37 13.9 37 13.9 39 13 39 ASC", "GEOSEARCH small BYPOLYGON 3 13 37 16 37 14.5 39",
	)
}

// BenchmarkSearch searches a circle around one of a million random members. About 3 members are in it. Watch ns/op;
// allocs/op is 0.
func BenchmarkSearch(b *testing.B) {
	core := newCore(b)
	cl := core.Client(2)
	core.Mute = true
	rng := rand.New(rand.NewPCG(9, 10))
	for i := range 1_000_000 {
		p := anywhere(rng)
		core.Do(cl, "GEOADD", "k", strconv.FormatFloat(p.lon, 'f', 6, 64), strconv.FormatFloat(p.lat, 'f', 6, 64),
			"member:"+strconv.Itoa(i))
	}
	var args [][]byte
	for w := range strings.FieldsSeq("GEOSEARCH k FROMLONLAT 13 38 BYRADIUS 25 km ASC") {
		args = append(args, []byte(w))
	}
	b.ReportAllocs()
	for b.Loop() {
		cl.Out.Reset()
		core.Serve(cl, args)
	}
}
