package geo

import "math"

// A shape is the area of a search: a circle, a box or a polygon. A box has two sides along parallels and two bent sides
// along meridians. Lengths are in unit.
type shape struct {
	center        point
	unit          float64 // in meters
	radius        float64
	box           bool
	width, height float64
	polygon       *polygon // nil for a circle or a box
}

// bounds returns the range of longitudes and latitudes of the shape.
//
// It measures a box's width at the edge nearest to a pole, where a degree of longitude is shortest.
func (s *shape) bounds() (lon, lat extent) {
	if s.polygon != nil {
		return s.polygon.lon, s.polygon.lat
	}
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

// reach returns the distance in meters from the center to the shape's farthest point.
func (s *shape) reach() float64 {
	switch {
	case s.polygon != nil:
		return s.polygon.reach(s.center)
	case !s.box:
		return s.radius * s.unit
	}
	w, h := s.width/2, s.height/2
	return math.Sqrt(float64(w*w)+float64(h*h)) * s.unit
}

// holds reports whether q is in the shape. meters is the distance from the center. It is only right if exact and in are
// both true.
func (s *shape) holds(q point, exact bool) (meters float64, in bool) {
	switch {
	case s.polygon != nil:
		if !s.polygon.holds(q) {
			return 0, false
		}
		if exact {
			meters = distance(s.center, q)
		}
		return meters, true
	case !s.box:
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

// stepFor returns the number of steps whose nine cells usually cover a circle of this radius at this latitude.
func stepFor(meters, lat float64) uint8 {
	if meters == 0 {
		return maxStep
	}
	step := -1
	for ; meters < halfWorld; meters *= 2 {
		step++
	}
	if lat > 66 || lat < -66 { // cells get narrow near the poles
		if step--; lat > 80 || lat < -80 {
			step--
		}
	}
	return uint8(min(max(step, 1), maxStep))
}

// cells is the cell of the center and the cells around it, in the order of the search. Unsorted replies have this
// order.
//
// geo.A1. The cells cover the shape within its bounds. A cell that does not touch the bounds is zero.
type cells [9]cell

// around lists the directions of the nine cells: east, north.
var around = [9][2]int{{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}}

// cover returns the cells that a search in s visits.
func (s *shape) cover() (all cells) {
	lon, lat := s.bounds()
	step, center := stepFor(s.reach(), s.center.lat), s.center
	if s.polygon != nil {
		center = onMap(center)
	}
	middle := cellOf(center, step)
	if step > 1 && tooSmall(middle, lon, lat) {
		step--
		middle = cellOf(center, step)
	}
	for s.polygon != nil && step > 1 && !reachesOver(middle, lon, lat) {
		step--
		middle = cellOf(center, step)
	}
	areaLon, areaLat := middle.area()
	for i, d := range around {
		// With one step, four of the nine cells are the whole map.
		if step >= 2 && (d[1] < 0 && areaLat.min < lat.min || d[1] > 0 && areaLat.max > lat.max ||
			d[0] < 0 && areaLon.min < lon.min || d[0] > 0 && areaLon.max > lon.max) {
			continue
		}
		all[i] = middle.neighbor(d[0], d[1])
	}
	return all
}

// tooSmall reports whether the range lon and lat reaches beyond the cells around c.
func tooSmall(c cell, lon, lat extent) bool {
	_, north := c.neighbor(0, 1).area()
	_, south := c.neighbor(0, -1).area()
	east, _ := c.neighbor(1, 0).area()
	west, _ := c.neighbor(-1, 0).area()
	return north.max < lat.max || south.min > lat.min || east.max < lon.max || west.min > lon.min
}

// reachesOver reports whether c and the cells next to it cover lon and lat, without wrapping around the map.
func reachesOver(c cell, lon, lat extent) bool {
	areaLon, areaLat := c.area()
	width, height := areaLon.max-areaLon.min, areaLat.max-areaLat.min
	return areaLon.min-width <= lon.min && areaLon.max+width >= lon.max &&
		areaLat.min-height <= lat.min && areaLat.max+height >= lat.max
}
