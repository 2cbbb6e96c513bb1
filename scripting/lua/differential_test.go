package lua

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The oracle is Debian's lua5.1. Both sides run the same driver, which runs programs one by one and prints what each
// printed, how it ended and with which error. A batch of programs is one process of the oracle.

const driver = `
local G, loadstring, setfenv, pcall, tostring, type, select, concat = _G, loadstring, setfenv, pcall, tostring, type, select,
	table.concat
local function copy(t)
	local r = {}
	for k, v in pairs(t) do r[k] = v end
	return r
end
local names = {"assert", "error", "getmetatable", "setmetatable", "ipairs", "next", "pairs", "pcall", "xpcall", "rawequal",
	"rawget", "rawset", "select", "tonumber", "tostring", "type", "unpack", "loadstring", "load", "setfenv", "getfenv", "_VERSION"}
function DRIVE(src, emit)
	local env = {}
	for i = 1, #names do env[names[i]] = G[names[i]] end
	env._G = env
	env.string, env.table, env.math, env.coroutine = copy(string), copy(table), copy(math), copy(coroutine)
	env.math.random, env.math.randomseed = nil, nil
	local function show(...)
		for i = 1, select("#", ...) do
			local v = select(i, ...)
			local ok, text = pcall(tostring, v)
			emit((i > 1 and "\t" or "") .. (type(text) == "string" and text or "<" .. type(text) .. ">"))
		end
		emit("\n")
	end
	env.print = show
	local f, err = loadstring(src, "=x")
	if not f then return emit("syntax: " .. err .. "\n") end
	setfenv(f, env)
	show(pcall(f))
end
`

const oracleTail = `
local emitted = 0
local function emit(s) emitted = emitted + #s if emitted < 20000 then io.write(s) end end
for i = FIRST, #PROGRAMS do
	emitted = 0
	io.write("\1PROGRAM ", i, "\n") io.flush()
	DRIVE(PROGRAMS[i], emit)
end
`

func init() { hashEveryByte = false }

var address = regexp.MustCompile(`(table|function|userdata|thread): (0x[0-9a-f]+|builtin: [0-9a-f]+)`)

var mainChunk = regexp.MustCompile(`[^ \t\n]*batch\.lua:[0-9]+: `)

func luaQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= ' ' && c < 127 && c != '"' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "\\%03d", c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

const tooLong = "\x00too long"

// oracle runs programs in lua5.1 and returns what each showed; tooLong for one that had to be ended.
func oracle(t testing.TB, programs []string) []string {
	t.Helper()
	results := make([]string, len(programs))
	var text strings.Builder
	text.WriteString(driver + "PROGRAMS = {\n")
	for _, p := range programs {
		text.WriteString(luaQuote(p) + ",\n")
	}
	text.WriteString("}\n")
	path := filepath.Join(t.TempDir(), "batch.lua")
	for first := 1; first <= len(programs); {
		source := text.String() + "FIRST = " + strconv.Itoa(first) + oracleTail
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		limit, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		cmd := exec.CommandContext(limit, "sh", "-c", "ulimit -v 2000000; exec lua5.1 "+path)
		var out bytes.Buffer
		cmd.Stdout = &out
		err := cmd.Run()
		cancel()
		parts := strings.Split(out.String(), "\x01PROGRAM ")
		last := first - 1
		for _, part := range parts[1:] {
			number, body, _ := strings.Cut(part, "\n")
			i, _ := strconv.Atoi(number)
			if i < 1 || i > len(programs) {
				continue // a program printed our mark
			}
			results[i-1] = body
			last = i
		}
		if err == nil {
			return results
		}
		if last < first {
			t.Fatalf("lua5.1 does not run: %v", err)
		}
		results[last-1] = tooLong
		first = last + 1
	}
	return results
}

// ours runs one program in the machine under the same driver; budget as for runScript.
func ours(program string, budget func() int) string { return oursFrom(program, budget, 0) }

// oursFrom does so with other numbers in place of addresses.
func oursFrom(program string, budget func() int, ids uint32) string {
	s := NewState()
	s.ids += ids
	s.level = 2
	s.SetMemoryLimit(400 << 20)
	var out strings.Builder
	p, err := Compile("=driver", []byte(driver))
	if err != nil {
		return err.Error()
	}
	s.Start(s.Load(p, nil))
	s.Run(1 << 40)
	emit := s.NewFunction("emit", func(c *Call) Outcome {
		if out.Len() < 20000 {
			out.WriteString(c.CheckString(1).Str())
		}
		return 0
	})
	s.Start(s.Globals.Get(s.String("DRIVE")), s.String(program), emit)
	deadline := time.Now().Add(2 * time.Second)
	for {
		switch s.Run(budget()) {
		case Done:
			return out.String()
		case Failed:
			return "FAILED: " + s.ToString(s.Err()).Str()
		}
		if time.Now().After(deadline) {
			return tooLong
		}
	}
}

// normalise takes out addresses, and the position of the oracle's own main chunk, which only a high error level
// reaches.
func normalise(s string) string {
	return mainChunk.ReplaceAllString(address.ReplaceAllString(s, "$1: ADDRESS"), "")
}

