package lib

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/scripting/lua"
	"spindle/tests/testkit"
)

// These tests compare with redis-server. Both sides run the same program, which makes many calls and returns a text for
// each call.

// prelude defines the functions of programs: T makes a call and keeps its results as text.
const prelude = `
local J, M, S, B = cjson.new(), cmsgpack, struct, bit
local out = {}
local function show(v, depth)
	local t = type(v)
	if t == "number" then return string.format("%.17g", v) end
	if t == "string" then return "s" .. #v .. ":" .. v end
	if t == "userdata" then return v == J.null and "null" or "userdata" end
	if t ~= "table" then return t == "boolean" and tostring(v) or t end
	if depth > 60 then return "deep" end
	local list, sorted = {}, false
	for k, v in pairs(v) do
		sorted = sorted or type(k) == "table"
		list[#list + 1] = show(k, depth + 1) .. "=" .. show(v, depth + 1)
	end
	if sorted then table.sort(list) end
	return "{" .. table.concat(list, ",") .. "}#" .. #v
end
local function odd(v)
	if v ~= v or type(v) == "function" then return true end
	if type(v) ~= "table" then return false end
	for k, e in pairs(v) do
		if type(k) == "table" or odd(k) or odd(e) then return true end
	end
	return false
end
local function loop(k) local t = {} t[k] = t return t end
local function nest(n) local t = {} for i = 1, n do t = {t} end return t end
local function R(...)
	local n, t = select("#", ...), {}
	if n > 200 then t[1] = tostring(n) n = 5 end
	for i = 1, n do t[#t + 1] = show((select(i, ...)), 0) end
	out[#out + 1] = table.concat(t, " | ")
end
local function T(f) R(pcall(f)) end
`

const perProgram = 100

func program(g *generator) (source string, calls []string) {
	g.huge = g.chance(50)
	var b strings.Builder
	b.WriteString(prelude)
	for range perProgram {
		call := g.call()
		calls = append(calls, call)
		if f, list, ok := strings.Cut(strings.TrimPrefix(call, "return "), "("); ok && len(f) < 20 &&
			strings.HasPrefix(call, "return ") &&
			!strings.Contains(list, ":rep") && !strings.HasPrefix(list, "J.") && !strings.HasPrefix(list, "M.") && g.chance(10) {
			b.WriteString("R(pcall(" + f)
			if list != ")" {
				b.WriteString(",")
			}
			b.WriteString(list + ")\n") // called by pcall itself, so errors have neither a name nor a line
			continue
		}
		b.WriteString("T(function() " + call + " end)\n")
	}
	b.WriteString("return out")
	return b.String(), calls
}

// ours runs a program in the machine. Before that it makes this number of tables, so that the program's tables have
// other hashes.
func ours(t testing.TB, source string, tables int) []string {
	t.Helper()
	s := lua.NewState()
	for range tables {
		s.NewTable(0, 0)
	}
	Open(s)
	p, err := lua.Compile("@user_script", []byte(source))
	if err != nil {
		t.Fatalf("%v in\n%s", err, source)
	}
	s.Start(s.Load(p, nil))
	if status := s.Run(1 << 40); status != lua.Done {
		t.Fatalf("the program ended with status %d: %s", status, s.ToString(s.Err()).Str())
	}
	list := s.Results()[0].Table()
	results := make([]string, list.Len())
	for i := range results {
		results[i] = list.GetInt(i + 1).Str()
	}
	return results
}

// redisServer starts Redis on a free port and returns a connection to it.
func redisServer(t testing.TB) *respclient.Client {
	t.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"))
	if err != nil {
		t.Skip("redis-server is not installed: make deps installs it, or REDIS_SERVER names one")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	l.Close()
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir(),
		"--lua-time-limit", "60000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var c *respclient.Client
	testkit.Until(t, 20*time.Second, "redis-server answers", func() (err error) {
		c, err = respclient.Dial(address)
		return err
	})
	t.Cleanup(func() { c.Close() })
	c.SetTimeout(time.Minute)
	return c
}

// TestAgainstRedis compares random calls with redis-server. It makes SPINDLE_LIB_CALLS calls, or a few thousand.
// SPINDLE_LIB_SEED repeats a run.
func TestAgainstRedis(t *testing.T) {
	redis := redisServer(t)
	n := 5_000
	if v, err := strconv.Atoi(os.Getenv("SPINDLE_LIB_CALLS")); err == nil {
		n = v
	}
	seed := rand.Uint64()
	if v, err := strconv.ParseUint(os.Getenv("SPINDLE_LIB_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("SPINDLE_LIB_SEED=%d", seed)
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	differ, done, addresses := 0, 0, 0
	for ; done < n && differ < 20; done += perProgram {
		source, calls := program(g)
		reply, err := redis.Do("EVAL", source, "0")
		if err == nil {
			err = reply.Err()
		}
		if err != nil {
			t.Fatalf("redis-server: %v, of\n%s", err, strings.TrimPrefix(source, prelude))
		}
		if done%50_000 == 0 {
			_, _ = redis.Do("SCRIPT", "FLUSH")
		}
		want, got := reply.Strings(), ours(t, source, 0)
		if len(got) != len(want) || len(got) != len(calls) {
			t.Fatalf("%d results here, %d there, of %d calls", len(got), len(want), len(calls))
		}
		for i, call := range calls {
			if got[i] != want[i] {
				if dependsOnAddresses(t, source, i, got[i]) {
					addresses++
					continue
				}
				differ++
				t.Errorf("%s\nhere  %s\nthere %s", clip(call), clip(fmt.Sprintf("%q", got[i])), clip(fmt.Sprintf("%q", want[i])))
			}
		}
	}
	t.Logf("%d calls, %d depend on addresses, %d differ", done, addresses, differ)
}

// dependsOnAddresses reports whether the i-th result of a program changes if its tables have other hashes. If a table
// was a key, even with the value nil, the order of pairs changes.
func dependsOnAddresses(t *testing.T, source string, i int, got string) bool {
	for tables := range 32 {
		if ours(t, source, 1+tables)[i] != got {
			return true
		}
	}
	return false
}

func clip(s string) string {
	if len(s) > 600 {
		return s[:600] + "…"
	}
	return s
}
