package differential

import (
	"strconv"
	"strings"
)

var (
	geoMember = oneOf(short, short, short, integer, value)
	// lonLat is a point: often one that other calls use, or a point near others, at an edge of the map or outside it.
	lonLat = oneOf(knownPoint, knownPoint, nearPoint, nearPoint, nearPoint, anyPoint, anyPoint, edgePoint,
		seq(float, float))
	geoUnit  = oneOf(lit("m"), lit("km"), lit("km"), lit("ft"), lit("mi"), lit("mi"), maybe(20, short))
	geoRange = oneOf(length, length, length, length, float)
	circle   = oneOf(seq(geoRange, geoUnit), seq(length, lit("km")))
	around   = oneOf(seq(lit("BYRADIUS"), circle), seq(lit("BYBOX"), geoRange, circle))
	center   = oneOf(seq(lit("FROMLONLAT"), lonLat), seq(lit("FROMLONLAT"), lonLat), seq(lit("FROMMEMBER"), short),
		seq(lit("FROMMEMBER"), geoMember))
	someOf = maybe(40, oneOf(seq(lit("COUNT"), few), seq(lit("COUNT"), few, lit("ANY")),
		seq(lit("COUNT"), integer), lit("ANY")))
	nearFar  = maybe(50, anyOf("ASC", "DESC"))
	with     = seq(maybe(50, lit("WITHDIST")), maybe(40, lit("WITHCOORD")), maybe(40, lit("WITHHASH")))
	geoExtra = seq(someOf, nearFar, with)
	into     = maybe(30, anyOf("STORE", "STORE", "STORE", "STOREDIST"), key)
	geoOdd   = shuffled(with, someOf, nearFar, into, around, center, short)
	// These are the same queries in another order, sometimes with options that exclude each other.
	question = oneOf(seq(center, around, geoExtra), seq(around, center, geoExtra), seq(geoExtra, center, around),
		seq(center, around, geoOdd))
	corners = oneOf(times(3, 3, nearPoint), times(3, 8, nearPoint), times(2, 3, nearPoint))
	polygon = only("valkey-9", oneOf(polygonOf(corners), polygonOf(corners), polygonOf(corners),
		seq(lit("BYPOLYGON"), oneOf(few, integer, short), corners)))
	widePolygon = only("valkey-9", polygonOf(oneOf(times(3, 5, anyPoint), times(2, 4, lonLat))))
	filed       = oneOf(seq(center, around, someOf, nearFar), seq(around, someOf, center), seq(center, around, geoOdd))
)

var geoTemplates = []template{
	{14, "geoadd", []arg{key, maybe(25, oneOf(lit("NX"), lit("XX"), lit("CH"), seq(lit("CH"), lit("XX")),
		seq(lit("NX"), lit("XX")))), times(1, 5, lonLat, geoMember)}},
	{6, "geoadd", []arg{key, times(5, 40, nearPoint, integer)}},
	{2, "geoadd", []arg{key, times(100, 300, anyPoint, value)}},
	{1, "zadd", []arg{key, float, geoMember}},
	{6, "geodist", []arg{key, geoMember, geoMember, maybe(60, geoUnit)}},
	{5, "geopos", []arg{key, times(0, 3, geoMember)}},
	{5, "geohash", []arg{key, times(0, 3, geoMember)}},
	{12, "geosearch", []arg{key, question}},
	{6, "geosearchstore", []arg{key, key, filed}},
	{4, "geosearch", []arg{key, oneOf(seq(polygon, geoExtra), seq(geoExtra, polygon), seq(polygon, geoOdd),
		seq(widePolygon, geoExtra))}},
	{2, "geosearchstore", []arg{key, key, oneOf(seq(polygon, someOf, nearFar), seq(someOf, polygon, geoOdd))}},
	{5, "georadius", []arg{key, lonLat, circle, oneOf(geoExtra, seq(someOf, nearFar, into), geoOdd)}},
	{5, "georadiusbymember", []arg{key, short, circle, oneOf(geoExtra, seq(someOf, nearFar, into), geoOdd)}},
	{2, "georadius_ro", []arg{key, lonLat, circle, oneOf(geoExtra, geoOdd)}},
	{2, "georadiusbymember_ro", []arg{key, short, circle, oneOf(geoExtra, geoOdd)}},
	{2, "zremrangebyrank", []arg{key, index, index}},
	{1, "del", []arg{key}},
}

// polygonOf adds BYPOLYGON, the number of corners and the corners.
func polygonOf(corners arg) arg {
	return func(g *generator) {
		at := len(g.args)
		g.add(g.anyCase("BYPOLYGON"))
		g.add("")
		corners(g)
		g.args[at+1] = strconv.Itoa((len(g.args) - at - 2) / 2)
	}
}

func (g *generator) addDegrees(x float64) { g.add(strconv.FormatFloat(x, 'f', g.rng.IntN(9), 64)) }

func knownPoint(g *generator) {
	p := pick(g, []string{"13.361389 38.115556", "15.087269 37.502669", "0 0", "-0.1 51.5", "139.6917 35.6895",
		"-122.27652 37.805186", "179.99 -16.5", "-179.99 -16.5", "25 81", "25 -68"})
	lon, lat, _ := strings.Cut(p, " ")
	g.add(lon)
	g.add(lat)
}

// nearPoint adds a point near a town's point or, within a street, almost at it.
func nearPoint(g *generator) {
	spread := pick(g, []float64{0.00001, 0.01, 0.5, 5})
	g.addDegrees(13 + (g.rng.Float64()-0.5)*spread)
	g.addDegrees(38 + (g.rng.Float64()-0.5)*spread)
}

func anyPoint(g *generator) {
	g.addDegrees((g.rng.Float64() - 0.5) * 360)
	g.addDegrees((g.rng.Float64() - 0.5) * 170)
}

func edgePoint(g *generator) {
	g.add(pick(g, []string{"180", "-180", "179.9999999", "0", "90", "180.0000001", "-181"}))
	g.add(pick(g, []string{"85.05112878", "-85.05112878", "85.0511287801", "85.05", "-85", "0", "-86"}))
}

// length adds a length, from that of a street to half the circumference of the earth.
func length(g *generator) {
	x := pick(g, []float64{0, 0.5, 1, 10, 200, 1000, 5000, 20_000, 1e7})
	g.add(strconv.FormatFloat(x*(1+g.rng.Float64()), 'f', g.rng.IntN(5), 64))
}

func few(g *generator) { g.add(g.between(1, 30)) }

// tameGeo makes calls store scores instead of distances, because the last bit of a distance depends on the C library.
// Other tests check stored distances.
func (g *generator) tameGeo(name string) {
	for i, a := range g.args {
		if i > 2 && strings.EqualFold(a, "STOREDIST") {
			if g.args[i] = "STORE"; name == "geosearchstore" {
				g.args[i] = "ASC"
			}
		}
	}
}
