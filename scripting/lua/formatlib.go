package lua

import (
	"math"
	"strconv"
)

// A directive is one % of string.format: %[flags][width][.precision]verb.
type directive struct {
	minus, plus, space, sharp, zero bool
	width, precision                int // precision -1: none
	verb                            byte
}

// parseDirective parses a directive after its %. at is the index of the first byte after the %, next that of the first
// byte after the directive.
func (c *Call) parseDirective(format string, at int) (d directive, next int) {
	byteAt := func(i int) byte {
		if i < len(format) {
			return format[i]
		}
		return 0
	}
	p := at
flags:
	for ; ; p++ {
		switch byteAt(p) {
		case '-':
			d.minus = true
		case '+':
			d.plus = true
		case ' ':
			d.space = true
		case '#':
			d.sharp = true
		case '0':
			d.zero = true
		default:
			break flags
		}
	}
	if p-at >= len("-+ #0")+1 {
		c.Error("invalid format (repeated flags)")
	}
	for i := 0; i < 2 && isDigit(int(byteAt(p))); i++ {
		d.width = d.width*10 + int(byteAt(p)-'0')
		p++
	}
	d.precision = -1
	if byteAt(p) == '.' {
		p++
		d.precision = 0
		for i := 0; i < 2 && isDigit(int(byteAt(p))); i++ {
			d.precision = d.precision*10 + int(byteAt(p)-'0')
			p++
		}
	}
	if isDigit(int(byteAt(p))) {
		c.Error("invalid format (width or precision too long)")
	}
	d.verb = byteAt(p)
	return d, p + 1
}

func stringFormat(c *Call) Outcome {
	format := c.CheckString(1).str()
	out := c.state.scratch[:0]
	arg := 1
	for i := 0; i < len(format); {
		if format[i] != '%' {
			out = append(out, format[i])
			i++
			continue
		}
		i++
		if i < len(format) && format[i] == '%' {
			out = append(out, '%')
			i++
			continue
		}
		if arg++; arg > c.n {
			c.ArgError(arg, "no value")
		}
		var d directive
		d, i = c.parseDirective(format, i)
		switch d.verb {
		case 'c':
			b := byte(0) // the value for numbers beyond C's int
			if f := c.CheckNumber(arg); f > -1<<31-1 && f < 1<<31 {
				b = byte(int32(f))
			}
			if b == 0 { // C's sprintf ends the item at a zero byte
				start := len(out)
				out = d.pad(out, nil, 1)
				out = out[:start+len(cString(viewString(out[start:])))]
				if d.minus {
					out = out[:start]
				}
			} else {
				out = d.pad(out, []byte{b}, 1)
			}
		case 'd', 'i':
			out = d.integer(out, toInteger(c.CheckNumber(arg)))
		case 'o', 'u', 'x', 'X':
			out = d.unsigned(out, toUnsigned(c.CheckNumber(arg)))
		case 'e', 'E', 'f', 'g', 'G':
			out = d.float(out, c.CheckNumber(arg))
		case 'q':
			out = appendQuoted(out, c.CheckString(arg).str())
		case 's':
			s := c.CheckString(arg).str()
			if d.precision < 0 && len(s) >= 100 {
				out = append(out, s...)
				break
			}
			s = cString(s)
			if d.precision >= 0 && len(s) > d.precision {
				s = s[:d.precision]
			}
			out = d.pad(out, []byte(s), len(s))
		default:
			verb := string([]byte{d.verb})
			c.Error("invalid option '%" + cString(verb) + "' to 'format'")
		}
		if len(out) > maxString {
			c.state.raiseMemory()
		}
	}
	c.state.scratch = out
	c.Spend(len(out) >> 4)
	return c.Return1(c.state.Bytes(out))
}

// toUnsigned converts as a C cast to unsigned long does on x86.
func toUnsigned(f float64) uint64 {
	if f >= 9223372036854775808 && f < 18446744073709551616 {
		return uint64(f)
	}
	if f >= 18446744073709551616 {
		return 0
	}
	return uint64(toInteger(f))
}

