package number

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestIntegers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		n := int64(rng.Uint64()) >> rng.IntN(64)
		switch i {
		case 0:
			n = math.MinInt64
		case 1:
			n = math.MaxInt64
		}
		want := strconv.FormatInt(n, 10)
		if got := string(AppendInt([]byte("x"), n)); got != "x"+want || IntLen(n) != len(want) {
			t.Fatalf("%d: %q, length %d", n, got, IntLen(n))
		}
		if got := string(AppendUint(nil, uint64(n))); got != strconv.FormatUint(uint64(n), 10) ||
			UintLen(uint64(n)) != len(got) {
			t.Fatalf("%d: %q, length %d", uint64(n), got, UintLen(uint64(n)))
		}
		if got, ok := ParseInt([]byte(want)); !ok || got != n {
			t.Fatalf("%q: %d %t", want, got, ok)
		}
		if got, ok := ParseUint(AppendUint(nil, uint64(n))); !ok || got != uint64(n) {
			t.Fatalf("%d: %d %t", uint64(n), got, ok)
		}
	}
	for _, bad := range []string{"", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1x", "9223372036854775808",
		"-9223372036854775809", "18446744073709551616", "99999999999999999999", "100000000000000000000", "0x1"} {
		if n, ok := ParseInt([]byte(bad)); ok {
			t.Errorf("%q is %d", bad, n)
		}
	}
	if n, ok := ParseUint([]byte("18446744073709551616")); ok {
		t.Error(n)
	}
}

func TestAppendDouble(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "-0", 1: "1", -1.5: "-1.5", 0.1: "0.1", 3.14159: "3.14159",
		1e17: "100000000000000000", 1e18: "1000000000000000000", 1e19: "1e+19", 1.5e300: "1.5e+300",
		4611686018427387904: "4611686018427387904",
		9.3e18:              "9.3e+18", 1e-5: "0.00001", 1e-6: "0.000001", 1e-7: "1e-7", 1.25e-7: "1.25e-7", 5e-324: "5e-324",
		math.MaxFloat64: "1.7976931348623157e+308", math.Inf(1): "inf", math.Inf(-1): "-inf", 123456.789: "123456.789",
		0.30000000000000004: "0.30000000000000004", -1.7976931348623157e+308: "-1.7976931348623157e+308",
	} {
		if got := string(AppendDouble(nil, f)); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
	if got := string(AppendDouble(nil, math.NaN())); got != "nan" {
		t.Errorf("NaN: %q", got)
	}
}

func TestAppendShortest(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "-0", 20: "20", -1.5: "-1.5", 1e7: "10000000", 1e8: "1e+8", 12e7: "120000000",
		-1e15: "-1e+15", 1e17: "1e+17",
		4611686018427387904: "4611686018427388000", math.Inf(1): "inf", math.Inf(-1): "-inf", 5e-324: "5e-324",
	} {
		if got := string(AppendShortest(nil, f)); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
}

