package geo

import "math"

// A cell is a rectangle of the map. The map is halved step times in each direction. Each bit says which half.
//
//	bit  2*step-1   2*step-2        1     0
//	    +----------+--------+-- ~ -+-----+-----+
//	    | lon 1st  | lat 1st|      | lon | lat |    1: the eastern, the northern half
//	    +----------+--------+-- ~ -+-----+-----+
//
// geo.C1. A member's score is its cell of maxStep steps. So the members of a larger cell lie between two scores.
// geo.C2. A point on the map's eastern or northern edge is one column or row past the last one, and its cell has one
// more bit. Clients have stored such scores, so they must stay valid. In the north-eastern corner, cells of maxStep are
// empty, because a double cannot distinguish their scores.
//
// Source: geohash (G. Niemeyer, 2008) in its integer form. Each division, product and sum is rounded, in this order, so
// that scores and coordinates are equal to the last bit on every machine.
type cell struct {
	bits uint64
	step uint8 // 1..maxStep; 0 means no cell
}

// maxStep is the number of steps of a score: 52 bits, which a double holds.
const maxStep = 26

// An extent is a range, in degrees.
type extent struct{ min, max float64 }

// The map ends where Web Mercator does. The text form of a geohash reaches the poles.
var (
	longitudes   = extent{-180, 180}
	latitudes    = extent{-85.05112878, 85.05112878}
	allLatitudes = extent{-90, 90}
)

func (e extent) holds(x float64) bool { return e.min <= x && x <= e.max }

type point struct{ lon, lat float64 }

// onMap reports whether p has a cell.
func (p point) onMap() bool { return longitudes.holds(p.lon) && latitudes.holds(p.lat) }

// column returns the number of the part that contains x, if e is divided into 2^step equal parts.
func (e extent) column(x float64, step uint8) uint32 {
	return uint32(float64((x-e.min)/(e.max-e.min)) * float64(uint64(1)<<step))
}

// at returns the start of part i, if e is divided into 2^step equal parts.
func (e extent) at(i uint32, step uint8) float64 {
	return e.min + float64(float64(float64(i)/float64(uint64(1)<<step))*float64(e.max-e.min))
}

// cellOf returns the cell of p. p must be on the map.
func cellOf(p point, step uint8) cell { return cellIn(p, latitudes, step) }

func cellIn(p point, lats extent, step uint8) cell {
	return cell{interleave(lats.column(p.lat, step), longitudes.column(p.lon, step)), step}
}

// area returns the range of longitudes and latitudes in the cell.
func (c cell) area() (lon, lat extent) {
	i, j := deinterleave(c.bits)
	// Part 2^32-1 is followed by part 0. A score that is no cell may lead there.
	return extent{longitudes.at(j, c.step), longitudes.at(j+1, c.step)},
		extent{latitudes.at(i, c.step), latitudes.at(i+1, c.step)}
}

// pointOf returns the middle of the cell with this score. For a score that is no cell, it returns a point at the map's
// edge.
func pointOf(score float64) point {
	lon, lat := cell{unsigned(score), maxStep}.area()
	return point{middle(lon, longitudes), middle(lat, latitudes)}
}

func middle(e, within extent) float64 { return min(max((e.min+e.max)/2, within.min), within.max) }

// score returns the first score in c.
func (c cell) score() uint64 { return c.bits << (2 * (maxStep - c.step)) }

// scores returns the range [from, to) of the scores in c (geo.C1).
func (c cell) scores() (from, to float64) {
	return float64(c.score()), float64(cell{c.bits + 1, c.step}.score())
}

const (
	lonBits = 0xaaaaaaaaaaaaaaaa
	latBits = 0x5555555555555555
)

// neighbor returns the cell next to c in the direction east, north. Both are -1, 0 or 1. The map wraps around.
func (c cell) neighbor(east, north int) cell {
	unused := 64 - 2*c.step
	lon, lat := c.bits&lonBits, c.bits&latBits
	if east != 0 {
		lon = stepIn(lon, east, latBits>>unused) & (lonBits >> unused)
	}
	if north != 0 {
		lat = stepIn(lat, north, lonBits>>unused) & (latBits >> unused)
	}
	return cell{lon | lat, c.step}
}

// stepIn adds d, 1 or -1, to a number whose bits are at the positions that are not in gaps. Carry and borrow skip the
// gaps.
func stepIn(n uint64, d int, gaps uint64) uint64 {
	if d > 0 {
		return n + (gaps + 1)
	}
	return (n | gaps) - (gaps + 1)
}

// interleave places the bits of lat at even positions and those of lon at odd ones.
func interleave(lat, lon uint32) uint64 { return spread(lat) | spread(lon)<<1 }

func deinterleave(bits uint64) (lat, lon uint32) { return gather(bits), gather(bits >> 1) }

// spread moves bit i to 2i. It halves the distance each time (S. E. Anderson, Bit Twiddling Hacks: Morton numbers).
func spread(n uint32) uint64 {
	x := uint64(n)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & latBits
}

// gather returns the inverse of spread.
func gather(x uint64) uint32 {
	x &= latBits
	x = (x | x>>1) & 0x3333333333333333
	x = (x | x>>2) & 0x0f0f0f0f0f0f0f0f
	x = (x | x>>4) & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return uint32(x | x>>16)
}

// unsigned and signed convert f as a C cast does on Redis's machines. They return the integer part, in two's
// complement if negative, and one fixed value if f is out of range. Such f occur, because ZADD accepts any score.
func unsigned(f float64) uint64 {
	if f >= 1<<63 {
		return uint64(signed(f-1<<63)) ^ 1<<63
	}
	return uint64(signed(f))
}

func signed(f float64) int64 {
	if !(f >= -1<<63 && f < 1<<63) {
		return math.MinInt64
	}
	return int64(f)
}

// alphabet holds the 32 digits of a geohash's text.
const alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"

// appendText appends the standard text of p's geohash: 10 digits for 50 of its 52 bits. The eleventh digit is always 0.
func appendText(dst []byte, p point) []byte {
	bits := cellIn(p, allLatitudes, maxStep).bits
	for shift := 47; shift > 0; shift -= 5 {
		dst = append(dst, alphabet[bits>>shift&31])
	}
	return append(dst, alphabet[0])
}