// pad appends item, which is width characters wide, with blanks on its left or right.
func (d *directive) pad(out, item []byte, width int) []byte {
	n := d.width - width
	if !d.minus {
		for ; n > 0; n-- {
			out = append(out, ' ')
		}
	}
	out = append(out, item...)
	for ; n > 0; n-- {
		out = append(out, ' ')
	}
	return out
}

// number appends prefix and digits, with zeros or blanks for the width.
func (d *directive) number(out []byte, prefix string, digits []byte, zeros bool) []byte {
	n := d.width - len(prefix) - len(digits)
	if !d.minus && !zeros {
		for ; n > 0; n-- {
			out = append(out, ' ')
		}
	}
	out = append(out, prefix...)
	if !d.minus && zeros {
		for ; n > 0; n-- {
			out = append(out, '0')
		}
	}
	out = append(out, digits...)
	for ; n > 0; n-- {
		out = append(out, ' ')
	}
	return out
}

func (d *directive) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case d.plus:
		return "+"
	case d.space:
		return " "
	}
	return ""
}

// minimum adds leading zeros up to the precision.
func (d *directive) minimum(digits []byte) []byte {
	if d.precision == 0 && len(digits) == 1 && digits[0] == '0' {
		return nil
	}
	for len(digits) < d.precision {
		digits = append([]byte{'0'}, digits...)
	}
	return digits
}

func (d *directive) integer(out []byte, i int64) []byte {
	u := uint64(i)
	if i < 0 {
		u = -u
	}
	digits := d.minimum(strconv.AppendUint(nil, u, 10))
	return d.number(out, d.sign(i < 0), digits, d.zero && d.precision < 0)
}

func (d *directive) unsigned(out []byte, u uint64) []byte {
	base, prefix := 10, ""
	switch d.verb {
	case 'o':
		base = 8
	case 'x', 'X':
		base = 16
		if d.sharp && u != 0 {
			prefix = "0" + string(rune(d.verb))
		}
	}
	digits := d.minimum(strconv.AppendUint(nil, u, base))
	if d.verb == 'X' {
		for i, b := range digits {
			if isLower(int(b)) {
				digits[i] = b &^ 0x20
			}
		}
	}
	if d.verb == 'o' && d.sharp && (len(digits) == 0 || digits[0] != '0') {
		digits = append([]byte{'0'}, digits...)
	}
	return d.number(out, prefix, digits, d.zero && d.precision < 0)
}

func (d *directive) float(out []byte, f float64) []byte {
	upper := isUpper(int(d.verb))
	if f != f || math.IsInf(f, 0) {
		text := "inf"
		if f != f {
			text = "nan"
		}
		if upper {
			text = map[string]string{"inf": "INF", "nan": "NAN"}[text]
		}
		return d.number(out, d.sign(math.Signbit(f)), []byte(text), false)
	}
	precision := d.precision
	if precision < 0 {
		precision = 6
	}
	a := math.Abs(f)
	var digits []byte
	switch d.verb {
	case 'f':
		digits = strconv.AppendFloat(nil, a, 'f', precision, 64)
		if d.sharp && precision == 0 {
			digits = append(digits, '.')
		}
	case 'e', 'E':
		digits = strconv.AppendFloat(nil, a, 'e', precision, 64)
		e := len(digits) - 1
		for digits[e] != 'e' {
			e--
		}
		exponent, _ := strconv.Atoi(string(digits[e+1:]))
		digits = digits[:e]
		if d.sharp && precision == 0 {
			digits = append(digits, '.')
		}
		digits = appendExponent(digits, exponent, upper)
	default:
		digits = appendG(nil, a, precision, upper, d.sharp)
	}
	return d.number(out, d.sign(math.Signbit(f)), digits, d.zero)
}

func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		switch b := s[i]; b {
		case '"', '\\', '\n':
			out = append(out, '\\', b)
		case '\r':
			out = append(out, "\\r"...)
		case 0:
			out = append(out, "\\000"...)
		default:
			out = append(out, b)
		}
	}
	return append(out, '"')
}
