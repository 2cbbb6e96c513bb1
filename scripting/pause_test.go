package scripting_test

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spindle/scripting/lib"
	"spindle/scripting/lua"
)

// pieces call commands from all places in which a script can be. Each adds its results to out.
var pieces = []string{
	`out[#out+1] = select('#', pcall(function() return redis.call('incr', 'n'), redis.call('get', 'n') end))`,
	`out[#out+1] = select(2, pcall(function() redis.call('rpush', 'list', 'a') redis.call('incr', 'list') end))`,
	`out[#out+1] = string.gsub('a-b-c', '%w', function(w) redis.call('append', 'text', w) return redis.call('strlen', 'text') end)`,
	`local t = {5, 3, 9, 1, 7, 2} table.sort(t, function(a, b) redis.call('incr', 'compared') return a < b end) out[#out+1] = table.concat(t, ',')`,
	`for i, v in (function(s, i) i = i + 1 if i < 5 then return i, redis.call('incrby', 'n', i) end end), nil, 0 do out[#out+1] = v end`,
	`local t = setmetatable({}, {__index = function(_, k) return redis.call('hset', 'hash', k, #k) end}) out[#out+1] = t.field + t.other`,
	`local m = {__lt = function(a, b) return redis.call('incr', 'n') % 2 == 0 end, __concat = function(a, b) return 'c' .. redis.call('incr', 'n') end}
	local x, y = setmetatable({}, m), setmetatable({}, m) out[#out+1] = tostring(x < y) .. (x .. y) .. tostring(x > y)`,
	`local co = coroutine.wrap(function(a) for i = 1, 4 do a = coroutine.yield(redis.call('incrby', 'n', a)) end return 'end' end)
	for i = 1, 5 do out[#out+1] = co(i) end`,
	`local co = coroutine.create(function() pcall(redis.call, 'nosuch') local r = redis.pcall('lpop', 'n') error(r.err) end) out[#out+1] = select(2, coroutine.resume(co))`,
	`out[#out+1] = select(2, xpcall(function() redis.call('set', 'x') end, function(e) redis.call('incr', 'handled') return type(e) end))`,
	`local n = 0 out[#out+1] = load(function() n = n + 1 return ({'return ', "redis.call('incr', 'n')", nil})[n] end) and n`,
	`out[#out+1] = tostring(setmetatable({}, {__tostring = function() return 'T' .. redis.call('incr', 'n') end}))`,
	`table.foreach({1, 2, 3}, function(k, v) redis.call('zadd', 'z', v, k) end) out[#out+1] = redis.call('zrange', 'z', 0, -1, 'withscores')`,
	`for w in string.gmatch('one two three', '%a+') do out[#out+1] = redis.call('sadd', 'set', w) end`,
	`local d = cjson.decode(cjson.encode({1, {a = 'b'}, redis.call('incr', 'n')})) out[#out+1] = d[3] .. d[2].a`,
	`local a, b = cmsgpack.unpack(cmsgpack.pack(redis.call('incr', 'n'), 'x')) out[#out+1] = a .. b`,
	`local t = {} for i = 1, 50 do t[i] = i end for i = 1, 20 do table.insert(t, 1, table.remove(t)) end out[#out+1] = table.concat(t)`,
	`out[#out+1] = string.find(string.rep('a', 30), '.-.-b') or 'none'`,
	`local function f(n) if n == 0 then return redis.call('incr', 'deep') end return (f(n - 1)) end out[#out+1] = f(30)`,
	`local function f(n) if n == 0 then return redis.call('incr', 'tail') end return f(n - 1) end out[#out+1] = f(30)`,
	`out[#out+1] = select(2, pcall(string.gsub, 'abc', '.', function(c) if c == 'c' then error({err = 'E ' .. redis.call('incr', 'n')}) end end))`,
	`redis.setresp(3) out[#out+1] = redis.call('hgetall', 'hash').map ~= nil and 1 redis.setresp(2)`,
	`out[#out+1] = redis.sha1hex('x') .. tostring(redis.status_reply('S').ok)`,
	`local s = '' for i = 1, 40 do s = s .. i end out[#out+1] = #s`,
	`out[#out+1] = math.random(1, 1000)`,
}

// assemble returns a script of random pieces.
func assemble(rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString("local out = {}\n")
	for range 1 + rng.IntN(8) {
		b.WriteString("do " + pieces[rng.IntN(len(pieces))] + " end\n")
	}
	b.WriteString("return out")
	return b.String()
}

// state returns the data that scripts may have left.
func (s *server) state() string {
	var all []string
	for _, request := range []string{"GET n", "LRANGE list 0 -1", "GET text", "GET compared", "HGETALL hash",
		"GET handled", "ZRANGE z 0 -1", "SMEMBERS set", "GET deep", "GET tail"} {
		all = append(all, s.Do(s.client, strings.Fields(request)...))
	}
	return strings.Join(all, "")
}

func pausingServer(t *testing.T) *server {
	s := newServer(t)
	s.deps.Libraries = []func(*lua.State){lib.Open}
	return s
}

func pausesWanted(few int) int {
	if n, err := strconv.Atoi(os.Getenv("SPINDLE_SCRIPT_PAUSES")); err == nil {
		return n
	}
	return few
}

func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if v, err := strconv.ParseUint(os.Getenv("SPINDLE_SCRIPT_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("SPINDLE_SCRIPT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 4))
}

