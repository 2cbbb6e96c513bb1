package whole

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A row is a kind of unit: one way to run several writes as one unit.
type row struct {
	name     string
	prepare  func(c *cell)
	requests func(c *cell) [][]any
	look     func(c *cell, s *testkit.Server) (is state, detail string)
}

// state is the part of a unit that a server has.
type state int

const (
	absent state = iota
	whole
	torn
)

// String names the state in messages.
func (s state) String() string { return [...]string{"absent", "whole", "torn"}[s] }

// steps is a script that adds to a counter and a list, and computes for a while before and between these writes. At its
// end it sets a marker. It fails if it sees any other change meanwhile, even an expired key.
const steps = `
local c, l, m, v = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local from, to, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local wait, work, channel = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local function spin(s) local t = os.clock() while os.clock() - t < s do end end
spin(wait)
local seen = redis.call('EXISTS', v)
for i = from, to do
  redis.call('INCR', c)
  redis.call('RPUSH', l, i)
  if i == from and channel ~= '' then redis.call('PUBLISH', channel, 'begun') end
  spin(work / (to - from + 1))
end
if to == n then redis.call('SET', m, n) end
if redis.call('GET', c) ~= tostring(to) or redis.call('LLEN', l) ~= to or redis.call('EXISTS', v) ~= seen then
  return redis.error_reply('ERR torn: ' .. tostring(redis.call('GET', c)) .. ' ' .. redis.call('LLEN', l))
end
return n`

// library defines steps as a function.
const library = "#!lua name=whole\nredis.register_function('steps', function(KEYS, ARGV)" + steps + "\nend)"

// reads is a script that reads other units' keys twice, and computes for a while in between.
const reads = `
local function spin(s) local t = os.clock() while os.clock() - t < s do end end
local function look()
  local t = {}
  for i, key in ipairs(KEYS) do t[i] = redis.call('EXISTS', key) .. ' ' .. tostring(redis.call('GET', key)) end
  t[#t + 1] = redis.call('DBSIZE')
  return table.concat(t, ',')
end
local first = look()
spin(tonumber(ARGV[1]))
local second = look()
if first ~= second then return redis.error_reply('ERR torn: ' .. first .. ' became ' .. second) end
return second`

// part returns a call of steps for a part of the unit's writes.
func (u *unit) part(from, to int, work time.Duration, call ...any) []any {
	wait := u.wait
	if from > 2 { // the second part of a transaction
		wait = 0
	}
	return append(call, 4, u.key("c"), u.key("l"), u.key("m"), u.key("v"), from, to, u.n,
		fmt.Sprintf("%.6f", wait.Seconds()), fmt.Sprintf("%.6f", work.Seconds()), u.key("ch"))
}

// read reads one of the unit's keys on s. If another node has the key, read returns nothing.
func (c *cell) read(s *testkit.Server, words ...any) respclient.Value {
	if c.taken != nil { // the servers form a cluster
		s.Do("READONLY")
	}
	var v respclient.Value
	c.await(fmt.Sprint(s.Addr, words), func() (err error) { // a slow cluster may be down for a moment
		if v, err = s.Ask(words...); err == nil && strings.HasPrefix(v.Text, "MOVED") {
			v = respclient.Value{}
		}
		if err == nil {
			err = v.Err()
		}
		return err
	})
	return v
}

// lookAtSteps returns which part of a unit of steps s has.
func lookAtSteps(c *cell, s *testkit.Server) (state, string) {
	u := &c.unit
	n, count := strconv.Itoa(u.n), c.read(s, "GET", u.key("c")).Text
	length, mark := c.read(s, "LLEN", u.key("l")).Int, c.read(s, "GET", u.key("m")).Text
	detail := fmt.Sprintf("counter %q, list of %d, marker %q", count, length, mark)
	switch {
	case count == n && length == int64(u.n) && mark == n:
		return whole, detail
	case count == "" && length == 0 && mark == "":
		return absent, detail
	case count == n && length == 0 && mark == n && u.sortedNothing():
		return absent, detail // the list to sort was removed before
	}
	return torn, detail
}

// sortedNothing reports whether the unit is a transaction whose SORT found no list.
func (u *unit) sortedNothing() bool {
	e := u.reply.Elems
	return len(e) == 3 && e[1].Kind == ':' && e[1].Int == 0
}

// payload returns the DUMP payload of a hash with this number of fields. It is made once per serverSet.
func (c *cell) payload(fields int) string {
	if text := c.payloads[fields]; text != "" {
		return text
	}
	key := c.unit.key("payload")
	args := []any{"HSET", key}
	for i := range fields {
		args = append(args, "field:"+strconv.Itoa(i), "some value that is not short: "+strconv.Itoa(i))
	}
	c.p.Do(args...)
	text := c.p.Do("DUMP", key).Text
	c.p.Do("DEL", key)
	if c.payloads == nil {
		c.payloads = map[int]string{}
	}
	c.payloads[fields] = text
	return text
}

// lookAtHash returns whether s has all of the hash.
func lookAtHash(c *cell, s *testkit.Server) (state, string) {
	n := c.read(s, "HLEN", c.unit.key("k")).Int
	switch n {
	case 0:
		return absent, "no hash"
	case int64(c.unit.n):
		return whole, "the hash"
	}
	return torn, fmt.Sprintf("%d fields of %d", n, c.unit.n)
}

