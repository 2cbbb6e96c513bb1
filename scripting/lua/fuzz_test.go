package lua

import (
	"strings"
	"testing"
)

// fuzzCall runs an expression of the strings a, b and c as a whole and in small slices. Both runs must end in the same
// way.
func fuzzCall(f *testing.F, expression string, seeds ...[3]string) {
	for _, seed := range seeds {
		f.Add(seed[0], seed[1], seed[2])
	}
	p, err := Compile("=x", []byte("local a, b, c = ... return pcall(function() return "+expression+" end)"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		run := func(slice int) (string, bool) {
			s := NewState()
			s.SetMemoryLimit(64 << 20)
			s.Start(s.Load(p, nil), s.String(a), s.String(b), s.String(c))
			for spent := 0; spent < 1_000_000; spent += slice {
				switch s.Run(slice) {
				case Done:
					var all []string
					for _, r := range s.Results() {
						all = append(all, s.ToString(r).Str())
					}
					return strings.Join(all, "\x00"), true
				case Failed:
					if text := s.ToString(s.Err()).Str(); text != "not enough memory" {
						t.Fatalf("pcall let %q through", text)
					}
					return "", false
				}
			}
			return "", false // too long
		}
		whole, ended := run(900_000)
		if !ended {
			return
		}
		if sliced, ended := run(50); ended && sliced != whole {
			t.Errorf("in slices %q, whole %q", sliced, whole)
		}
	})
}

// FuzzFormat: any format and arguments give a text or an error.
func FuzzFormat(f *testing.F) {
	fuzzCall(f, "string.format(a, b, tonumber(b), tonumber(c), c)", [3]string{"%s %5.2f %-08d|%q", "12.75", "0x1F"},
		[3]string{"%q%c%i%%", "7", "x"}, [3]string{"%s%x%.20g", "-1", "1e300"}, [3]string{"%99.99f", "1e308", ""})
}

// FuzzPattern: any pattern, subject and replacement give a result or an error, and every search can pause.
func FuzzPattern(f *testing.F) {
	fuzzCall(f, `string.find(a, b), string.match(a, b, -3), string.gsub(a, b, c), (function()
		local n = 0 for x, y in string.gmatch(a, b) do n = n + 1 if n > 50 then break end end return n end)()`,
		[3]string{"hello world", "(%w+) (%w+)", "%2 %1"}, [3]string{"a(b(c)d)e", "%b()", "<%0>"},
		[3]string{"THE (quick) fox", "%f[%a]%a+%f[%A]", "%%"},
		[3]string{"aaaaaaaaaaaaaaaa", ".-.-.-b", ""}, [3]string{"x=1, y=2", "(%w)=([^,]*)", "%1"},
		[3]string{"abab", "(a)(b)%1%2$", "()"}, [3]string{"]-^", "[]%-^-z]+", "%9"})
}
