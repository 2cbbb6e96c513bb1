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
}

func (c call) String() string { return fmt.Sprint(c.args[:min(len(c.args), 8)]...) }

// name returns the command's name in INFO commandstats.
func (c call) name() string {
	name := strings.ToLower(fmt.Sprint(c.args[0]))
	if name == "memory" {
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

// fill makes the data that calls read: values of n elements, n keys, and a string of n KB.
func fill(t *testing.T, c *respclient.Client, n int) {
	t.Helper()
	c.Send("SETBIT", "text", n<<13, 1)
	c.Send("PFADD", "sketch", "a", "b", "c")
	receive(t, c, 2)
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
		receive(t, c, len(values)+count+1)
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
