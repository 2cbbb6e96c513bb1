package lib

import (
	"strings"
	"testing"

	"spindle/scripting/lua"
)

// TestWorkIsSpent: a call whose time depends on the length of its arguments spends budget for that length, even if it
// fails.
func TestWorkIsSpent(t *testing.T) {
	for _, c := range [][2]string{
		{`local f = string.rep(" ", 1e5)`, `struct.size(f)`},
		{`local f = string.rep(" ", 1e5)`, `struct.pack(f)`},
		{`local f, d = string.rep("x", 1e5), string.rep("a", 1e5)`, `struct.unpack(f, d)`},
		{`local t = {} for i = 1, 1e5 do t[i] = 1 end`, `cjson.encode(t)`},
		{`local t = {} for i = 1, 1e5 do t[i] = 1 end t[1] = type`, `pcall(cjson.encode, t)`},
		{`local t = {} for i = 1, 1e5 do t[i] = 1 end t[1e5] = type`, `pcall(cjson.encode, t)`},
		{`local s = cjson.encode({string.rep("a", 1e5)})`, `cjson.decode(s)`},
		{`local t = {} for i = 1, 1e5 do t[i] = 1 end`, `cmsgpack.pack(t)`},
		{`local s = cmsgpack.pack(string.rep("a", 1e5))`, `cmsgpack.unpack(s)`},
	} {
		s := lua.NewState()
		Open(s)
		rest := 0
		s.Register(s.Globals, "stop", func(c *lua.Call) lua.Outcome { rest = s.Budget(); return c.Return() })
		p, err := lua.Compile("=x", []byte(c[0]+` stop() `+strings.Repeat(c[1]+" ", 10)))
		if err != nil {
			t.Fatal(err)
		}
		s.Start(s.Load(p, nil))
		if s.Run(1<<40) != lua.Done {
			t.Fatal(s.ToString(s.Err()).Str())
		}
		if spent := rest - s.Budget(); spent < 10*1000 {
			t.Errorf("%s: ten calls take %d of the budget", c[1], spent)
		}
	}
}
