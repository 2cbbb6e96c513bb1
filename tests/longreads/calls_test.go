package longreads

import (
	"fmt"
	"strings"
	"testing"

	"spindle/protocol/respclient"
)

// A call is a command that reads a number of elements proportional to the data.
type call struct {
	args      []any
	unordered bool // the elements of its reply have no order
	own       bool // redis-server has another reply
	aged      bool // the reply has ages, which canonical removes

	// of is a command that replies all elements from which the call draws at random. If each is 2, the reply and that of
	// of have pairs.
	of   []any
	each int
}

func (c call) String() string { return fmt.Sprint(c.args[:min(len(c.args), 8)]...) }

// name returns the command's name in INFO commandstats.
func (c call) name() string {
	name := strings.ToLower(fmt.Sprint(c.args[0]))
	if name == "memory" || name == "xinfo" || name == "debug" {
		name += "|" + strings.ToLower(fmt.Sprint(c.args[1]))
	}
	return name
}

// calls has the commands that are read outside the core's turns, on the data of fill.
var calls = []call{
	{args: []any{"KEYS", "*"}, unordered: true},
	{args: []any{"KEYS", "*9*"}, unordered: true},
	{args: []any{"SMEMBERS", "set"}, unordered: true},
	{args: []any{"SINTER", "set", "set2"}, unordered: true},
	{args: []any{"SUNION", "set", "set2"}, unordered: true},
	{args: []any{"SUNION", "set", "set2", "set2", "set2", "set2", "set", "set", "set", "set2", "set"}, unordered: true},
	{args: []any{"SDIFF", "set", "set2"}, unordered: true},
	{args: []any{"SINTERCARD", 2, "set", "set2"}},
	{args: []any{"HGETALL", "hash"}, unordered: true},
	{args: []any{"HKEYS", "hash"}, unordered: true},
	{args: []any{"HVALS", "hash"}, unordered: true},
	{args: []any{"HKEYS", "volatile"}, unordered: true},
	{args: []any{"LRANGE", "list", 0, -1}},
	{args: []any{"LPOS", "list", "no such element", "COUNT", 0}},
	{args: []any{"ZRANGE", "zset", 0, -1}},
	{args: []any{"ZRANGE", "zset", 0, -1, "REV", "WITHSCORES"}},
	{args: []any{"ZRANGEBYSCORE", "zset", "-inf", "+inf", "LIMIT", 10, 100_000_000}},
	{args: []any{"ZREVRANGEBYLEX", "zset", "+", "-"}},
	{args: []any{"ZUNION", 2, "zset", "zset2", "WITHSCORES"}},
	{args: []any{"ZINTER", 2, "zset", "zset2", "WEIGHTS", 2, 3}},
	{args: []any{"ZDIFF", 2, "zset", "zset2"}},
	{args: []any{"ZINTERCARD", 2, "zset", "zset2"}},
	{args: []any{"XRANGE", "stream", "-", "+"}},
	{args: []any{"XREVRANGE", "stream", "+", "-", "COUNT", 100_000_000}},
	{args: []any{"XREAD", "STREAMS", "stream", 0}},
	{args: []any{"XREAD", "COUNT", 50_000, "STREAMS", "stream", "none", "stream", 7, 7, "77-7"}},
	{args: []any{"XREAD", "BLOCK", 1000, "STREAMS", "stream", 0}},
	{args: []any{"XPENDING", "stream", "group", "-", "+", 100_000_000}, own: true, aged: true},
	{args: []any{"XPENDING", "stream", "group", "IDLE", 1_000_000_000, "-", "+", 10}},
	{args: []any{"XPENDING", "stream", "group", "-", "+", 50_000, "consumer"}, own: true, aged: true},
	{args: []any{"XINFO", "STREAM", "stream", "FULL", "COUNT", 0}, own: true},
	{args: []any{"XINFO", "STREAM", "stream", "FULL", "COUNT", 40_000}, own: true},
	{args: []any{"SRANDMEMBER", "set", 100_000_000}, unordered: true},
	{args: []any{"SRANDMEMBER", "set", 2000}, of: []any{"SMEMBERS", "set"}, each: 1},
	{args: []any{"SRANDMEMBER", "set", -2000}, of: []any{"SMEMBERS", "set"}, each: 1},
	{args: []any{"HRANDFIELD", "hash", 2000, "WITHVALUES"}, of: []any{"HGETALL", "hash"}, each: 2},
	{args: []any{"HRANDFIELD", "volatile", -2000}, of: []any{"HKEYS", "volatile"}, each: 1},
	{args: []any{"ZRANDMEMBER", "zset", 2000}, of: []any{"ZRANGE", "zset", 0, -1}, each: 1},
	{args: []any{"ZRANDMEMBER", "zset", -2000, "WITHSCORES"}, of: []any{"ZRANGE", "zset", 0, -1, "WITHSCORES"}, each: 2},
	{args: []any{"SCAN", 0, "COUNT", 100_000_000, "MATCH", "k*"}, unordered: true},
	{args: []any{"SSCAN", "set", 0, "COUNT", 100_000_000}, unordered: true},
	{args: []any{"HSCAN", "hash", 0, "COUNT", 100_000_000, "MATCH", "*7*"}, unordered: true},
	{args: []any{"HSCAN", "volatile", 0, "COUNT", 100_000_000}, unordered: true},
	{args: []any{"ZSCAN", "zset", 0, "COUNT", 100_000_000}, unordered: true},
	{args: []any{"LCS", "left", "right"}, own: true},
	{args: []any{"LCS", "left", "right", "IDX"}, own: true},
	{args: []any{"DIGEST", "text"}, own: true},
	{args: []any{"BITCOUNT", "text"}},
	{args: []any{"BITPOS", "text", 1}},
	{args: []any{"SORT", "list", "ALPHA"}},
	{args: []any{"SORT_RO", "list", "ALPHA", "DESC", "LIMIT", 1000, 3000}},
	{args: []any{"SORT", "numbers"}},
	{args: []any{"SORT", "numbers", "BY", "key:*", "GET", "#", "GET", "key:*", "GET", "hash->field:*"}},
	{args: []any{"GEOSEARCH", "zset", "FROMLONLAT", 0, 0, "BYRADIUS", 30_000, "km"}, unordered: true},
	{args: []any{"GEORADIUS", "zset", 0, 0, 30_000, "km", "ASC", "WITHHASH"}},
	{args: many("PFCOUNT", "sketch", 300)},
	{args: []any{"DEBUG", "DIGEST"}, own: true},
	{args: []any{"DEBUG", "DIGEST-VALUE", "set", "zset", "list"}},
	{args: []any{"DEBUG", "OBJECT", "list"}, own: true, aged: true},
	{args: []any{"DEBUG", "OBJECT", "stream"}, own: true, aged: true},
	{args: []any{"DUMP", "stream"}, own: true},
	{args: []any{"DUMP", "hash"}, own: true},
	{args: []any{"DUMP", "zset"}, own: true},
	{args: []any{"MEMORY", "USAGE", "list", "SAMPLES", 0}, own: true},
	{args: []any{"MEMORY", "USAGE", "volatile", "SAMPLES", 0}, own: true},
	{args: []any{"MEMORY", "USAGE", "stream", "SAMPLES", 0}, own: true},
}

