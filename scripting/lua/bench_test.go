package lua

import "testing"

var benchmarks = []struct{ name, source string }{
	{"steps",
		`local t, s = {}, 0 for i = 1, 1000 do local k = i % 10 + 1 t[k] = (t[k] or 0) + i * 2 s = s + t[k] end return s`},
	{"arithmetic", `local s = 0 for i = 1, 1000 do s = s + i * 2 - i / 3 end return s`},
	{"fields",
		`local o = {count = 0, total = 1} for i = 1, 1000 do o.count = o.count + 1 o.total = o.total + o.count end return o.total`},
	{"calls", `local function f(a, b) return a + b end local s = 0 for i = 1, 1000 do s = f(s, i) end return s`},
	{"concatenations", `local s = "" for i = 1, 200 do s = s .. i .. "," end return #s`},
	{"library",
		`local n = 0 for i = 1, 200 do n = n + #string.format("%d:%s", i, "x") + (tonumber("12") or 0) end return n`},
	{"pairs",
		`local t = {} for i = 1, 100 do t["k" .. i] = i end local n = 0 for i = 1, 10 do for k, v in pairs(t) do n = n + v end end return n`},
	{"small", `if KEYS[1] == ARGV[1] then return 1 else return 0 end`},
}

// BenchmarkScripts runs whole scripts on one State, as a server does. Watch allocs/op: few for small and arithmetic.
func BenchmarkScripts(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			p, err := Compile("@user_script", []byte(c.source))
			if err != nil {
				b.Fatal(err)
			}
			s := NewState()
			keys, argv := s.NewTable(1, 0), s.NewTable(1, 0)
			s.Globals.SetName("KEYS", keys.Value())
			s.Globals.SetName("ARGV", argv.Value())
			keys.SetInt(1, s.String("lock"))
			argv.SetInt(1, s.String("lock"))
			f := s.Load(p, nil)
			b.ReportAllocs()
			for b.Loop() {
				s.Start(f)
				if s.Run(1<<40) != Done {
					b.Fatal(s.Err().Str())
				}
			}
		})
	}
}
