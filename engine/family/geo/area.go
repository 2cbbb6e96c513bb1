package geo

import "math"

// A shape is what a search looks in: a circle, or a box whose sides go along parallels and, bent, along meridians.
// Lengths are in its unit.
type shape struct {
	center        point
	unit          float64 // meters
	radius        float64
	box           bool
	width, height float64
}

// bounds is what the shape reaches to.
//
// A side's length in degrees is taken at the latitude where the shape's northern end is, or the southern one in the
// south; parallels are longer towards the equator, so it is the larger of the two.
func (s *shape) bounds() (lon, lat extent) {
	up, aside := s.radius, s.radius
	if s.box {
		up, aside = s.height/2, s.width/2
	}
	up, aside = s.unit*up, s.unit*aside
	dLat := degrees(up / earthRadius)
	edge := s.center.lat + dLat
	if s.center.lat < 0 {
		edge = s.center.lat - dLat
	}
	dLon := degrees(aside / earthRadius / cosine(radians(edge)))
	return extent{s.center.lon - dLon, s.center.lon + dLon}, extent{s.center.lat - dLat, s.center.lat + dLat}
}

// reach is how many meters the shape's farthest point is from the center.
func (s *shape) reach() float64 {
	if !s.box {
		return s.radius * s.unit
	}
	w, h := s.width/2, s.height/2
	return math.Sqrt(float64(w*w)+float64(h*h)) * s.unit
}

// holds says whether q is in the shape, and how many meters it is from the center: surely if exact is set and it is.
func (s *shape) holds(q point, exact bool) (meters float64, in bool) {
	if !s.box {
		return within(s.center, q, s.radius*s.unit, exact)
	}
	if distanceNorth(q.lat, s.center.lat) > s.height*s.unit/2 {
		return 0, false
	}
	if _, in := within(q, point{s.center.lon, q.lat}, s.width*s.unit/2, false); !in {
		return 0, false
	}
	if exact {
		meters = distance(s.center, q)
	}
	return meters, true
}

// halfWorld is half the length of the equator on a Mercator map, in meters.
const halfWorld = 20037726.37

// stepFor is how small cells may be so that nine of them cover a circle of so many meters at this latitude: mostly.
func stepFor(meters, lat float64) uint8 {
	if meters == 0 {
		return maxStep
	}
	step := -1
	for ; meters < halfWorld; meters *= 2 {
		step++
	}
	if lat > 66 || lat < -66 { // cells become narrow towards the poles
		if step--; lat > 80 || lat < -80 {
			step--
		}
	}
	return uint8(min(max(step, 1), maxStep))
}

// cells is the cell in the middle and those around it, in the order a search goes through them, which unsorted replies
// show.
//
// geo.A1. They cover the shape, as far as bounds tells; what it does not touch is no cell.
type cells [9]cell

// around is in what direction cells lie: east, north.
var around = [9][2]int{{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}}

// cover is the cells that a search for what is in s goes through.
func (s *shape) cover() (all cells) {
	lon, lat := s.bounds()
	step := stepFor(s.reach(), s.center.lat)
	middle := cellOf(s.center, step)
	if step > 1 && tooSmall(middle, lon, lat) {
		step--
		middle = cellOf(s.center, step)
	}
	areaLon, areaLat := middle.area()
	for i, d := range around {
		// With one step all of the map is in four of the nine.
		if step >= 2 && (d[1] < 0 && areaLat.min < lat.min || d[1] > 0 && areaLat.max > lat.max ||
			d[0] < 0 && areaLon.min < lon.min || d[0] > 0 && areaLon.max > lon.max) {
			continue
		}
		all[i] = middle.beside(d[0], d[1])
	}
	return all
}

// tooSmall says that the cells around c end before lon and lat do.
func tooSmall(c cell, lon, lat extent) bool {
	_, north := c.beside(0, 1).area()
	_, south := c.beside(0, -1).area()
	east, _ := c.beside(1, 0).area()
	west, _ := c.beside(-1, 0).area()
	return north.max < lat.max || south.min > lat.min || east.max < lon.max || west.min > lon.min
}
