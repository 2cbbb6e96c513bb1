package lua

import (
	"strings"
	"sync"
	"testing"
)

func load(t testing.TB, s *State, source string) Value {
	t.Helper()
	p, err := Compile("=x", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return s.Load(p, nil)
}

func mustRun(t testing.TB, s *State, want Status) {
	t.Helper()
	if got := s.Run(1 << 40); got != want {
		t.Fatalf("Run = %d, want %d; error %q", got, want, s.ToString(s.Err()).Str())
	}
}

// everywhere has endless programs, each inside another construct.
var everywhere = map[string]string{
	"loop":         `while true do end`,
	"for":          `for i = 1, math.huge do end`,
	"recursion":    `local function f() return f() end f()`,
	"pcall":        `while true do pcall(function() while true do end end) end`,
	"xpcall":       `xpcall(function() error("x") end, function() while true do end end)`,
	"gsub":         `string.gsub(string.rep("x", 10), "x", function() while true do end end)`,
	"sort":         `table.sort({3, 2, 1}, function(a, b) while true do end end)`,
	"iterator":     `for k in function() return 1 end do end`,
	"metamethod":   `local t = setmetatable({}, {__index = function() while true do end end}) return t.x`,
	"comparison":   `local t = setmetatable({}, {__lt = function() while true do end end}) return t < t`,
	"concat":       `local t = setmetatable({}, {__concat = function() while true do end end}) return "a" .. t .. "b"`,
	"coroutine":    `coroutine.wrap(function() while true do end end)()`,
	"switching":    `local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end`,
	"tostring":     `tostring(setmetatable({}, {__tostring = function() while true do end end}))`,
	"pattern":      `string.find(string.rep("a", 5000), ".-.-.-.-b")`,
	"gmatch":       `for x in string.gmatch(string.rep("a", 5000), ".-.-.-.-b") do end`,
	"substitution": `string.gsub(string.rep("a", 5000), ".-.-.-.-b", "")`,
	"foreach":      `table.foreach({1}, function() while true do end end)`,
	"insert":       `table.insert({}, -2^31, 0)`,
	"remove":       `local t = {} for i = 1, 5000 do t[i] = i end while true do table.insert(t, table.remove(t, 1)) end`,
	"long set":     `return string.find(string.rep("a", 1e5), "[" .. string.rep("b", 1e4) .. "a]*c")`,
	"long run":     `local a = string.rep("a", 2e5) while true do string.find(a, ".*b") end`,
	"lazy set":     `return string.find(string.rep("a", 1e5), "[" .. string.rep("b", 1e4) .. "a]-c")`,
	"frontier":     `return string.find(string.rep("a", 1e5), "%f[" .. string.rep("b", 1e4) .. "]")`,
	"load":         `load(function() while true do end end)`,
	"nested":       `pcall(coroutine.wrap(function() table.sort({2, 1}, function() pcall(string.gsub, "x", "x", function() while true do end end) end) end))`,
}

func TestBudgetStopsEverything(t *testing.T) {
	for name, source := range everywhere {
		t.Run(name, func(t *testing.T) {
			s := NewState()
			s.Start(load(t, s, source))
			for range 50 {
				if got := s.Run(1000); got != Paused {
					t.Fatalf("Run = %d, want a pause", got)
				}
				if s.Budget() < -5000 {
					t.Fatalf("overdrawn by %d", -s.Budget())
				}
			}
			s.Kill(s.String("killed"))
			if got := s.Run(1000); got != Killed || s.Err().Str() != "killed" {
				t.Fatalf("Run = %d %q after Kill", got, s.Err().Str())
			}
			s.Start(load(t, s, `return 7`))
			mustRun(t, s, Done)
			if r := s.Results(); len(r) != 1 || r[0].Float() != 7 {
				t.Fatalf("a State cannot be used after Kill: %v", r)
			}
		})
	}
}

// TestLeastBudget: a finite program ends with any budget.
func TestLeastBudget(t *testing.T) {
	for _, source := range []string{`return string.find(string.rep("a", 50), ".-.-b")`,
		`local t = {3, 1, 2, 5, 4} table.sort(t) return t`,
		`return (string.gsub("a b c", "%a", "x"))`, `table.sort({3, 1, 2}, function(a, b) return a < b end)`,
		`for w in ("a b"):gmatch("%a") do end`} {
		s := NewState()
		s.Start(load(t, s, source))
		status := Paused
		for n := 0; status == Paused && n < 100_000; n++ {
			status = s.Run(0)
		}
		if status != Done {
			t.Errorf("%s: status %d", source, status)
		}
	}
}

// TestWorkIsSpent: calls whose time depends on the length of arguments spend budget for it. So few of them run between
// two readings of the clock.
func TestWorkIsSpent(t *testing.T) {
	const text, table, holes = `local a, b = string.rep("a", 1e6), string.rep("a", 1e6)`,
		`local t = {} for i = 1, 1e5 do t[i] = "" end`,
		`local t = {} for i = 1, 1e5 do t["k" .. i] = 1 end for k in pairs(t) do t[k] = nil end`
	for name, c := range map[string][2]string{
		"concat":          {table, `table.concat(t)`},
		"collect":         {table, `collectgarbage()`},
		"count":           {table, `collectgarbage("count")`},
		"gcinfo":          {table, `gcinfo()`},
		"next":            {holes, `next(t)`},
		"pairs":           {holes, `for k in pairs(t) do end`},
		"foreach":         {holes, `table.foreach(t, print)`},
		"equal":           {text, `local x = a == b`},
		"rawequal":        {text, `rawequal(a, b)`},
		"less":            {text, `local x = a < b`},
		"sort":            {text, `table.sort({a, b})`},
		"key":             {text + ` local t = {[a] = 1}`, `local x = t[b]`},
		"hash":            {text + ` local t = {[a] = 1}`, `local x = t[a .. "b"]`},
		"number":          {`local a = string.rep("1", 1e6)`, `tonumber(a)`},
		"hexadecimal":     {`local a = string.rep("1", 1e6)`, `tonumber(a, 16)`},
		"arithmetic":      {`local a = string.rep(" ", 1e6) .. "1"`, `local x = a + 1`},
		"template":        {text, `string.gsub("a", "a", a)`},
		"long pattern":    {text, `string.find("", a)`},
		"pattern's start": {text, `string.gmatch("", a)()`},
		"rehash":          {table, `t[{}] = 1`},
		"memory limit":    {table, `pcall(string.rep, "x", 1e9)`},
	} {
		s := NewState()
		s.SetMemoryLimit(64 << 20)
		s.Globals.SetName("print", s.Globals.Get(Intern("type")))
		s.Start(load(t, s, c[0]+` stop() `+strings.Repeat(c[1]+" ", 10)))
		rest := 0
		s.Register(s.Globals, "stop", func(c *Call) Outcome { rest = s.Budget(); return c.Return() })
		mustRun(t, s, Done)
		if spent := rest - s.Budget(); spent < 10*1000 {
			t.Errorf("%s: ten calls take %d of the budget", name, spent)
		}
	}
}

// TestMetamethodsArePaused: metamethods that call each other pause, although the script has no loop and no call.
func TestMetamethodsArePaused(t *testing.T) {
	s := NewState()
	s.Start(load(t, s, `local meta = {}
		meta.__index = function(t, k)
			if k > 12 then return 1 end
			local a, b = t[k + 1], t[k + 1]
			return a
		end
		return setmetatable({}, meta)[1]`))
	if status := s.Run(1000); status != Paused {
		t.Errorf("the status is %d after 4,096 calls", status)
	}
}

func TestSuspendAndWake(t *testing.T) {
	s := NewState()
	s.Register(s.Globals, "wait", func(c *Call) Outcome {
		return c.Suspend(func(c *Call) Outcome { return Outcome(len(c.Results())) })
	})
	s.Start(load(t, s, `local a, b = wait() return coroutine.wrap(function() return pcall(wait) end)(), a + b`))
	mustRun(t, s, Suspended)
	s.Wake(Number(1), Number(2))
	mustRun(t, s, Suspended)
	s.Wake(s.String("second"))
	mustRun(t, s, Done)
	if r := s.Results(); len(r) != 2 || !r[0].Truth() || r[1].Float() != 3 {
		t.Fatalf("results %v", r)
	}
}

func TestMemoryLimit(t *testing.T) {
	for name, source := range map[string]string{
		"string":    `return pcall(string.rep, "x", 1e9)`,
		"table":     `return pcall(function() local t = {} for i = 1, 1e9 do t[i] = i end end)`,
		"strings":   `return pcall(function() local t = {} for i = 1, 1e9 do t[i] = "key" .. i end end)`,
		"doubling":  `return pcall(function() local s = "x" while true do s = s .. s end end)`,
		"closures":  `return pcall(function() local f while true do local g = f f = function() return g end end end)`,
		"coroutine": `return pcall(function() local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end end)`,
		"gsub":      `return pcall(string.gsub, string.rep("x", 1e5), "x", string.rep("y", 1e5))`,
		"load": `local n = 0 return load(function() n = n + 1
			if n < 64 then return "--" .. string.rep("x", 1e6) end end)`,
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState()
			s.SetMemoryLimit(8 << 20)
			s.Start(load(t, s, source))
			mustRun(t, s, Done)
			if r := s.Results(); len(r) != 2 || r[0].Truth() || r[1].Str() != "not enough memory" {
				t.Fatalf("%d results: %v", len(r), r)
			}
		})
	}
	t.Run("an unfinished result counts", func(t *testing.T) {
		s := NewState()
		s.SetMemoryLimit(64 << 20)
		s.Start(load(t, s, `local most = 0
			string.gsub("xxxxxxxx", "x", function()
				most = math.max(most, collectgarbage("count"))
				return string.rep("y", 1e6)
			end)
			return most > 6000`))
		mustRun(t, s, Done)
		if !s.Results()[0].Truth() {
			t.Error("what gsub has built is not counted")
		}
	})
	t.Run("garbage does not count", func(t *testing.T) {
		s := NewState()
		s.SetMemoryLimit(4 << 20)
		s.Start(load(t, s, `local s for i = 1, 20000 do s = string.rep("x", 2000) local t = {i, s} end return "ok"`))
		mustRun(t, s, Done)
	})
}