// target returns the server to which MIGRATE moves its key.
func (c *cell) target() *testkit.Server { return c.more[len(c.more)-1] }

// lookAtMove is for a key that moves to the target: one of the two servers must have it. Both may have it only if
// MIGRATE did not reply OK.
func lookAtMove(c *cell, s *testkit.Server) (state, string) {
	is, detail := lookAtHash(c, s)
	there, other := lookAtHash(c, c.target())
	if s != c.p || is == torn {
		if is == absent && there == whole {
			is = whole // the key has moved
		}
		return is, detail
	}
	detail += "; at the target: " + other
	switch {
	case is == absent && there == absent && c.unit.reply.Text == "NOKEY":
		return absent, detail // the key was deleted before MIGRATE
	case there == torn, is == absent && there == absent, c.unit.acked() && (is == whole || there == absent):
		return torn, detail
	}
	return whole, detail
}

// big makes the payload of a hash that is large enough for RESTORE to build it outside the core's turn.
func big(c *cell) {
	c.unit.n = 1500 + c.rng.IntN(6)*2000
	c.unit.text = c.payload(c.unit.n)
}

var (
	eval = &row{name: "eval", look: lookAtSteps, requests: func(c *cell) [][]any {
		return [][]any{c.unit.part(1, c.unit.n, c.unit.work, "EVAL", steps)}
	}}
	fcall = &row{name: "fcall", look: lookAtSteps, prepare: func(c *cell) {
		c.p.Do("FUNCTION", "LOAD", "REPLACE", library)
	}, requests: func(c *cell) [][]any {
		return [][]any{c.unit.part(1, c.unit.n, c.unit.work, "FCALL", "steps")}
	}}
	exec = &row{name: "exec", look: lookAtSteps, prepare: fcall.prepare, requests: func(c *cell) [][]any {
		u := &c.unit
		u.n = max(u.n, 4)
		if u.asks == nil {
			u.asks = []any{"PING"}
		}
		return [][]any{{"MULTI"},
			{"INCR", u.key("c")}, {"RPUSH", u.key("l"), 1},
			u.part(2, u.n/2, u.work/2, "EVAL", steps),
			{"SET", u.key("m"), "not yet"}, u.asks,
			u.part(u.n/2+1, u.n, u.work/2, "FCALL", "steps"),
			{"EXEC"}}
	}}
	// flush is a unit that removes all data and then writes.
	flush = &row{name: "flush", look: lookAtSteps, requests: func(c *cell) [][]any {
		u := &c.unit
		if c.rng.IntN(2) == 0 {
			return [][]any{u.part(1, u.n, u.work, "EVAL", "redis.call('FLUSHALL')"+steps)}
		}
		return [][]any{{"MULTI"}, {"SET", u.key("m"), "not yet"}, {"FLUSHALL"},
			u.part(1, u.n, u.work, "EVAL", steps), {"EXEC"}}
	}}
	sorts = &row{name: "sort", look: lookAtSteps, prepare: func(c *cell) {
		u := &c.unit
		u.n = 1000 + c.rng.IntN(10_000)
		c.p.Do("EVAL", "for i = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], ARGV[1] - i) end", 1, u.key("src"), u.n)
	}, requests: func(c *cell) [][]any {
		u := &c.unit
		return [][]any{{"MULTI"}, {"SET", u.key("c"), u.n}, {"SORT", u.key("src"), "DESC", "STORE", u.key("l")},
			{"SET", u.key("m"), u.n}, {"EXEC"}}
	}}
	restore = &row{name: "restore", look: lookAtHash, prepare: big, requests: func(c *cell) [][]any {
		return [][]any{{"RESTORE", c.unit.key("k"), 0, c.unit.text}}
	}}
	move = &row{name: "migrate", look: lookAtMove, prepare: func(c *cell) {
		big(c)
		c.p.Do("RESTORE", c.unit.key("k"), 0, c.unit.text)
	}, requests: func(c *cell) [][]any {
		return [][]any{{"MIGRATE", "127.0.0.1", c.target().Port, c.unit.key("k"), 0, 20_000}}
	}}
	reader = &row{name: "reader", look: func(*cell, *testkit.Server) (state, string) {
		return whole, "reads only"
	}, requests: func(c *cell) [][]any {
		return [][]any{{"EVAL_RO", reads, 2, "filler:1", "filler:2", fmt.Sprintf("%.6f", c.unit.work.Seconds())}}
	}}
	// reload is a unit without writes: the data set is not complete before its end.
	reload = &row{name: "reload", look: reader.look, requests: func(c *cell) [][]any {
		return [][]any{{"CONFIG", "SET", "key-load-delay", 1 + c.rng.IntN(500)}, {"DEBUG", "LOADAOF"},
			{"CONFIG", "SET", "key-load-delay", 0}}
	}}
	counter = &row{name: "counter", look: reader.look, requests: func(c *cell) [][]any {
		return [][]any{{"EVAL_RO", reads, 0, fmt.Sprintf("%.6f", c.unit.work.Seconds())}}
	}}
)

var (
	rows = []*row{eval, fcall, exec, sorts, restore, move, reader, counter, logged, flush, reload, evalReads,
		fcallReads, execReads}
	scripts = []*row{eval, fcall, exec}
	lending = []*row{eval, fcall, exec, restore}
	all     = []*row{eval, fcall, exec, sorts, restore, move}
)