func TestParseDouble(t *testing.T) {
	for text, want := range map[string]float64{
		"1": 1, "-1.5": -1.5, "+2": 2, ".5": .5, "5.": 5, "1e3": 1000, "1E+3": 1000, "inf": math.Inf(1),
		"-Infinity": math.Inf(-1), "+INF": math.Inf(1),
		"0x10": 16, "0x1p3": 8, "-0x.8": -0.5, "0x1.8P1": 3, "00012": 12, "5e-324": 5e-324, "0e999999": 0, "1e-310": 1e-310,
	} {
		if got, ok := ParseDouble([]byte(text)); !ok || got != want {
			t.Errorf("%q: %v %t", text, got, ok)
		}
	}
	for _, bad := range []string{"", " 1", "1 ", "nan", "-nan", "1e", "1e+", "e5", ".", "-", "0x", "0x.", "0xp1", "1_000",
		"0x_1p0", "1e309", "1e-400", "infi", "1\x00", "1.2.3", "--1"} {
		if got, ok := ParseDouble([]byte(bad)); ok {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

// The sums are Redis's for INCRBYFLOAT.
func TestLong(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"10.5", "0.1", "10.6"},
		{"5.0e3", "2.0e2", "5200"},
		{"3", "1.1", "4.1"},
		{"0", "0.1", "0.1"},
		{"1", "-1", "0"},
		{"1.5", "-1.5", "0"},
		{"-0", "0", "0"},
		{"17179869184", "1.5", "17179869185.5"},
		{"9223372036854775807", "1", "9223372036854775808"},
		{"18446744073709551615", "1", "18446744073709551616"},
		{"18446744073709551615", "0", "18446744073709551615"},
		{"0.00000000000000001", "0", "0.00000000000000001"},
		{"0.000000000000000004", "0", "0"},
		{"-0.000000000000000004", "0", "0"},
		{"1e-4000", "1", "1"},
		{"1e25", "0", "10000000000000000000000000"},
		{"123456789012345678901234567890", "0", "123456789012345678899921813504"},
		{"0x1p-1", "0x10", "16.5"},
		{"3.0000000000000005", "0", "3.0000000000000005"},
		{"0.1", "0.2", "0.3"},
	} {
		a, okA := ParseLong([]byte(c.a))
		b, okB := ParseLong([]byte(c.b))
		sum, ok := a.Add(b)
		if got := string(AppendLong(nil, sum)); !okA || !okB || !ok || got != c.want {
			t.Errorf("%s + %s = %s (%t %t %t), want %s", c.a, c.b, got, okA, okB, ok, c.want)
		}
	}
	huge, _ := ParseLong([]byte("1e4932"))
	endless, ok := ParseLong([]byte("-inf"))
	if !ok || string(AppendLong(nil, endless)) != "-inf" {
		t.Error("-inf is a text of a long double")
	}
	for _, pair := range [][2]Long{{huge, huge}, {endless, LongFromInt(1)}, {LongFromInt(1), endless}} {
		if sum, ok := pair[0].Add(pair[1]); ok {
			t.Errorf("%v + %v = %v", pair[0], pair[1], sum)
		}
	}
	if text := AppendLong(nil, huge); len(text) != 4933 {
		t.Errorf("1e4932 has %d digits", len(text))
	}
	for _, bad := range []string{"", "x", "1e4933", "1e-5000", "1e99999999999999999999", "nan", " 1",
		strings.Repeat("1", longMaxText)} {
		if l, ok := ParseLong([]byte(bad)); ok {
			t.Errorf("%.20q is %v", bad, l)
		}
	}
}

// exact returns l without rounding.
// TestLongOrder compares Less and Negated with the order of a sorted list.
func TestLongOrder(t *testing.T) {
	texts := []string{"-1e400", "-3.5", "-3", "-0.5", "0", "1e-300", "0.5", "0.75", "1", "3", "3.5", "1e400"}
	var list []Long
	for _, text := range texts {
		l, ok := ParseLong([]byte(text))
		if !ok {
			t.Fatal(text)
		}
		list = append(list, l)
	}
	for i, a := range list {
		for j, b := range list {
			if a.Less(b) != (i < j) || b.Negated().Less(a.Negated()) != (i < j) {
				t.Errorf("%s and %s: Less is %t, %t negated", texts[i], texts[j], a.Less(b), b.Negated().Less(a.Negated()))
			}
		}
	}
	if zero := (Long{}).Negated(); zero != (Long{}) {
		t.Errorf("0 negated is %+v", zero)
	}
}

func exact(l Long) *big.Rat {
	r := new(big.Rat).SetInt(new(big.Int).SetUint64(l.mant))
	two := new(big.Int).Lsh(big.NewInt(1), uint(max(l.exp, -l.exp)))
	if l.exp >= 0 {
		r.Mul(r, new(big.Rat).SetInt(two))
	} else {
		r.Quo(r, new(big.Rat).SetInt(two))
	}
	if l.neg {
		r.Neg(r)
	}
	return r
}

// TestLongAgainstBig: parsing, adding and printing round like arbitrary precision that is rounded once.
func TestLongAgainstBig(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	round := func(r *big.Rat) Long {
		l := fromBig(new(big.Float).SetPrec(64).SetRat(new(big.Rat).Abs(r)))
		l.neg = r.Sign() < 0
		return l
	}
	text := func() string {
		s := strconv.FormatInt(int64(rng.Uint64())>>rng.IntN(64), 10) + "." +
			strconv.FormatUint(rng.Uint64()>>rng.IntN(64), 10)
		if rng.IntN(3) == 0 {
			s += "e" + strconv.Itoa(rng.IntN(80)-40)
		}
		return s
	}
	for range 20_000 {
		sa, sb := text(), text()
		a, _ := ParseLong([]byte(sa))
		b, _ := ParseLong([]byte(sb))
		want, _ := new(big.Rat).SetString(sa)
		if a != round(want) {
			t.Fatalf("%s: %v, want %v", sa, a, round(want))
		}
		sum, ok := a.Add(b)
		if want := round(new(big.Rat).Add(exact(a), exact(b))); !ok || sum != want {
			t.Fatalf("%s + %s: %v, want %v", sa, sb, sum, want)
		}
		// FloatString rounds halves away from zero, not to even: TestLong covers a tie in the 18th digit.
		printed := exact(sum).FloatString(longDecimals)
		printed = strings.TrimSuffix(strings.TrimRight(printed, "0"), ".")
		if printed == "-0" {
			printed = "0"
		}
		if got := string(AppendLong(nil, sum)); got != printed {
			twice := exact(sum)
			twice.Mul(twice, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(17), nil)))
			if twice.Mul(twice, big.NewRat(2, 1)); !twice.IsInt() {
				t.Fatalf("%v: %s, want %s", sum, got, printed)
			}
		}
	}
}