func TestReadonly(t *testing.T) {
	s := NewState()
	locked := s.NewTable(0, 1)
	locked.SetName("x", Number(1))
	locked.SetReadonly(true)
	s.Globals.SetName("locked", locked.Value())
	for _, source := range []string{`locked.x = 2`, `locked.y = 2`, `locked[1] = 2`,
		`rawset(locked, "x", 2)`, `table.insert(locked, 1)`,
		`setmetatable(locked, {})`, `local k = "x" locked[k] = nil`, `setmetatable({}, {__newindex = locked}).q = 1`} {
		s.Start(load(t, s, source))
		mustRun(t, s, Failed)
		if got := s.Err().Str(); !strings.HasSuffix(got, readonlyText) {
			t.Errorf("%s: %q", source, got)
		}
	}
	s.Globals.SetReadonly(true)
	s.Start(load(t, s, `x = 1`))
	mustRun(t, s, Failed)
	if locked.Get(s.String("x")).Float() != 1 || locked.Get(s.String("y")).Type() != TypeNil {
		t.Error("a readonly table changed")
	}
}

func TestWeakTables(t *testing.T) {
	s := NewState()
	s.Start(load(t, s, `local keep = {} local w = setmetatable({}, {__mode = "k"}) w[keep] = 1 w[{}] = 2
		local v = setmetatable({}, {__mode = "v"}) v[1] = keep v[2] = {} v.x = "text"
		collectgarbage() local n = 0 for _ in pairs(w) do n = n + 1 end return n, v[1] == keep, v[2], v.x`))
	mustRun(t, s, Done)
	r := s.Results()
	if r[0].Float() != 1 || !r[1].Truth() || !r[2].IsNil() || r[3].Str() != "text" {
		t.Fatalf("results %v", r)
	}
}