// fillEach is the number of elements that one command of fill adds.
const fillEach = 500

// many returns a command with one argument repeated n times.
func many(word, arg string, n int) []any {
	args := []any{word}
	for range n {
		args = append(args, arg)
	}
	return args
}

// values has the keys of fill's data, each with the command that adds elements to it.
var values = map[string]string{"set": "SADD", "set2": "SADD", "hash": "HSET", "volatile": "HSET", "list": "RPUSH",
	"numbers": "RPUSH", "zset": "ZADD", "zset2": "ZADD"}

// fill makes the data that calls read: values of n elements, n keys, and a string of n KB. All entries of the stream
// are pending.
func fill(t *testing.T, c *respclient.Client, n int) {
	t.Helper()
	c.Send("SETBIT", "text", n<<13, 1)
	c.Send("PFADD", "sketch", "a", "b", "c")
	c.Send("SET", "left", strings.Repeat("left and right, ", 680))
	c.Send("SET", "right", strings.Repeat("right and wrong ", 680))
	c.Send("XGROUP", "CREATE", "stream", "group", 0, "MKSTREAM")
	receive(t, c, 5)
	for from := 0; from < n; from += fillEach {
		count := min(fillEach, n-from)
		for name := range values {
			c.Send(addition(name, from, count)...)
		}
		mset := []any{"MSET"}
		for i := from; i < from+count; i++ {
			mset = append(mset, fmt.Sprint("key:", i), i)
			c.Send("XADD", "stream", fmt.Sprint(i+1, "-0"), "field", i)
		}
		c.Send(mset...)
		c.Send("XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "stream", ">")
		receive(t, c, len(values)+count+2)
	}
	// A server before 7.4 has no deadlines of fields. They change no reply here.
	if _, err := c.Do("HPEXPIRE", "volatile", 3600_000, "FIELDS", 1, "field:0"); err != nil {
		t.Fatal(err)
	}
}

// addition returns the command that adds elements from to from+n-1 to the value at name. If name is a second value, it
// has every second element of the first one, and some others.
func addition(name string, from, n int) []any {
	args := []any{values[name], name}
	for i := from; i < from+n; i++ {
		element := i
		if strings.HasSuffix(name, "2") {
			element = 2 * i
		}
		switch values[name] {
		case "SADD":
			args = append(args, fmt.Sprint("member:", element))
		case "HSET":
			args = append(args, fmt.Sprint("field:", i), fmt.Sprint("value ", i))
		case "RPUSH":
			if name == "numbers" {
				args = append(args, (i*7919)%1_000_003)
			} else {
				args = append(args, fmt.Sprint("element ", i))
			}
		case "ZADD":
			args = append(args, i, fmt.Sprint("member:", element))
		}
	}
	return args
}

// receive reads n replies, and fails the test if one is an error.
func receive(t *testing.T, c *respclient.Client, n int) {
	t.Helper()
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if v, err := c.Receive(); err != nil || v.Err() != nil {
			t.Fatal(v, err)
		}
	}
}
