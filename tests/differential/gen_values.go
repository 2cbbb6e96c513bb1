package differential

import (
	"slices"
	"strconv"
	"strings"
)

// These are the pools of arguments. They are small, so that calls often use the same keys and values.
var (
	oftenKeys = []string{"k0", "k1", "k2", "k3", "k4", "k5"}
	allKeys   = append(slices.Clone(oftenKeys), "", "k6", "k7", "k8", "k9", "user:1000", "{tag}a", "{tag}b", "a*b[c]?",
		"\x00\xff\r\n bin", strings.Repeat("long", 40), strings.Repeat("K", 300))

	// edges are integers near which something may overflow.
	edges = []string{"9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809",
		"9223372036854775806",
		"-9223372036854775807", "18446744073709551615", "18446744073709551616", "2147483647", "2147483648",
		"-2147483648", "-2147483649",
		"4294967295", "4294967296", "4611686018427387904", "-4611686018427387905", "99999999999999999999", "1048575",
		"1048576", "1048577"}
	// badNumbers look like integers, but a strict parser refuses them.
	badNumbers = []string{"", "abc", "1.5", "+5", "0x10", " 1", "1 ", "-0", "007", "--1", "1e3", "-", "１", "1\x00"}
	floats     = []string{"0.1", "-0.1", "-0", "0", "1.5", "3.0e3", "1e308", "-1e308",
		"1.7976931348623157e308", "1e309", "1e4932", "1e4933", "inf", "-inf", "+inf",
		"Infinity", "nan", "NaN", "-nan", "5e-324", "1e-320", "1e-4951",
		"2.2250738585072014e-308", "1e17", "1e18", "0.00000000000000001", "0.1e-16", "123456789.123456789",
		"123456789012345678901234567890", ".5", "5.", "+1", "0x1p3", "0x.8", "1e", "1e+", "1.0 ", " 1.0",
		"3.14159265358979323846", "100000000000000000000", "-1.5e10", "0.3"}
	words = []string{"a", "b", "v", "hello", "world", "foobar", "ohmytext", "mynewtext", "OK", "*", "nil", "é", "日本語",
		"x y", "a\"b", "'", "\\", "(nil)"}
	// lengths are near the lengths at which an encoding changes.
	lengths = []int{1, 12, 20, 21, 31, 32, 39, 43, 44, 45, 62, 63, 64, 65, 127, 128, 255, 256, 511, 512, 513, 1000}
	long    = []int{4095, 4096, 8191, 8192, 8193, 16384, 16385}
	longest = []int{65535, 65536, 65537, 200_000}

	runs = makeRuns() // runs[n] are strings of n bytes
	evil = slices.Concat(edges, badNumbers, []string{"0", "-1", "k0", "EX", "PX", "NX", "XX", "GET", "KEEPTTL",
		"WITHMATCHLEN", "COUNT", "MATCH", "nan", "inf", "1e400", "*", "\x00", "\r\n", strings.Repeat("z", 200)})
)

func makeRuns() map[int][]string {
	runs := map[int][]string{}
	for _, n := range slices.Concat(lengths, long, longest) {
		pattern := strings.Repeat("0123456789abcdef\x00\xff\r\n", n/20+1)[:n]
		runs[n] = []string{strings.Repeat("x", n), strings.Repeat("y", n), pattern, strings.Repeat("7", n)}
	}
	return runs
}

func key(g *generator) {
	if g.chance(75) {
		g.add(pick(g, oftenKeys))
	} else {
		g.add(pick(g, allKeys))
	}
}

// integer adds a number.
func integer(g *generator) {
	switch n := g.rng.IntN(20); {
	case n < 12:
		g.add(g.between(-20, 21))
	case n < 15:
		g.add(g.between(-100_000, 100_001))
	case n < 18:
		g.add(pick(g, edges))
	default:
		g.add(pick(g, badNumbers))
	}
}

// index adds a position in a value: small, at or after its end, or out of range.
func index(g *generator) {
	switch n := g.rng.IntN(20); {
	case n < 12:
		g.add(g.between(-12, 13))
	case n < 16:
		g.add(g.between(-700, 700))
	case n < 18:
		g.add(strconv.Itoa(pick(g, long) - 2 + g.rng.IntN(4)))
	case n < 19:
		g.add(pick(g, edges))
	default:
		g.add(pick(g, badNumbers))
	}
}

func float(g *generator) {
	switch n := g.rng.IntN(10); {
	case n < 3:
		g.add(strconv.FormatFloat((g.rng.Float64()-0.5)*100, 'g', 1+g.rng.IntN(17), 64))
	case n < 7:
		g.add(pick(g, floats))
	default:
		integer(g)
	}
}

// short adds a value of a few bytes.
func short(g *generator) { g.add(pick(g, words)) }

// value adds any string.
func value(g *generator) {
	switch n := g.rng.IntN(1000); {
	case n < 250:
		integer(g)
	case n < 400:
		float(g)
	case n < 650:
		short(g)
	case n < 700:
		g.add("")
	case n < 800:
		var b [24]byte
		for i := range b {
			b[i] = byte(g.rng.Uint32())
		}
		g.add(string(b[:g.rng.IntN(len(b))]))
	case n < 985:
		g.add(pick(g, runs[pick(g, lengths)]))
	case n < 997:
		g.add(pick(g, runs[pick(g, long)]))
	default:
		g.add(pick(g, runs[pick(g, longest)]))
	}
}

// ttlSeconds and ttlMs add a TTL that is long or invalid: see shortest.
func ttlSeconds(g *generator) {
	g.ttl(10_000_000, "9223372036854775", "9223372036854776", "9223372036854775807")
}
func ttlMs(g *generator) { g.ttl(10_000_000_000, "9223372036854775807", "9223372036854775000") }

func (g *generator) ttl(most int64, tooLarge ...string) {
	switch n := g.rng.IntN(20); {
	case n < 14:
		g.add(g.between(shortest, most))
	case n < 16:
		g.add(pick(g, []string{"0", "-1", "-1000000"}))
	case n < 18:
		g.add(pick(g, tooLarge))
	default:
		g.add(pick(g, evil))
	}
}

// atSeconds and atMs add deadlines: far in the future, long past, or out of range.
func atSeconds(g *generator) {
	if g.chance(70) {
		g.add(g.between(g.now+shortest, g.now+10*shortest))
	} else {
		oneOf(exactly("0"), exactly("1"), exactly("-1"), exactly("1500000000"), exactly("9223372036854775"),
			exactly("9223372036854776"), integer)(g)
	}
}

func atMs(g *generator) {
	if g.chance(70) {
		g.add(g.between((g.now+shortest)*1000, (g.now+10*shortest)*1000))
	} else {
		oneOf(exactly("0"), exactly("1"), exactly("-1"), exactly("1500000000000"), exactly("9223372036854775807"), integer)(g)
	}
}

// pattern adds a glob that matches some keys, or a malformed one.
func pattern(g *generator) {
	g.add(pick(g, []string{"*", "k*", "k[0-3]", "k[^0-3]", "k[3-0]", "?0", "k?", "a\\*b*", "*{tag}*", "", "[", "k[",
		"k[0-", "\\", "K*", "*long*", "k0", "**", "*\x00*", "[^]", "k[\\0]", "a**c*"}))
}

// database adds the number of a database. There are few, so that calls often use the same one.
func database(g *generator) {
	if g.chance(92) {
		g.add(g.between(0, 4))
	} else {
		oneOf(exactly("15"), exactly("16"), integer)(g)
	}
}