// TestPausesChangeNothing runs scripts without stops and with random stops. The replies and the data are the same.
// During a stop another client gets BUSY. SPINDLE_SCRIPT_PAUSES is the number of stops.
func TestPausesChangeNothing(t *testing.T) {
	rng := seeded(t)
	whole, stopped := pausingServer(t), pausingServer(t)
	other := stopped.Client(2)
	pauses, scripts := 0, 0
	most := 1
	stopped.scripts.SetPace(func() (int64, int) { return 1, rng.IntN(most) })
	for wanted := pausesWanted(10_000); pauses < wanted; scripts++ {
		body := assemble(rng)
		want := whole.Do(whole.client, "EVAL", body, "0")
		most = 2 + rng.IntN(150)
		stopped.lend, stopped.step = true, nil
		got := stopped.Do(stopped.client, "EVAL", body, "0")
		for over := stopped.step == nil; !over; pauses++ {
			if rng.IntN(20) == 0 {
				if reply := stopped.Do(other, "FUNCTION", "KILL"); !strings.HasPrefix(reply, "-BUSY") &&
					!strings.HasPrefix(reply, "-UNKILL") {
					t.Fatalf("FUNCTION KILL: %q", reply)
				}
			}
			got, over = stopped.goOn(1)
		}
		if got != want {
			t.Fatalf("%s\nwhole   %q\nstopped %q", body, want, got)
		}
		if scripts%50 == 0 {
			stopped.lend = false
			if a, b := whole.state(), stopped.state(); a != b {
				t.Fatalf("whole   %q\nstopped %q", a, b)
			}
			whole.Do(whole.client, "FLUSHALL")
			stopped.Do(stopped.client, "FLUSHALL")
		}
	}
	t.Logf("%d scripts, %d pauses", scripts, pauses)
}

// killedAtLine is the reply of a killed script. The line is one of the script, even if it stopped in a library
// function.
var killedAtLine = regexp.MustCompile(
	`^-ERR Script killed by user with SCRIPT KILL\.\.\. script: [0-9a-f]{40}, on @user_script:[0-9]+\.\r\n$`)

// TestKillAnywhere kills scripts at random points. A script that has not written ends at once without effects. A script
// that has written cannot be killed.
func TestKillAnywhere(t *testing.T) {
	rng := seeded(t)
	s := pausingServer(t)
	killer := s.Client(2)
	most := 1
	s.scripts.SetPace(func() (int64, int) { return 1, rng.IntN(most) })
	killed, refused, pauses := 0, 0, 0
	for wanted := pausesWanted(3_000); pauses < wanted; {
		body := assemble(rng)
		s.lend = false
		s.Do(s.client, "FLUSHALL")
		before := s.state()
		most = 2 + rng.IntN(150)
		s.lend, s.step = true, nil
		reply := s.Do(s.client, "EVAL", body, "0")
		over := s.step == nil
		for left := rng.IntN(60); !over && left > 0; left-- {
			reply, over = s.goOn(1)
			pauses++
		}
		if over {
			continue
		}
		switch answer := s.Do(killer, "SCRIPT", "KILL"); {
		case answer == "+OK\r\n":
			killed++
			if reply, over = s.goOn(1); !over || !killedAtLine.MatchString(reply) {
				t.Fatalf("%s\nafter SCRIPT KILL %q, over %t", body, reply, over)
			}
			s.lend = false
			if after := s.state(); after != before {
				t.Fatalf("%s\nkilled, yet it left %q", body, after)
			}
		case strings.HasPrefix(answer, "-UNKILLABLE Sorry"):
			refused++
			for !over {
				reply, over = s.goOn(1)
				pauses++
			}
			if strings.Contains(reply, "killed") {
				t.Fatalf("%s\nrefused, yet %q", body, reply)
			}
		default:
			t.Fatalf("SCRIPT KILL: %q", answer)
		}
		s.lend = false
		s.eval(":1\r\n", "return 1")
	}
	t.Logf("%d pauses, %d killed, %d refused", pauses, killed, refused)
}

// TestKillInLibrary kills scripts inside library functions, at many points. pcall cannot keep a script alive, and the
// reply has a line of the script.
func TestKillInLibrary(t *testing.T) {
	rng := seeded(t)
	s := pausingServer(t)
	killer := s.Client(2)
	s.scripts.SetPace(func() (int64, int) { return 1, rng.IntN(40) })
	for _, body := range []string{
		"while true do pcall(function() while true do end end) end",
		"while true do pcall(function() end) end",
		"while true do pcall(error, 'x') end",
		"while true do pcall(string.rep, 'a', 10) end",
		"local function f() return pcall(f) end while true do f() end",
		"while true do xpcall(function() error('x') end, function(e) return e end) end",
		"while true do pcall(string.gsub, 'abc', '%w', function() end) end",
		"while true do pcall(table.sort, {3, 1, 2}, function(a, b) return a < b end) end",
		"while true do coroutine.wrap(function() pcall(function() end) end)() end",
	} {
		for range 40 {
			s.lend, s.step = true, nil
			reply := s.Do(s.client, "EVAL", body, "0")
			over := s.step == nil
			for left := rng.IntN(60); !over && left > 0; left-- {
				reply, over = s.goOn(1)
			}
			if over {
				t.Fatalf("%s\nended by itself: %q", body, reply)
			}
			if answer := s.Do(killer, "SCRIPT", "KILL"); answer != "+OK\r\n" {
				t.Fatalf("SCRIPT KILL: %q", answer)
			}
			if reply, over = s.goOn(1); !over || !killedAtLine.MatchString(reply) {
				t.Fatalf("%s\nafter SCRIPT KILL %q, over %t", body, reply, over)
			}
		}
	}
}
