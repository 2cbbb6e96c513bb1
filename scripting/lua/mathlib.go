package lua

import (
	"math"
	"math/rand/v2"
	"syscall"
)

func (s *State) openMath() {
	t := newTable(s, 0, 32)
	one := func(name string, f func(float64) float64) {
		s.Register(t, name, func(c *Call) Outcome {
			x := c.CheckNumber(1)
			if x != x {
				return c.Return1(Number(x))
			}
			return c.Return1(Number(f(x)))
		})
	}
	s.Register(t, "abs", func(c *Call) Outcome { return c.Return1(Number(math.Abs(c.CheckNumber(1)))) })
	one("acos", func(x float64) float64 { return math.Atan2(math.Sqrt((1-x)*(1+x)), x) })
	one("asin", func(x float64) float64 { return math.Atan2(x, math.Sqrt((1-x)*(1+x))) })
	one("atan", math.Atan)
	one("ceil", math.Ceil)
	one("cos", invalid(math.Cos))
	one("cosh", hyperbolicCosine)
	one("deg", func(x float64) float64 { return x / radian })
	one("exp", exponential)
	one("floor", math.Floor)
	one("log", invalid(logarithm))
	one("log10", logarithm10)
	one("rad", func(x float64) float64 { return x * radian })
	one("sin", invalid(math.Sin))
	one("sinh", hyperbolicSine)
	one("sqrt", math.Sqrt)
	one("tan", invalid(math.Tan))
	one("tanh", hyperbolicTangent)
	two := func(name string, f func(x, y float64) float64) {
		s.Register(t, name, func(c *Call) Outcome {
			y := c.CheckNumber(2) // in the order of the compiled C
			x := c.CheckNumber(1)
			return c.Return1(Number(f(x, y)))
		})
	}
	two("atan2", func(x, y float64) float64 {
		switch {
		case x != x:
			return x
		case y != y:
			return y
		}
		return math.Atan2(x, y)
	})
	two("fmod", func(x, y float64) float64 {
		switch {
		case x != x:
			return x
		case y != y:
			return y
		case y == 0 || math.IsInf(x, 0):
			return invalidResult
		}
		return math.Mod(x, y)
	})
	two("pow", power)
	s.Register(t, "frexp", mathFrexp)
	s.Register(t, "ldexp", mathLdexp)
	s.Register(t, "max", mathMax)
	s.Register(t, "min", mathMin)
	s.Register(t, "modf", mathModf)
	s.Register(t, "random", mathRandom)
	s.Register(t, "randomseed", mathRandomSeed)
	t.SetName("mod", t.Get(Intern("fmod")))
	t.SetName("pi", Number(math.Pi))
	t.SetName("huge", Number(math.Inf(1)))
	s.Globals.SetName("math", t.Value())

	source := rand.New(rand.NewPCG(0, 0))
	s.Random = source.Float64
	s.Seed = func(seed int32) { s.Random = rand.New(rand.NewPCG(uint64(seed), 0)).Float64 }
	s.Clock = processorSeconds
	os := newTable(s, 0, 1)
	s.Register(os, "clock", func(c *Call) Outcome { return c.Return1(Number(c.state.Clock())) })
	s.Globals.SetName("os", os.Value())
}

// processorSeconds returns the CPU time of the process.
func processorSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// invalidResult is the processor's NaN for an invalid operation. It prints as -nan.
var invalidResult = math.Float64frombits(0xFFF8 << 48)

// invalid makes f return invalidResult where f has no result, as in the C library.
func invalid(f func(float64) float64) func(float64) float64 {
	return func(x float64) float64 {
		if y := f(x); y == y {
			return y
		}
		return invalidResult
	}
}

const radian = math.Pi / 180

func mathFrexp(c *Call) Outcome {
	x := c.CheckNumber(1)
	f, e := math.Frexp(x)
	return c.Return(Number(f), Number(float64(e)))
}

func mathLdexp(c *Call) Outcome {
	e := c.CheckInt(2)
	return c.Return1(Number(math.Ldexp(c.CheckNumber(1), e)))
}

func mathModf(c *Call) Outcome {
	x := c.CheckNumber(1)
	if math.IsInf(x, 0) {
		return c.Return(Number(x), Number(math.Copysign(0, x)))
	}
	whole := math.Trunc(x)
	return c.Return(Number(whole), Number(math.Copysign(x-whole, x)))
}

func mathMin(c *Call) Outcome {
	least := c.CheckNumber(1)
	for i := 2; i <= c.n; i++ {
		if x := c.CheckNumber(i); x < least {
			least = x
		}
	}
	return c.Return1(Number(least))
}

func mathMax(c *Call) Outcome {
	most := c.CheckNumber(1)
	for i := 2; i <= c.n; i++ {
		if x := c.CheckNumber(i); x > most {
			most = x
		}
	}
	return c.Return1(Number(most))
}

func mathRandom(c *Call) Outcome {
	r := c.state.Random()
	switch c.n {
	case 0:
		return c.Return1(Number(r))
	case 1:
		u := c.CheckInt(1)
		if u < 1 {
			c.ArgError(1, "interval is empty")
		}
		return c.Return1(Number(math.Floor(r*float64(u)) + 1))
	case 2:
		l := c.CheckInt(1)
		u := c.CheckInt(2)
		if l > u {
			c.ArgError(2, "interval is empty")
		}
		return c.Return1(Number(math.Floor(r*float64(int32(u-l+1))) + float64(l)))
	}
	c.Error("wrong number of arguments")
	return 0
}

func mathRandomSeed(c *Call) Outcome {
	c.state.Seed(int32(c.CheckInt(1)))
	return 0
}
