package geo

import "math"

// earthRadius is the quadratic mean radius of WGS 84, in meters. Distances are on a sphere of this radius.
const earthRadius = 6372797.560856

// degree is π/180, as division of doubles gives it.
const degree = 0x1.1df46a2529d39p-6

func radians(degrees float64) float64 { return float64(degrees * degree) }

func degrees(radians float64) float64 { return radians / degree }

// distance returns the great-circle distance of p and q in meters, by the haversine formula. Each operation is rounded.
// For antipodal points the result may be NaN, as in Redis.
func distance(p, q point) float64 {
	half, meridian := halfChord(p, q)
	if meridian {
		return distanceNorth(p.lat, q.lat)
	}
	return alongSphere(half)
}

// alongSphere returns the distance along the sphere between the ends of a chord, in meters. half is half the chord, in
// radii.
func alongSphere(half float64) float64 { return 2 * earthRadius * arcSine(half) }

// halfChord returns half the straight distance between p and q, in radii. meridian means that both are on one meridian;
// half is then not computed.
func halfChord(p, q point) (half float64, meridian bool) {
	v := sine((radians(q.lon) - radians(p.lon)) / 2)
	if v == 0 {
		return 0, true
	}
	from, to := radians(p.lat), radians(q.lat)
	u := sine((to - from) / 2)
	return math.Sqrt(float64(u*u) + float64(float64(float64(cosine(from)*cosine(to))*v)*v)), false
}

// distanceNorth returns the distance of two latitudes on one meridian.
func distanceNorth(a, b float64) float64 { return earthRadius * math.Abs(radians(b)-radians(a)) }

// within reports whether p and q are at most most meters apart. meters is only right if exact and in are true. If exact
// is false, within skips the arcsine where the points are clearly near or far.
func within(p, q point, most float64, exact bool) (meters float64, in bool) {
	const slack = 1 + 1e-9 // far more than all rounding errors
	// The distance is never shorter than the difference of latitudes, or than the chord.
	if distanceNorth(p.lat, q.lat) > most*slack {
		return 0, false
	}
	half, meridian := halfChord(p, q)
	switch {
	case meridian:
		meters = distanceNorth(p.lat, q.lat)
	case 2*earthRadius*half > most*slack:
		return 0, false
	case !exact && 2*earthRadius*slack*(half+arcExcess*half*half*half) < most:
		return 0, true
	default:
		meters = alongSphere(half)
	}
	return meters, !(meters > most) // NaN counts as in
}

// arcExcess bounds the arcsine: asin x <= x + arcExcess x³. It is the sum of the other coefficients of the series,
// which are all positive.
const arcExcess = math.Pi/2 - 1
