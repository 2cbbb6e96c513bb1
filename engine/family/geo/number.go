package geo

import (
	"bytes"
	"math"
	"strconv"

	"spindle/engine/command"
	"spindle/internal/number"
	"spindle/protocol"
)

// parsePoint reads longitude and latitude.
//
// Errors: ErrNotFloat, "invalid longitude,latitude pair …".
func parsePoint(lon, lat []byte) (p point, err error) {
	x, ok := number.ParseDouble(lon)
	y, too := number.ParseDouble(lat)
	if !ok || !too {
		return p, protocol.ErrNotFloat
	}
	p = point{x, y}
	if !p.onMap() {
		return p, errPoint(sixDecimals(x), sixDecimals(y))
	}
	return p, nil
}

// sixDecimals formats x as C's %f does.
func sixDecimals(x float64) string {
	switch {
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	return strconv.FormatFloat(x, 'f', 6, 64)
}

// parseUnit returns the number of meters in a unit.
//
// Errors: errUnit.
func parseUnit(text []byte) (meters float64, err error) {
	switch {
	case command.Is(text, "M"):
		return 1, nil
	case command.Is(text, "KM"):
		return 1000, nil
	case command.Is(text, "FT"):
		return 0.3048, nil
	case command.Is(text, "MI"):
		return 1609.34, nil
	}
	return 0, errUnit
}

// circle reads radius and unit.
//
// Errors: errRadius, errNegative, errUnit.
func (s *shape) circle(radius, unit []byte) (err error) {
	r, ok := number.ParseDouble(radius)
	switch {
	case !ok:
		return errRadius
	case r < 0:
		return errNegative
	}
	s.box, s.radius = false, r
	s.unit, err = parseUnit(unit)
	return err
}

// rectangle reads width, height and unit.
//
// Errors: errWidth, errHeight, errBoxSigned, errUnit.
func (s *shape) rectangle(width, height, unit []byte) (err error) {
	w, ok := number.ParseDouble(width)
	if !ok {
		return errWidth
	}
	h, ok := number.ParseDouble(height)
	switch {
	case !ok:
		return errHeight
	case h < 0 || w < 0:
		return errBoxSigned
	}
	s.box, s.width, s.height = true, w, h
	s.unit, err = parseUnit(unit)
	return err
}

// read reads the number of corners, and that many points. It returns the number.
//
// Errors: errCorners; errFewCorners, also if there are fewer points than the number says; those of parsePoint.
func (p *polygon) read(args [][]byte) (n int, err error) {
	n, err = command.Int32(args[0])
	switch points := args[1:]; {
	case err != nil:
		return 0, errCorners
	case n < 3 || n > len(points)/2:
		return 0, errFewCorners
	}
	p.reset() // a second BYPOLYGON replaces the first
	for i := range n {
		corner, err := parsePoint(args[1+2*i], args[2+2*i])
		if err != nil {
			return 0, err
		}
		p.add(corner)
	}
	return n, nil
}

// appendDistance appends x with four decimals. Ties are rounded to the even digit.
func appendDistance(dst []byte, x float64) []byte {
	n := signed(math.RoundToEven(x * 10_000))
	magnitude := uint64(n)
	if n < 0 { // only for NaN
		dst, magnitude = append(dst, '-'), -magnitude
	}
	dst = append(number.AppendUint(dst, magnitude/10_000), '.')
	for unit := uint64(1000); unit > 0; unit /= 10 {
		dst = append(dst, '0'+byte(magnitude/unit%10))
	}
	return dst
}

// appendDegrees appends a coordinate with up to 17 decimals, without trailing zeros.
func appendDegrees(dst []byte, x float64) []byte {
	from := len(dst)
	dst = strconv.AppendFloat(dst, x, 'f', 17, 64)
	dst = bytes.TrimRight(dst, "0") // the text has a decimal point
	dst = bytes.TrimSuffix(dst, []byte("."))
	if string(dst[from:]) == "-0" {
		dst = append(dst[:from], '0')
	}
	return dst
}

func answerPoint(r *protocol.Reply, p point) {
	var room [64]byte
	r.Array(2)
	r.DoubleText(appendDegrees(room[:0], p.lon))
	r.DoubleText(appendDegrees(room[:0], p.lat))
}

// answerDistance replies a length, as text even in RESP3.
func answerDistance(r *protocol.Reply, x float64) {
	var room [32]byte
	r.Bulk(appendDistance(room[:0], x))
}
