package lua

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDumpAgainstLua: string.dump returns the same bytes as Lua 5.1.
func TestDumpAgainstLua(t *testing.T) {
	interpreter, err := exec.LookPath("lua5.1")
	if err != nil {
		t.Skip("lua5.1 is not installed: make deps installs it")
	}
	long := "return {" + strings.Repeat("1, ", 60) + "f()}"
	for i, source := range []string{
		"return 1",
		"return nil, true, false, 'a\\0b', 1e300, -0.5, ''",
		"local a, b = ...\nlocal function f(x, ...)\n  a = a + x\n  return function() return a, b, x end\nend\nreturn f",
		"for i = 1, 10, 2 do for k, v in pairs(t) do if k == i and not v then break end end end",
		"local t = {a = 1, 'x', [2] = {}}\nt.b, t[1] = t:m(#t .. 'x'), -t.a ^ 2 % 3 / 4\nrepeat local u = t until u",
		"function g(...) local n = select('#', ...) return n > 0 and arg or g(n) end while g do g = g() end",
		long,
	} {
		const program = "return string.dump(loadstring(%q, '@name'))"
		mine := runScript("=dump", fmt.Sprintf(program, source), func() int { return 1 << 20 })
		if mine.status != Done {
			t.Fatalf("%s: %v", source, mine.state.Err())
		}
		file := filepath.Join(t.TempDir(), "p.lua")
		text := fmt.Sprintf("io.write(string.dump(assert(loadstring(%q, '@name'))))", source)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		theirs, err := exec.Command(interpreter, file).Output()
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if got := mine.state.Results()[0].Str(); got != string(theirs) {
			t.Errorf("program %d, %q:\nours   %q\ntheirs %q", i, source, got, theirs)
		}
	}
}

// TestDumpRefuses: Go functions cannot be dumped, and no chunk is loaded.
func TestDumpRefuses(t *testing.T) {
	r := runScript("=x", `print(pcall(string.dump, pcall)) print(loadstring(string.dump(function() end), "=c"))`,
		func() int { return 1 << 20 })
	const want = "false\tunable to dump given function\nnil\tc:1: unexpected symbol near 'char(27)'\n"
	if got := r.out.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
