package geo

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// series returns the sine and cosine of x by their series, with far more digits than a double.
func series(x float64) (sin, cos *big.Float) {
	const bits = 300
	sin, cos = new(big.Float).SetPrec(bits), new(big.Float).SetPrec(bits)
	term, by := new(big.Float).SetPrec(bits).SetInt64(1), new(big.Float).SetPrec(bits).SetFloat64(x)
	for n := 0; n < 90; n++ {
		sum := cos
		if n%2 != 0 {
			sum = sin
		}
		if n%4 < 2 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
		term.Mul(term, by)
		term.Quo(term, new(big.Float).SetInt64(int64(n+1)))
	}
	return sin, cos
}

// TestNearest: sine, cosine and arcsine return the doubles nearest to the true values.
func TestNearest(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	wrong, n := 0, 20_000
	if testing.Short() {
		n = 2000
	}
	for i := range n {
		x := rng.Float64()
		switch i % 4 {
		case 0: // a short distance
			x *= math.Exp(-25 * rng.Float64())
		case 1:
			x *= math.Pi / 2
		case 2:
			x *= 2 * math.Pi
		case 3: // half around the world
			x = math.Pi - x*math.Exp(-25*rng.Float64())
		}
		sin, cos := series(x)
		if want, _ := sin.Float64(); sine(x) != want || sine(-x) != -want {
			t.Errorf("the sine of %v is %v, want %v", x, sine(x), want)
		}
		if want, _ := cos.Float64(); x <= gridEnd && (cosine(x) != want || cosine(-x) != want) {
			t.Errorf("the cosine of %v is %v, want %v", x, cosine(x), want)
		}
		// y is nearest to asin x if x lies between the sines of the points half way to y's neighbors.
		if s := rng.Float64() * math.Exp(-10*float64(i%4)*rng.Float64()); s > 0 {
			y := arcSine(s)
			if !between(s, y) {
				wrong++
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d arc sines are not the nearest", wrong, n)
	}
}

// between reports whether the sine reaches s within half a unit in y's last place. The slope at y is cos y.
func between(s, y float64) bool {
	sin, cos := series(y)
	off := new(big.Float).Sub(new(big.Float).SetPrec(300).SetFloat64(s), sin)
	off.Quo(off, cos)
	half := new(big.Float).SetFloat64((math.Nextafter(y, 2) - y) * 0.5000001)
	return off.Abs(off).Cmp(half) <= 0
}

func TestTrigEdges(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"sin 0", sine(0), 0},
		{"sin π", sine(math.Pi), 0x1.1a62633145c07p-53},
		{"sin -π", sine(-math.Pi), -0x1.1a62633145c07p-53},
		{"cos 0", cosine(0), 1},
		{"asin 0", arcSine(0), 0},
		{"asin 1", arcSine(1), math.Pi / 2},
		{"asin ½", arcSine(0.5), 0x1.0c152382d7366p-1},
		{"cos far away", cosine(1e300), math.Cos(1e300)},
	} {
		if c.got != c.want {
			t.Errorf("%s = %x, want %x", c.name, c.got, c.want)
		}
	}
	if y := arcSine(math.Nextafter(1, 2)); !math.IsNaN(y) {
		t.Errorf("asin beyond 1 is %v", y)
	}
	if !math.IsNaN(cosine(math.Inf(1))) {
		t.Error("the cosine of infinity is a number")
	}
	if pi, half := math.Pi, 180.0; pi/half != degree {
		t.Errorf("doubles divide π by 180 to %x", pi/half)
	}
}

// TestWithin: within agrees with distance, even when the distance hardly differs from the limit.
func TestWithin(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 100_000 {
		p, q := anywhere(rng), anywhere(rng)
		switch rng.IntN(4) {
		case 0:
			q = point{p.lon + rng.Float64()/100, p.lat}
		case 1:
			q = point{p.lon, q.lat}
		case 2:
			q = point{-p.lon, -p.lat} // nearly opposite
		}
		d := distance(p, q)
		for _, most := range []float64{d, math.Nextafter(d, 0), math.Nextafter(d, math.Inf(1)), d * (1 - 1e-9),
			d * (1 + 1e-9), d * rng.Float64() * 2, 0, math.Inf(1)} {
			want := !(d > most)
			_, in := within(p, q, most, false)
			if meters, exactly := within(p, q, most, true); in != want || exactly != want || want && meters != d && d == d {
				t.Fatalf("%v, %v: %v apart, within %v: %v, %v %v", p, q, d, most, in, exactly, meters)
			}
		}
	}
}

// BenchmarkDistance measures one member in a search: in the circle, in the circle with an exact distance, or clearly
// outside. Watch ns/op.
func BenchmarkDistance(b *testing.B) {
	center, near, far := point{13.361389, 38.115556}, point{13.5, 38.2}, point{15.087269, 38.002669}
	for _, c := range []struct {
		name  string
		to    point
		exact bool
	}{{"in", near, false}, {"exact", near, true}, {"out", far, true}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				within(center, c.to, 100_000, c.exact)
			}
		})
	}
}