func needOracle(t testing.TB) {
	if _, err := exec.LookPath("lua5.1"); err != nil {
		t.Skip("lua5.1 is not installed")
	}
}

func slices() int { return 1 << 22 }

// compareAll reports the programs on which the machine and lua5.1 differ.
func compareAll(t *testing.T, programs []string, budget func() int) {
	t.Helper()
	var want []string
	for rest := programs; len(rest) > 0; {
		n := min(len(rest), 500)
		want = append(want, oracle(t, rest[:n])...)
		rest = rest[n:]
	}
	failures, skipped := 0, 0
	for i, p := range programs {
		if want[i] == tooLong || len(want[i]) >= 19000 {
			skipped++
			continue
		}
		got := ours(p, budget)
		if got == tooLong {
			skipped++
			continue
		}
		if normalise(got) != normalise(want[i]) {
			if normalise(oursFrom(p, budget, 1<<30)) != normalise(got) {
				skipped++ // what it prints depends on addresses
				continue
			}
			if failures++; failures <= 5 {
				t.Errorf("program %d:\n%s\n--- ours\n%s--- lua5.1\n%s", i, p, got, want[i])
			}
		}
	}
	t.Logf("%d programs, %d of them too long to compare", len(programs), skipped)
	if failures > 0 {
		t.Errorf("%d of %d programs differ", failures, len(programs))
	}
}

func corpus(t testing.TB) []string {
	files, err := filepath.Glob("testdata/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal("no corpus", err)
	}
	var programs []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range strings.Split(string(text), "\n----\n") {
			programs = append(programs, p)
		}
	}
	return programs
}

func TestCorpusAgainstLua(t *testing.T) {
	needOracle(t)
	compareAll(t, corpus(t), slices)
}

// TestMutationsAgainstLua changes programs of the corpus at random.
func TestMutationsAgainstLua(t *testing.T) {
	needOracle(t)
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	base := corpus(t)
	compareAll(t, batch(t, func() string { return mutate(rng, base) }), slices)
}

// TestGeneratedAgainstLua makes programs from a grammar.
func TestGeneratedAgainstLua(t *testing.T) {
	needOracle(t)
	rng := rand.New(rand.NewPCG(seedOf(t), 2))
	compareAll(t, batch(t, func() string { return generate(rng) }), slices)
}

// batch makes SPINDLE_LUA_PROGRAMS programs, or a few.
func batch(t *testing.T, make func() string) []string {
	n := 300
	if v, err := strconv.Atoi(os.Getenv("SPINDLE_LUA_PROGRAMS")); err == nil {
		n = v
	}
	programs := []string{}
	for range n {
		programs = append(programs, make())
	}
	return programs
}

// seedOf is SPINDLE_LUA_SEED or a new one, printed for a failure to be repeated.
func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64()
	if v, err := strconv.ParseUint(os.Getenv("SPINDLE_LUA_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("SPINDLE_LUA_SEED=%d", seed)
	return seed
}

// TestPausesChangeNothing runs every program whole, and with random small budgets: the same comes out.
func TestPausesChangeNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedOf(t), 3))
	programs := append(append(corpus(t), limitPrograms()...), batch(t, func() string { return generate(rng) })...)
	programs = programs[:min(len(programs), 2000)]
	for i, p := range programs {
		want := ours(p, slices)
		if want == tooLong {
			continue
		}
		got := ours(p, func() int { return rng.IntN(60) })
		if got == tooLong {
			continue
		}
		if normalise(got) != normalise(want) {
			t.Errorf("program %d:\n%s\n--- paused\n%s--- whole\n%s", i, p, got, want)
		}
	}
}

var tokens = regexp.MustCompile(`"[^"\n]*"|[A-Za-z_][A-Za-z_0-9]*|[0-9.]+|[=~<>]=|\.\.\.?|\s+|.`)

var spareTokens = strings.Fields(`nil true false 0 1 -1 2 3.5 1e308 "" "a" "10" "0x10" {} t x f print ( ) [ ] = == ~= < <= > >= + - *
	/ % ^ # .. ... and or not if then else end do while for in repeat until function local return break ; , : . self
	setmetatable pcall error tostring string.format coroutine.yield unpack select`)

// mutate changes a program token by token: a few are dropped, doubled, exchanged or taken from elsewhere.
func mutate(rng *rand.Rand, base []string) string {
	parts := tokens.FindAllString(base[rng.IntN(len(base))], -1)
	other := tokens.FindAllString(base[rng.IntN(len(base))], -1)
	if len(parts) == 0 || len(other) == 0 {
		return ""
	}
	for range 1 + rng.IntN(3) {
		i := rng.IntN(len(parts))
		switch rng.IntN(6) {
		case 0:
			parts[i] = ""
		case 1:
			parts[i] += " " + parts[i]
		case 2:
			j := rng.IntN(len(parts))
			parts[i], parts[j] = parts[j], parts[i]
		case 3:
			parts[i] = other[rng.IntN(len(other))]
		default:
			parts[i] = " " + spareTokens[rng.IntN(len(spareTokens))] + " "
		}
	}
	return strings.Join(parts, "")
}