// TestProtoIsShared runs one Proto in States on many goroutines, under the race detector.
func TestProtoIsShared(t *testing.T) {
	p, err := Compile("=x",
		[]byte(`local t = {} for i = 1, 100 do t["k" .. i % 7] = (t["k" .. i % 7] or 0) + i end return t.k3, ("x"):rep(3)`))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			s := NewState()
			for range 20 {
				s.Start(s.Load(p, nil))
				if s.Run(1<<40) != Done {
					t.Error(s.Err().Str())
				}
			}
		}()
	}
	group.Wait()
}

func TestSmallScriptLeavesNoGarbage(t *testing.T) {
	s := NewState()
	f := load(t, s, `local x = 1 if x == 2 then return "a" end return 5`)
	if n := testing.AllocsPerRun(100, func() {
		s.Start(f)
		s.Run(1000)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzSource: no source makes the machine panic, and pauses do not change a program's result.
func FuzzSource(f *testing.F) {
	for _, p := range corpus(f) {
		f.Add([]byte(p))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		p, err := Compile("=x", source)
		if err != nil {
			return
		}
		run := func(slice int) (string, bool) {
			s := NewState()
			s.SetMemoryLimit(16 << 20)
			s.Start(s.Load(p, nil))
			for spent := 0; spent < 200_000; spent += slice + 1 {
				if status := s.Run(slice); status != Paused {
					text := s.ToString(s.Err()).Str()
					for _, r := range s.Results()[:min(len(s.Results()), 100)] {
						text += "," + r.Type().String()
					}
					return text, strings.Contains(text, "memory")
				}
			}
			return "", true
		}
		whole, unsure := run(199_000)
		if unsure {
			return
		}
		if paused, unsure := run(97); !unsure && normalise(paused) != normalise(whole) {
			t.Errorf("paused %q, whole %q", paused, whole)
		}
	})
}

// TestLevelOfALoopAtTheBeginning: a loop whose first instruction is its own target can stop before it. Its line is
// still known.
func TestLevelOfALoopAtTheBeginning(t *testing.T) {
	s := NewState()
	p, err := Compile("=loop", []byte("while true do end"))
	if err != nil {
		t.Fatal(err)
	}
	s.Start(s.Load(p, s.Globals))
	if status := s.Run(100); status != Paused {
		t.Fatal(status)
	}
	if f, ok := s.Level(0); !ok || f.Line != 1 || f.Short != "loop" {
		t.Error(f, ok)
	}
}
