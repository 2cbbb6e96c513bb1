package lua

import (
	"strings"
	"testing"
)

// A script is one run of source in a fresh State. print writes to out as in the stand-alone interpreter.
type script struct {
	state  *State
	out    strings.Builder
	status Status
}

// runScript runs source to its end. budget is called before every Run, so a test can pause anywhere.
func runScript(name, source string, budget func() int) *script {
	r := &script{state: NewState()}
	s := r.state
	s.level = 2 // as under the stand-alone interpreter
	s.Register(s.Globals, "print", r.print)
	p, err := Compile(name, []byte(source))
	if err != nil {
		r.status = Failed
		s.errValue = s.String(err.Error())
		return r
	}
	s.Start(s.Load(p, nil))
	for {
		if r.status = s.Run(budget()); r.status != Paused {
			return r
		}
	}
}

func (r *script) print(c *Call) Outcome {
	c.Keep(1)
	return r.printFrom(c, 1)
}

func (r *script) printFrom(c *Call, i int) Outcome {
	if i > c.Len() {
		r.out.WriteByte('\n')
		return 0
	}
	if i > 1 {
		r.out.WriteByte('\t')
	}
	c.Keep(i)
	c.Push(c.State().Globals.Get(Intern("tostring")))
	c.Push(c.Arg(i))
	return c.Invoke(1, 1, func(c *Call) Outcome {
		v := c.Results()[0]
		if !v.IsString() && !v.IsNumber() {
			c.Error("'tostring' must return a string to 'print'")
		}
		r.out.WriteString(c.State().ToString(v).Str())
		c.drop()
		return r.printFrom(c, c.Kept().(int)+1)
	})
}

// result returns what a run has printed, and its error if it failed.
func (r *script) result() string {
	if r.status == Failed {
		return r.out.String() + "error: " + r.state.ToString(r.state.Err()).Str()
	}
	return r.out.String()
}

func unlimited() int { return 1 << 60 }

func TestScripts(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"print", `print(1, "a", nil, true, 1/3, 1e15, -0)`, "1\ta\tnil\ttrue\t0.33333333333333\t1e+15\t-0\n"},
		{"closure", `local function f() local n = 0 return function() n = n + 1 return n end end
			local g = f() g() print(g(), g())`, "2\t3\n"},
		{"error", `local t = nil; print(t.x)`, "error: x:1: attempt to index local 't' (a nil value)"},
		{"pcall", `print(pcall(error, {1}) , pcall(error, "m", 0))`, ""},
		{"sign of NaN", `local n, p = 0/0, -(0/0) print(n, n^1, n^3, n^-7, n^2, n^0.5, p^3, math.pow(n, 5), 2^n)`,
			"-nan\tnan\tnan\tnan\t-nan\t-nan\tnan\tnan\t-nan\n"},
		{"loop", `local s = 0 for i = 1, 10 do s = s + i end print(s)`, "55\n"},
		{"gsub", `print(("hello world"):gsub("o", {o = "0"}))`, "hell0 w0rld\t2\n"},
		{"coroutine",
			`local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) print(co(1), co(5))`,
			"2\t10\n"},
		{"sort", `local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) print(table.concat(t, ","))`, "3,2,1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runScript("=x", c.source, unlimited).result()
			if c.want != "" && got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
