package scenarios

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"time"

	"spindle/bench/load"
	"spindle/bench/report"
)

// A scriptTest is one script, called with one key.
type scriptTest struct {
	name   string
	source string
	args   []string // after the key
	drains bool     // a call removes its key, so there are as many keys as calls
	limit  map[int]float64
}

// scriptPipelines are the depths at which scripts are called.
var scriptPipelines = []int{1, 16}

// short has the targets of scripts that mostly call redis.call, and long has those of the others.
var (
	short = map[int]float64{1: 0.95, 16: 0.80}
	long  = map[int]float64{1: 1, 16: 1}
)

var scriptTests = []scriptTest{
	{name: "lock release", limit: short, drains: true, args: []string{"{value:32}"}, source: `
if redis.call('GET', KEYS[1]) == ARGV[1] then
	return redis.call('DEL', KEYS[1])
end
return 0`},
	{name: "rate limiter", limit: short, args: []string{"60000", "1000000"}, source: `
local n = redis.call('INCR', KEYS[1])
if n == 1 then
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
if n > tonumber(ARGV[2]) then
	return 0
end
return 1`},
	{name: "token bucket", limit: short, args: []string{"100", "1000", "1700000000000"}, source: `
local rate, size, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local had = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(had[1]) or size, tonumber(had[2]) or now
tokens = math.min(size, tokens + math.max(0, now - at) * rate / 1000)
local granted = tokens >= 1
if granted then
	tokens = tokens - 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(size / rate * 1000))
return granted and 1 or 0`},
	{name: "loop of 1,000 steps", limit: map[int]float64{1: 2.5, 16: 2.5}, source: `
local sum = 0
for i = 1, 1000 do
	if i % 3 == 0 then
		sum = sum + i * 2
	else
		sum = sum - 1
	end
end
return sum`},
	{name: "200 concatenations", limit: long, source: `
local s = ''
for i = 1, 200 do
	s = s .. i .. ','
end
return #s`},
	{name: "cjson, 10 KB", limit: long, source: document + `
return #cjson.encode(cjson.decode(cjson.encode(list)))`},
	{name: "cmsgpack, 10 KB", limit: long, source: document + `
return #cmsgpack.pack(cmsgpack.unpack(cmsgpack.pack(list)))`},
}

// document makes a list of records, about 10 KB as JSON.
const document = `
local list = {}
for i = 1, 100 do
	list[i] = {id = i, name = 'item number ' .. i, price = i * 1.25, tags = {'red', 'round', 'small'}, stock = i % 2 == 0}
end`

// sha returns the digest that SCRIPT LOAD returns.
func (t *scriptTest) sha() string {
	sum := sha1.Sum([]byte(t.source))
	return hex.EncodeToString(sum[:])
}

// scriptRate is a guess of how many of the shortest scripts the faster server runs per second, by depth.
var scriptRate = map[int]float64{1: 100e3, 16: 500e3}

// scripting measures EVALSHA of typical scripts.
func scripting(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("scripting", contenders,
		fmt.Sprintf("EVALSHA with one key of %s. Closed loop, 50 connections.", report.Thousands(float64(e.Keys))),
		"Lock release finds its lock in every call: there are as many as are called. The documents of cjson and cmsgpack "+
			"are made, packed, read and packed again in each call.",
		"Each run starts fresh servers. "+e.slicesText()+" Every cell begins with an empty keyspace.")
	var all []workload
	for i := range scriptTests {
		t := &scriptTests[i]
		all = append(all, workload{t.name, append([]string{"EVALSHA", t.sha(), "1", "{key}"}, t.args...)})
	}
	m := matrix{}
	prepare := func(server *Server) error {
		for i := range scriptTests {
			if v, err := server.Do("SCRIPT", "LOAD", scriptTests[i].source); err != nil || v.Text != scriptTests[i].sha() {
				return fmt.Errorf("%s: %q, %w", scriptTests[i].name, v.Text, err)
			}
		}
		return nil
	}
	cells := e.cells(len(all), func(i int) string { return all[i].name }, scriptPipelines)
	ready := func(server *Server, at int) (spec load.Spec, err error) {
		t, p := &scriptTests[cells[at][0]], cells[at][1]
		if err := server.empty(); err != nil {
			return spec, err
		}
		spec = load.Spec{Connections: 50, Pipeline: p, Warmup: e.Warmup, Duration: e.Duration,
			Mix: []load.Command{load.Request(all[cells[at][0]].words...)}, Keys: load.KeySpace{Count: e.Keys}}
		if !t.drains {
			return spec, nil
		}
		n := elements(uint64(scriptRate[p] * e.Duration.Seconds()))
		spec.Warmup, spec.Duration, spec.Requests = min(e.Warmup, sliceSettle), 0, int64(n)
		spec.Keys = load.KeySpace{Count: n, Order: load.Sequential}
		return spec, server.Fill(fill(n, 0, setWords...))
	}
	err := e.sideBySide(contenders, Start{}, prepare, len(cells), ready,
		func(server *Server, at int, seen []load.Result) error {
			m.at(server.Name, cell{all[cells[at][0]].name, cells[at][1]}).add(seen)
			return nil
		})
	if err != nil {
		return nil, err
	}
	for _, p := range scriptPipelines {
		s.Tables = append(s.Tables, e.costTable(m, contenders, all, p))
	}
	for _, p := range scriptPipelines {
		for i := range scriptTests {
			t := &scriptTests[i]
			s.Figures = append(s.Figures, m.figure(contenders[0].Name, "spindle", cell{t.name, p},
				fmt.Sprintf("CPU per call of %s, pipeline %d", t.name, p), t.limit[p]))
		}
	}
	return s, e.scriptGarbage(s)
}

