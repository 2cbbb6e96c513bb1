package geo

import "math"

// earthRadius is the quadratic mean of WGS 84's, in meters; distances are on a sphere of it.
const earthRadius = 6372797.560856

// degree is one in radians: π/180 as doubles divide.
const degree = 0x1.1df46a2529d39p-6

func radians(degrees float64) float64 { return float64(degrees * degree) }

func degrees(radians float64) float64 { return radians / degree }

// distance is how many meters p and q are apart on a great circle, by the haversine formula, each operation rounded by
// itself. It may be NaN for points opposite each other, as the reference's.
func distance(p, q point) float64 {
	half, meridian := halfChord(p, q)
	if meridian {
		return distanceNorth(p.lat, q.lat)
	}
	return alongSphere(half)
}

// alongSphere is how many meters the ends of a chord are apart, half of which is so many radii.
func alongSphere(half float64) float64 { return 2 * earthRadius * arcSine(half) }

// halfChord is half the length of the straight line between p and q, in radii; meridian says that they lie on one and
// nothing was reckoned.
func halfChord(p, q point) (half float64, meridian bool) {
	v := sine((radians(q.lon) - radians(p.lon)) / 2)
	if v == 0 {
		return 0, true
	}
	from, to := radians(p.lat), radians(q.lat)
	u := sine((to - from) / 2)
	return math.Sqrt(float64(u*u) + float64(float64(float64(cosine(from)*cosine(to))*v)*v)), false
}

// distanceNorth is distance on a meridian.
func distanceNorth(a, b float64) float64 { return earthRadius * math.Abs(radians(b)-radians(a)) }

// within says whether p and q are at most so many meters apart, and how many they are: surely if exact is set and they
// are within. What is clearly nearer or farther is not reckoned to the end.
func within(p, q point, most float64, exact bool) (meters float64, in bool) {
	const slack = 1 + 1e-9 // far more than roundings add up to
	// No way is shorter than the difference of latitudes, or than the chord.
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
	return meters, !(meters > most) // NaN is in
}

// arcExcess bounds arc sines: asin x <= x + arcExcess x³, for the sum of all further coefficients of its series, which
// are positive, is this.
const arcExcess = math.Pi/2 - 1
