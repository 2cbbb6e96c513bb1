package geo

import (
	"math"

	"spindle/engine/command"
)

// A polygon is an area between corners on the flat map of longitudes and latitudes. Its sides are straight there, and
// none crosses the map's edge. A point is inside if a ray to the east crosses an odd number of sides.
//
// Source: W. R. Franklin, "PNPOLY".
type polygon struct {
	corners  []point
	lon, lat extent // of the corners
}

// reset makes p a polygon without corners.
func (p *polygon) reset() {
	none := extent{math.Inf(1), math.Inf(-1)}
	p.corners, p.lon, p.lat = command.Release(p.corners), none, none
}

func (p *polygon) add(corner point) {
	p.corners = append(p.corners, corner)
	p.lon = extent{min(p.lon.min, corner.lon), max(p.lon.max, corner.lon)}
	p.lat = extent{min(p.lat.min, corner.lat), max(p.lat.max, corner.lat)}
}

// center returns the mean of the corners as points of the sphere. Distances are measured from it. It may be outside the
// polygon, and near a pole even outside the map.
func (p *polygon) center() point {
	var x, y, z float64
	for _, c := range p.corners {
		lon, lat := radians(c.lon), radians(c.lat)
		x += float64(cosine(lat) * cosineFar(lon))
		y += float64(cosine(lat) * sine(lon))
		z += sine(lat)
	}
	return point{degrees(math.Atan2(y, x)), degrees(math.Atan2(z, math.Sqrt(float64(x*x)+float64(y*y))))}
}

// onMap returns the nearest point to p that has a cell on the map.
func onMap(p point) point { return point{min(p.lon, 179.999999999), min(max(p.lat, -85), 85)} }

// cosineFar returns the cosine of x, -π <= x <= π, to the nearest double.
func cosineFar(x float64) float64 {
	if x = math.Abs(x); x > gridEnd {
		_, cos := sinCos(piHi - x)
		return -cos.Hi
	}
	return cosine(x)
}

// reach returns the distance in meters from center to the farthest corner of the rectangle around p.
func (p *polygon) reach(center point) float64 {
	return max(distance(center, point{p.lon.min, p.lat.max}), distance(center, point{p.lon.max, p.lat.max}),
		distance(center, point{p.lon.min, p.lat.min}), distance(center, point{p.lon.max, p.lat.min}))
}

// holds reports whether q is in the polygon.
func (p *polygon) holds(q point) bool {
	const slack = 1e-9 // far more than all rounding errors
	if q.lat < p.lat.min || q.lat > p.lat.max || q.lon < p.lon.min-slack || q.lon > p.lon.max+slack {
		return false
	}
	in := false
	a := p.corners[len(p.corners)-1]
	for _, b := range p.corners {
		if (b.lat > q.lat) != (a.lat > q.lat) &&
			q.lon < float64(float64((a.lon-b.lon)*(q.lat-b.lat))/(a.lat-b.lat))+b.lon {
			in = !in
		}
		a = b
	}
	return in
}