// figure returns the figure, with a verdict, of the CPU time of one cell.
func (m matrix) figure(reference, ours string, at cell, what string, limit float64) report.Figure {
	base, x := m.at(reference, at).cpu, m.at(ours, at).cpu
	ratio := x.Ratio(base)
	return report.Figure{What: what, Target: fmt.Sprintf("≤ %s × redis", report.Number(limit)),
		Reference: base.Text(report.Micros) + " µs",
		Ours:      fmt.Sprintf("%s µs, %s ×", x.Text(report.Micros), report.Number(ratio)),
		Verdict:   report.Judge(ratio, limit, max(1, limit))}
}

// empty removes all keys and waits until their memory is freed.
func (s *Server) empty() error {
	if _, err := s.Do("FLUSHALL"); err != nil {
		return err
	}
	return s.untilFreed()
}

// garbageOfScripts is the number of scripts, from the first, that have a target for allocations.
const garbageOfScripts = 3

// scriptGarbage measures the allocations on the Go heap by calls of the first scripts.
func (e *Env) scriptGarbage(s *report.Section) error {
	server, err := e.Begin(e.Ours(), Start{Env: []string{"GODEBUG=memprofilerate=1"}})
	if err != nil {
		return err
	}
	defer server.End()
	t := report.Table{Title: "Go allocations for each call, pipeline 16", Columns: []string{"script", "objects", "bytes"}}
	for i := range scriptTests[:garbageOfScripts] {
		test := &scriptTests[i]
		if err := server.empty(); err != nil { // a key of another type would make every call an error
			return err
		}
		if _, err := server.Do("SCRIPT", "LOAD", test.source); err != nil {
			return err
		}
		objects, bytes, err := server.allocationsOf("evalsha",
			append([]string{"EVALSHA", test.sha(), "1", "{key}"}, test.args...))
		if err != nil {
			return err
		}
		t.Rows = append(t.Rows, []string{test.name, fixed4(objects), fixed4(bytes)})
		s.Figures = append(s.Figures, report.Figure{What: "garbage per call of " + test.name, Target: "< 256 bytes",
			Reference: "–", Ours: fixed4(bytes), Verdict: report.Judge(bytes, 256, nan)})
	}
	s.Tables = append(s.Tables, t)
	return nil
}

// allocationsOf returns the average Go allocations of a call of command, under a load of such calls.
func (s *Server) allocationsOf(command string, words []string) (objects, bytes float64, err error) {
	runner, err := s.StartLoad(load.Spec{Connections: 50, Pipeline: 16, Duration: time.Hour,
		Mix: []load.Command{load.Request(words...)}, Keys: load.KeySpace{Count: 1000}})
	if err != nil {
		return 0, 0, err
	}
	defer runner.Abandon()
	time.Sleep(s.env.Warmup + 300*time.Millisecond)
	var made [2]allocations
	var calls [2]int64
	for i := range made {
		if i == 1 {
			time.Sleep(s.env.Duration)
		}
		if calls[i], _, err = s.booked(command); err != nil {
			return 0, 0, err
		}
		if made[i], err = s.Allocations(); err != nil {
			return 0, 0, err
		}
	}
	n, all := float64(calls[1]-calls[0]), made[1].since(made[0])[byRequests]
	if n == 0 {
		return 0, 0, fmt.Errorf("no script called %s", command)
	}
	return all.objects / n, all.bytes / n, nil
}