// FuzzNumbers: printed numbers read back the same, and both readers accept the same texts.
func FuzzNumbers(f *testing.F) {
	f.Add("1.5e3", 0.1, int64(-5))
	f.Add("0x1p-3", 5e-324, int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, text string, double float64, integer int64) {
		if double == double {
			printed := AppendDouble(nil, double)
			if back, ok := ParseDouble(printed); !ok || back != double && len(printed) < 23 {
				t.Errorf("%v printed as %s is read as %v", double, printed, back)
			}
		}
		if back, ok := ParseInt(AppendInt(nil, integer)); !ok || back != integer {
			t.Errorf("%d is read as %d", integer, back)
		}
		if n, ok := ParseInt([]byte(text)); ok && string(AppendInt(nil, n)) != text {
			t.Errorf("%q is not the text of %d", text, n)
		}
		d, okD := ParseDouble([]byte(text))
		l, okL := ParseLong([]byte(text))
		switch {
		case okD && !okL && len(text) < longMaxText:
			t.Errorf("%q is a double, %v, but no long double", text, d)
		case okD && !l.inf && math.Abs(d) < 1e300 && math.Abs(d) > 1e-300 && math.Abs(l.Float64()-d) > math.Abs(d)*1e-15:
			t.Errorf("%q is %v and %v", text, d, l.Float64())
		}
		if okL && !l.inf {
			printed := AppendLong(nil, l)
			if back, ok := ParseLong(printed); !ok || back.mant == 0 && l.mant != 0 && l.top() > -50 {
				t.Errorf("%q printed as %s is read as %v", text, printed, back)
			}
			if sum, ok := l.Add(l); ok && sum.mant != 0 && (sum.exp != l.exp+1 || sum.mant != l.mant) {
				t.Errorf("%q doubled is %v", text, sum)
			}
		}
	})
}

// BenchmarkNumbers: watch allocs/op: 0.
func BenchmarkNumbers(b *testing.B) {
	var buf [64]byte
	for name, run := range map[string]func(){
		"AppendInt":    func() { AppendInt(buf[:0], 1234567890123) },
		"ParseInt":     func() { ParseInt([]byte("1234567890123")) },
		"AppendDouble": func() { AppendDouble(buf[:0], 1234.5678) },
		"ParseDouble":  func() { ParseDouble([]byte("1234.5678")) },
		"ParseLong":    func() { ParseLong([]byte("1234.5678")) },
		"Add":          func() { Long{mant: 1 << 63, exp: -63}.Add(Long{mant: 3 << 62, exp: -66}) },
		"AppendLong":   func() { AppendLong(buf[:0], Long{mant: 0xcccccccccccccccd, exp: -67}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

func TestPut8(t *testing.T) {
	check := func(n uint64) {
		dst := [9]byte{8: '!'}
		if got := string(dst[:Put8((*[8]byte)(dst[:]), n)]); got != strconv.FormatUint(n, 10) || dst[8] != '!' {
			t.Fatalf("%d: %q, then %q", n, got, dst[8:])
		}
	}
	for n := range uint64(20_000) {
		check(n)
	}
	for n := uint64(0); n < 1e8; n += 997 {
		check(n)
	}
	for power := uint64(10); power < 1e8; power *= 10 {
		check(power - 1)
		check(power)
		check(power * 10 / 2)
	}
	check(1e8 - 1)
}
