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
	"sync"
	"testing"
	"time"
)

// These tests compare with Debian's lua5.1. Both sides run the same driver. It runs programs one by one and prints the
// output, the end and the error of each. One process of lua5.1 runs a batch of programs.

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
	setfenv(0, env) setfenv(1, G) -- a program may have changed both
	local f, err = loadstring(src, "=x")
	if not f then return emit("syntax: " .. err .. "\n") end
	setfenv(f, env)
	show(pcall(f))
end
`

const oracleTail = `
local emitted = 0
local function emit(s) emitted = emitted + #s if emitted < 20000 then io.write(s) end end
local function tooLong() os.exit(1) end -- before the mark of the next program: the one that runs is too long
for i = 1, #PROGRAMS do
	emitted = 0
	io.write("\1PROGRAM ", BEFORE + i, "\n") io.flush()
	debug.sethook(tooLong, "", 100000)
	DRIVE(PROGRAMS[i], emit)
end
`

func init() { hashEveryByte = false }

var address = regexp.MustCompile(`(table|function|userdata|thread): (0x[0-9a-f]+|builtin: [0-9a-f]+)`)

var mainChunk = regexp.MustCompile(`stdin:[0-9]+: `)

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

// fuel is the budget of a program in this machine. lua5.1 has a limit of instructions.
const fuel = 3_000_000

// oracle runs programs in lua5.1 and returns the output of each, or tooLong if it was stopped.
func oracle(t testing.TB, programs []string) []string {
	t.Helper()
	results := make([]string, len(programs))
	for first := 1; first <= len(programs); {
		var text strings.Builder
		text.WriteString(driver + "PROGRAMS = {\n")
		for _, p := range programs[first-1:] {
			text.WriteString(luaQuote(p) + ",\n")
		}
		fmt.Fprintf(&text, "}\nBEFORE = %d%s", first-1, oracleTail)
		limit, cancel := context.WithTimeout(context.Background(), time.Minute)
		cmd := exec.CommandContext(limit, "sh", "-c", "ulimit -v 2000000; ulimit -t 2; exec lua5.1 -")
		cmd.Stdin = strings.NewReader(text.String())
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
				continue // a program printed the mark
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

var compiledDriver = sync.OnceValue(func() *Proto {
	p, err := Compile("=stdin", []byte(driver))
	if err != nil {
		panic(err)
	}
	return p
})

// ours runs one program in the machine under the same driver. budget is as in runScript.
func ours(program string, budget func() int) string { return oursFrom(program, budget, 0) }

// oursFrom is ours, with other numbers in place of addresses.
func oursFrom(program string, budget func() int, ids uint32) string {
	s := NewState()
	s.renumber(ids)
	s.level = 2
	s.SetMemoryLimit(400 << 20)
	var out strings.Builder
	s.Start(s.Load(compiledDriver(), nil))
	s.Run(1 << 40)
	emit := s.NewFunction("emit", func(c *Call) Outcome {
		if out.Len() < 20000 {
			out.WriteString(c.CheckString(1).Str())
		}
		return 0
	})
	s.Start(s.Globals.Get(s.String("DRIVE")), s.String(program), emit)
	for spent := 0; spent < fuel; {
		n := budget()
		switch s.Run(n) {
		case Done:
			return out.String()
		case Failed:
			return "FAILED: " + s.ToString(s.Err()).Str()
		}
		spent += max(n, 1)
	}
	return tooLong
}

// renumber gives other numbers to the functions of the libraries and to later objects.
func (s *State) renumber(by uint32) {
	s.ids += by
	add := func(v Value) {
		if v.n == bitsFunction {
			v.function().id += by
		}
	}
	for _, v, next, ok := s.Globals.Next(0); ok; _, v, next, ok = s.Globals.Next(next) {
		add(v)
		if library := v.Table(); library != nil && library != s.Globals {
			for _, v, next, ok := library.Next(0); ok; _, v, next, ok = library.Next(next) {
				add(v)
			}
		}
	}
}

// normalise removes addresses, and the position of the oracle's main chunk, which only a high error level reaches.
func normalise(s string) string {
	return mainChunk.ReplaceAllString(address.ReplaceAllString(s, "$1: ADDRESS"), "")
}

// anyNaN is normalise without the signs of NaNs.
func anyNaN(s string) string { return strings.ReplaceAll(normalise(s), "-nan", "nan") }

func needOracle(t testing.TB) {
	if _, err := exec.LookPath("lua5.1"); err != nil {
		t.Skip("lua5.1 is not installed: make deps installs it")
	}
}

func slices() int { return 1 << 20 }

// compareAll reports the programs on which the machine and lua5.1 differ.
func compareAll(t *testing.T, programs []string, budget func() int) {
	t.Helper()
	var c comparison
	for rest := programs; len(rest) > 0; {
		n := min(len(rest), batchSize)
		c.compare(t, rest[:n], budget)
		rest = rest[n:]
	}
	c.report(t)
}

// batchSize is the number of programs that one process of lua5.1 runs.
const batchSize = 250

// compareMany compares SPINDLE_LUA_PROGRAMS programs, or a few. It does so in batches, because all programs do not fit
// into memory.
func compareMany(t *testing.T, next func() string) {
	t.Helper()
	var c comparison
	for rest := programCount(); rest > 0 && c.failures < 5; {
		programs := make([]string, min(rest, batchSize))
		for i := range programs {
			programs[i] = next()
		}
		c.compare(t, programs, slices)
		rest -= len(programs)
		if c.programs%100_000 == 0 {
			t.Logf("%d programs so far", c.programs)
		}
	}
	c.report(t)
}

// A comparison counts the compared programs.
type comparison struct {
	programs, skipped, failures int
}

func (c *comparison) report(t *testing.T) {
	t.Helper()
	t.Logf("%d programs, %d of them too long to compare", c.programs, c.skipped)
	if c.failures > 0 {
		t.Errorf("%d of %d programs differ", c.failures, c.programs)
	}
}

// compare runs one batch on both sides. It does not run programs here that lua5.1 has stopped, because they take most
// of the time.
func (c *comparison) compare(t *testing.T, programs []string, budget func() int) {
	t.Helper()
	want := oracle(t, programs)
	c.programs += len(programs)
	for i, p := range programs {
		if want[i] == tooLong || len(want[i]) >= 19000 {
			c.skipped++
			continue
		}
		got := ours(p, budget)
		if got == tooLong {
			c.skipped++
			continue
		}
		if normalise(got) == normalise(want[i]) {
			continue
		}
		if anyNaN(got) == anyNaN(want[i]) {
			continue // an operation on two NaNs may return either
		}
		if byAddress(p, budget, normalise(got)) {
			c.skipped++
			continue
		}
		if c.failures++; c.failures <= 5 {
			t.Errorf("program %d:\n%s\n--- first difference\n%s", c.programs-len(programs)+i, p, firstDifference(got, want[i]))
		}
	}
}

// byAddress reports whether a program's output depends on addresses, such as the order of functions as keys.
func byAddress(program string, budget func() int, got string) bool {
	for _, ids := range []uint32{1 << 30, 12345, 3<<20 + 7, 5<<25 + 3} {
		if normalise(oursFrom(program, budget, ids)) != got {
			return true
		}
	}
	return false
}

// firstDifference returns the first line in which two outputs differ.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		line := func(of []string) string {
			if i < len(of) {
				return of[i]
			}
			return "(nothing)"
		}
		if normalise(line(a)) != normalise(line(b)) {
			return fmt.Sprintf("line %d\nours   %q\nlua5.1 %q\n", i+1, line(a), line(b))
		}
	}
	return ""
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
	compareMany(t, func() string {
		if rng.IntN(2) == 0 {
			return mutate(rng, []string{generate(rng), base[rng.IntN(len(base))]})
		}
		return mutate(rng, base)
	})
}

// TestGeneratedAgainstLua makes programs from a grammar.
func TestGeneratedAgainstLua(t *testing.T) {
	needOracle(t)
	rng := rand.New(rand.NewPCG(seedOf(t), 2))
	compareMany(t, func() string { return generate(rng) })
}

// programCount returns SPINDLE_LUA_PROGRAMS, or a small number.
func programCount() int {
	if n, err := strconv.Atoi(os.Getenv("SPINDLE_LUA_PROGRAMS")); err == nil {
		return n
	}
	return 300
}

// seedOf returns SPINDLE_LUA_SEED or a new seed. It prints the seed, so that a failure can be repeated.
func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64()
	if v, err := strconv.ParseUint(os.Getenv("SPINDLE_LUA_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("SPINDLE_LUA_SEED=%d", seed)
	return seed
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
