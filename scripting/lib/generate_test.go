package lib

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A generator makes random calls of the libraries, each as the body of a Lua function.
type generator struct {
	*rand.Rand
	huge bool // tables may have huge indexes; then no option may make arrays of them
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

func (g *generator) call() string {
	switch g.IntN(16) {
	case 0, 1, 2:
		return g.jsonEncode()
	case 3, 4, 5:
		return g.jsonDecode()
	case 6:
		return g.jsonOption()
	case 7, 8:
		return "return M.pack(" + g.values(4) + ")"
	case 9, 10, 11:
		return g.unpackMessage()
	case 12, 13:
		return g.structCall()
	case 14:
		return g.bitCall()
	}
	return g.roundTrip()
}

var edges = []string{"0", "-0", "1", "-1", "2", "31", "32", "33", "127", "128", "129", "-31", "-32",
	"-33", "-127", "-128",
	"-129", "255", "256", "32767", "32768", "-32768", "-32769", "65535", "65536", "2147483647",
	"2147483648", "-2147483648",
	"-2147483649", "4294967295", "4294967296", "9007199254740991", "9007199254740992", "9007199254740993",
	"99999999999999", "100000000000000", "1e15", "1e14", "-1e14", "9223372036854775807", "9223372036854775808",
	"-9223372036854775808", "-9223372036854777856", "18446744073709551615", "18446744073709551616", "1e19",
	"-1e19", "1e300",
	"-1e300", "math.huge", "-math.huge", "0/0", "-(0/0)", "0.1", "0.5", "1.5", "2.5", "-0.5", "-1.5", "1/3", "1e-5",
	"1e-4", "123456.789",
	"1e-310", "5e-324", "1.7976931348623157e308", "3.4028234663852886e38", "3.5e38", "1e-45", "16777217",
	"4503599627370496.5",
	"2251799813685248.5", "0.00012345", "0.000099999999999999995", "999999999999995e-1"}

func (g *generator) number() string {
	switch g.IntN(6) {
	case 0, 1:
		return pick(g, edges)
	case 2:
		return strconv.Itoa(g.IntN(2000) - 1000)
	case 3:
		return strconv.FormatInt(int64(g.Uint64())>>g.IntN(64), 10)
	case 4:
		f := math.Float64frombits(g.Uint64())
		if f-f != 0 {
			return "0"
		}
		return strconv.FormatFloat(f, 'g', 17, 64)
	}
	return strconv.FormatFloat((g.Float64()-0.5)*math.Pow10(g.IntN(40)-20), 'g', g.IntN(17)+1, 64)
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= ' ' && c < 127 && c != '"' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "\\%03d", c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (g *generator) bytes(n int) string {
	b := make([]byte, n)
	for i := range b {
		switch g.IntN(4) {
		case 0:
			b[i] = byte(g.IntN(256))
		case 1:
			b[i] = "\"\\/\b\t\n\f\r\x00\x1f\x7f\x80\xff"[g.IntN(13)]
		default:
			b[i] = byte('a' + g.IntN(26))
		}
	}
	return string(b)
}

func (g *generator) text() string {
	if g.chance(3) {
		return g.bytes(g.IntN(400))
	}
	if g.chance(10) {
		return pick(g, []string{"", "1", "0x10", "3abc", " 5 ", "1e1", "nan", "2", "\xff"})
	}
	return g.bytes(g.IntN(12))
}

// value returns a random Lua expression.
func (g *generator) value(depth int) string {
	switch g.IntN(12) {
	case 0, 1, 2:
		return g.number()
	case 3, 4:
		return quote(g.text())
	case 5:
		return pick(g, []string{"true", "false", "nil", "J.null", "type", "coroutine.create(odd)"})
	case 6:
		return "true"
	}
	if depth <= 0 {
		return quote(g.text())
	}
	if g.chance(1) {
		return pick(g, []string{"loop(1)", `loop("a")`, "nest(20)", "nest(1100)"})
	}
	n := g.IntN(5)
	if g.chance(5) {
		n = g.IntN(40)
	}
	items := make([]string, n)
	style := g.IntN(4)
	for i := range items {
		v := g.value(depth - 1)
		switch {
		case style == 0 || style == 1 && g.chance(90):
			items[i] = v
		case style == 2:
			items[i] = "[" + quote(g.text()) + "]=" + v
		default:
			items[i] = "[" + g.key() + "]=" + v
		}
	}
	return "{" + strings.Join(items, ",") + "}"
}

func (g *generator) key() string {
	switch g.IntN(8) {
	case 0:
		k := g.number()
		if !g.huge || strings.Contains(k, "0/0") {
			return strconv.Itoa(g.IntN(100) - 10)
		}
		return k
	case 1:
		return pick(g, []string{"true", "false", "J.null", "1.5", "-1", "0", "0.5", "11", "12", "20", "21", "22"})
	case 2, 3, 4:
		return strconv.Itoa(1 + g.IntN(8))
	case 5:
		return strconv.Itoa(1 + g.IntN(60))
	}
	return quote(g.text())
}

func (g *generator) values(most int) string {
	n := g.IntN(most + 1)
	list := make([]string, n)
	for i := range list {
		list[i] = g.value(3)
	}
	return strings.Join(list, ",")
}

func (g *generator) jsonEncode() string {
	if g.chance(2) {
		return "return J.encode(" + g.values(3) + ")"
	}
	return "return J.encode(" + g.value(4) + ")"
}

func (g *generator) jsonNumber() string {
	if g.chance(70) {
		return g.jsonPlainNumber()
	}
	return pick(g, []string{"", "-", "+"}) + pick(g, []string{"0x1F", "0x.8p3", "0x1p-3", "0x", "0X1.8", "inf", "Infinity",
		"INFINITE", "nan",
		"NaN", "nan(12)", "nan(", "1e", "1e+", "1.", ".5", "1.e3", "01", "007", "00x1", "1e400", "1e-400", "0e0",
		"1.5.5", "1_0", "",
		"-", "+1", "123456789012345", "1234567890123456", "12345678901234567890",
		"0.1234567890123456789", "4.9e-324", "2.2250738585072011e-308",
		"0x1.fffffffffffff8p0", "0x123456789abcdef012345", "1E5", "1e5x", "0x1p99999", "0x1p-99999", "1e99999999999",
		"999999999999999.5"})
}

func (g *generator) jsonPlainNumber() string {
	switch g.IntN(4) {
	case 0:
		return strconv.Itoa(g.IntN(100000) - 50000)
	case 1:
		return strconv.FormatFloat((g.Float64()-0.5)*math.Pow10(g.IntN(30)-15), 'f', g.IntN(18), 64)
	case 2:
		return strconv.FormatFloat(math.Float64frombits(g.Uint64()&^(1<<62)), 'e', g.IntN(20), 64)
	}
	return strconv.FormatFloat(g.Float64(), 'g', -1, 64)
}

func (g *generator) jsonString() string {
	var b strings.Builder
	b.WriteByte('"')
	for range g.IntN(8) {
		switch g.IntN(10) {
		case 0:
			b.WriteString(pick(g, []string{`\"`, `\\`, `\/`, `\b`, `\t`, `\n`, `\f`, `\r`}))
		case 1:
			fmt.Fprintf(&b, `\u%04x`, g.IntN(65536))
		case 2:
			fmt.Fprintf(&b, `\u%04X\u%04x`, 0xD800+g.IntN(0x400), 0xDC00+g.IntN(0x400))
		case 3:
			fmt.Fprintf(&b, `\u%04X`, g.IntN(0x900))
		case 4:
			if g.chance(10) {
				b.WriteString(pick(g, []string{`\x`, `\u12`, `\uD800`, `\uDC00\uD800`, `\uD800\u0041`, `\uD800x`, `\u00g0`, "\x00",
					`\`, `\U0041`, "\x80", "\n"}))
			}
			b.WriteString("é€𝄞")
		default:
			b.WriteString(g.bytes(0) + string(byte('a'+g.IntN(26))))
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (g *generator) blank() string {
	if g.chance(80) {
		return ""
	}
	return pick(g, []string{" ", "\t", "\n", "\r", "  ", "\v"}[:g.IntN(6)+1])
}

func (g *generator) json(depth int) string {
	b := g.blank
	switch g.IntN(8) {
	case 0, 1:
		return b() + g.jsonNumber() + b()
	case 2:
		return b() + g.jsonString() + b()
	case 3:
		return b() + pick(g, []string{"true", "false", "null", "True", "nul", "tru", "N", "i", "I",
			"f"}[:3+g.IntN(2)*g.IntN(8)]) + b()
	}
	if depth <= 0 {
		return g.jsonNumber()
	}
	var out strings.Builder
	isArray := g.chance(50)
	out.WriteString(b() + map[bool]string{true: "[", false: "{"}[isArray])
	n := g.IntN(5)
	if g.chance(5) {
		n = g.IntN(40)
	}
	for i := range n {
		if i > 0 {
			out.WriteString(b() + "," + b())
		}
		if !isArray {
			key := g.jsonString()
			if g.chance(50) {
				key = `"` + string(byte('a'+g.IntN(6))) + strconv.Itoa(g.IntN(4)) + `"`
			}
			out.WriteString(b() + key + b() + ":" + b())
		}
		out.WriteString(g.json(depth - 1))
	}
	out.WriteString(map[bool]string{true: "]", false: "}"}[isArray] + b())
	return out.String()
}

func (g *generator) mutate(s string, alphabet string) string {
	b := []byte(s)
	for range 1 + g.IntN(3) {
		i := g.IntN(len(b) + 1)
		switch g.IntN(4) {
		case 0:
			b = append(b[:i:i], append([]byte{alphabet[g.IntN(len(alphabet))]}, b[i:]...)...)
		case 1:
			if i < len(b) {
				b = append(b[:i:i], b[i+1:]...)
			}
		case 2:
			if i < len(b) {
				b[i] = alphabet[g.IntN(len(alphabet))]
			}
		case 3:
			if g.chance(30) {
				b = b[:i]
			} else if i < len(b) {
				b[i] = byte(g.IntN(256))
			}
		}
	}
	return string(b)
}

func (g *generator) jsonDecode() string {
	switch {
	case g.chance(2):
		return "return J.decode(" + g.values(3) + ")"
	case g.chance(1):
		return `return J.decode(("` + pick(g, []string{"[", "{\\\"a\\\":", "[{\\\"b\\\":"}) + `"):rep(` +
			strconv.Itoa(g.IntN(2200)) + "))"
	}
	text := g.json(4)
	if g.chance(40) {
		text = g.mutate(text, "{}[]:,\"\\ \t0123456789.-+eExXintfu\x00\x7f\xff")
	}
	return "return J.decode(" + quote(text) + ")"
}

func (g *generator) jsonOption() string {
	if g.chance(40) {
		return "J = cjson.new() return 1"
	}
	if g.chance(5) {
		return "local t = {} for k, v in pairs(J) do t[#t+1] = k t[#t+1] = type(v) end return t, J._NAME, J._VERSION, " +
			"J.null == cjson.null"
	}
	flag := func() string {
		return pick(g, []string{"true", "false", `"on"`, `"off"`, `"null"`, "nil", "", "1", `"On"`, `"on\000x"`, "{}", `""`})
	}
	switch g.IntN(8) {
	case 0:
		ratio, safe := g.IntN(12)+1, g.IntN(30)
		if !g.huge && g.chance(30) {
			ratio = pick(g, []int{0, 2147483647, 1073741824, 1 << 30})
			safe = pick(g, []int{0, 2147483647, 5})
		}
		list := []string{flag(), strconv.Itoa(ratio), strconv.Itoa(safe)}
		if list[0] == "" {
			list[0] = "nil"
		}
		if g.chance(15) {
			list[g.IntN(3)] = pick(g, []string{"-1", "2147483648", `"x"`, "{}", "nil"})
			if g.huge {
				list[1], list[2] = "nil", "nil"
			}
		}
		if !g.huge && g.chance(10) {
			list = append(list, "1")
		}
		return "return J.encode_sparse_array(" + strings.Join(list[:1+g.IntN(len(list))], ",") + ")"
	case 1:
		return "return J.encode_max_depth(" + g.count() + ")"
	case 2:
		return "return J.decode_max_depth(" + g.count() + ")"
	case 3, 4:
		return "return J.encode_number_precision(" + pick(g,
			[]string{"1", "2", "3", "5", "7", "10", "13", "14", "15", "0", "17", "nil", "3.9", `"4"`, "1,2"}) + ")"
	case 5:
		return "return J.encode_keep_buffer(" + flag() + ")"
	case 6:
		return "return J.encode_invalid_numbers(" + flag() + ")"
	}
	return "return J.decode_invalid_numbers(" + flag() + ")"
}

func (g *generator) count() string {
	return pick(g, []string{"1", "2", "3", "4", "10", "1000", "1001", "2147483647", "0", "-1", "2147483648", "", "nil",
		`"5"`, `"x"`, "{}", "1,2"})
}

// message is random MessagePack, with all forms of values.
func (g *generator) message(depth int) string {
	be := func(u uint64, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(u >> (8 * (n - 1 - i)))
		}
		return string(b)
	}
	random := g.Uint64() >> g.IntN(64)
	switch g.IntN(14) {
	case 0, 1:
		return string([]byte{byte(g.IntN(128))})
	case 2:
		return string([]byte{byte(224 + g.IntN(32))})
	case 3:
		i := g.IntN(8)
		return string([]byte{byte(0xcc + i)}) + be(random, 1<<(i%4))
	case 4:
		return pick(g, []string{"\xc0", "\xc2", "\xc3"})
	case 5:
		f, _ := strconv.ParseFloat(g.number(), 64)
		if g.chance(50) {
			return "\xca" + be(uint64(math.Float32bits(float32(f))), 4)
		}
		return "\xcb" + be(math.Float64bits(f), 8)
	case 6, 7, 8:
		s := g.text()
		switch n := uint64(len(s)); g.IntN(4) {
		case 0:
			return "\xdb" + be(n, 4) + s
		case 1:
			return "\xda" + be(n, 2) + s
		case 2:
			if n < 256 {
				return "\xd9" + be(n, 1) + s
			}
		}
		s = s[:min(31, len(s))]
		return string([]byte{byte(0xa0 + len(s))}) + s
	}
	if depth <= 0 {
		return "\x01"
	}
	n := g.IntN(5)
	if g.chance(5) {
		n = g.IntN(20)
	}
	isMap := g.chance(50)
	head := ""
	switch form := g.IntN(3); {
	case form == 0 && isMap:
		head = "\xde" + be(uint64(n), 2)
	case form == 0:
		head = "\xdc" + be(uint64(n), 2)
	case form == 1 && isMap:
		head = "\xdf" + be(uint64(n), 4)
	case form == 1:
		head = "\xdd" + be(uint64(n), 4)
	case isMap:
		n = min(n, 15)
		head = string([]byte{byte(0x80 + n)})
	default:
		n = min(n, 15)
		head = string([]byte{byte(0x90 + n)})
	}
	var out strings.Builder
	out.WriteString(head)
	for range n {
		if isMap {
			if g.chance(80) {
				key := g.bytes(g.IntN(3))
				out.WriteString(string([]byte{byte(0xa0 + len(key))}) + key)
			} else {
				out.WriteString(g.message(min(depth-1, g.IntN(8)/7)))
			}
		}
		out.WriteString(g.message(depth - 1))
	}
	return out.String()
}

func (g *generator) unpackMessage() string {
	if g.chance(1) {
		return fmt.Sprintf("return M.unpack((%s):rep(%d))",
			pick(g, []string{`"\145"`, `"\129\1"`, `"\145\129"`, `"\129\145\1"`}), g.IntN(9000))
	}
	data := ""
	for range 1 + g.IntN(4)*g.IntN(2) {
		data += g.message(3)
	}
	if g.chance(35) {
		data = g.mutate(data, "\x00\x01\x7f\x80\x81\x8f\x90\x91\x9f\xa0\xa1\xbf\xc0\xc1\xc2\xc3\xc4\xc7\xca\xcb\xcc"+
			"\xcd\xce\xcf\xd0\xd1\xd2\xd3\xd4\xd8\xd9\xda\xdb\xdc\xdd\xde\xdf\xe0\xff")
	}
	argument := func() string {
		return pick(g, []string{"0", "1", "2", "3", "5", "-1", "nil", "", "1000", `"1"`, `"x"`, "1.7", "2147483648",
			"4294967297", "1e300", strconv.Itoa(len(data)), strconv.Itoa(g.IntN(len(data) + 2))}[g.IntN(10):])
	}
	list := []string{quote(data)}
	if g.chance(3) {
		list[0] = pick(g, []string{"nil", "12", "{}", "true"})
	}
	name := pick(g, []string{"unpack", "unpack", "unpack_one", "unpack_limit"})
	for range g.IntN(3) {
		if a := argument(); a != "" {
			list = append(list, a)
		}
	}
	if g.chance(1) {
		list = nil
	}
	return "return M." + name + "(" + strings.Join(list, ",") + ")"
}

func (g *generator) format() string {
	var out strings.Builder
	for range g.IntN(8) {
		switch g.IntN(9) {
		case 0, 1, 2:
			out.WriteString(pick(g, []string{"b", "B", "h", "H", "l", "L", "T", "i", "I", "f", "d", "x"}))
		case 3:
			out.WriteString(pick(g, []string{"i", "I"}) + strconv.Itoa(g.IntN(18)))
		case 4:
			out.WriteString(pick(g, []string{"<", ">", "!", " ", "!1", "!2", "!4", "!8", "!16"}))
		case 5:
			out.WriteString("s")
		case 6:
			out.WriteString("c" + strconv.Itoa(g.IntN(6)))
		case 7:
			out.WriteString(pick(g, []string{"Bc0", "c0", "c", "Hc0", "c1c0"}))
		case 8:
			if g.chance(10) {
				out.WriteString(pick(g, []string{"i33", "i32", "I31", "!3", "!0", "z", "?", "\xff", "\x00b", "i2147483647",
					"i2147483648", "c99999999999",
					"c2147483647", "!1073741824", "!64i16", "!1048576d", "=", "i99999999999", "3", "a"}))
			}
		}
	}
	return out.String()
}

func (g *generator) structCall() string {
	format := g.format()
	switch g.IntN(5) {
	case 0:
		return "return S.size(" + quote(format) + ")"
	case 1, 2:
		list := []string{quote(format)}
		rest := strings.TrimRight(format, "\x00")
		for _, option := range rest {
			if g.chance(2) {
				list = append(list, g.value(1))
				continue
			}
			switch {
			case strings.ContainsRune("bBhHlLTiIfd", option):
				n := g.number()
				if g.chance(5) {
					n = quote("12")
				}
				list = append(list, n)
			case option == 's':
				list = append(list, quote(g.text()))
			case option == 'c':
				list = append(list, quote(g.text()+"abcdefgh"))
			}
		}
		if g.chance(3) {
			list = list[:g.IntN(len(list)+1)]
		}
		return "return S.pack(" + strings.Join(list, ",") + ")"
	}
	list := []string{quote(format), quote(g.bytes(g.IntN(60)))}
	if g.chance(15) {
		list[1] = quote(strings.Repeat("2", g.IntN(40)))
	}
	if g.chance(20) {
		list = append(list, pick(g, []string{"1", "2", "3", "0", "-1", "100", "1e300", "nil", `"2"`, "2.9",
			"-1e300", "{}", "20"}))
	}
	if g.chance(2) {
		list = list[:g.IntN(len(list))]
	}
	return "return S.unpack(" + strings.Join(list, ",") + ")"
}

func (g *generator) bitCall() string {
	name := pick(g, []string{"tobit", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror",
		"bswap", "tohex"})
	list := make([]string, g.IntN(4))
	if g.chance(90) && len(list) < 2 {
		list = make([]string, 2)
	}
	for i := range list {
		list[i] = g.number()
		if g.chance(3) {
			list[i] = g.value(1)
		}
	}
	return "return B." + name + "(" + strings.Join(list, ",") + ")"
}

// roundTrip packs the result of unpacking. It leaves out values whose order or bits may differ (odd).
func (g *generator) roundTrip() string {
	switch g.IntN(4) {
	case 0:
		return "return J.decode(J.encode(" + g.value(3) + "))"
	case 1:
		return "return M.unpack(M.pack(" + g.value(3) + "))"
	case 2:
		return "local v = J.decode(" + quote(g.json(4)) + ") if odd(v) then return 'odd' end return J.encode(v), M.pack(v)"
	}
	return "local v = M.unpack(" + quote(g.message(4)) + ") if odd(v) then return 'odd' end return M.pack(v), J.encode(v)"
}
