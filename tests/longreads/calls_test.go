package longreads

import (
	"fmt"
	"strings"
	"testing"

	"spindle/protocol/respclient"
)

// A call is a command that reads as many elements as the data has.
type call struct {
	args      []any
	unordered bool // the elements of its reply have no order
}

func (c call) String() string { return fmt.Sprint(c.args[0]) }

// calls are the commands that are read beside the turns, on the data of fill.
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
}

// fillEach is how many elements one command of fill adds.
const fillEach = 500

// values are the keys of fill's data, each with the command that adds elements to it.
var values = map[string]string{"set": "SADD", "set2": "SADD", "hash": "HSET", "volatile": "HSET", "list": "RPUSH",
	"zset": "ZADD", "zset2": "ZADD"}

// fill makes the data that calls read: values of n elements, n keys, and a string of n KB.
func fill(t *testing.T, c *respclient.Client, n int) {
	t.Helper()
	c.Send("SETBIT", "text", n<<13, 1)
	receive(t, c, 1)
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
	// A server before 7.4 has no deadlines of fields, which change no reply.
	if _, err := c.Do("HPEXPIRE", "volatile", 3600_000, "FIELDS", 1, "field:0"); err != nil {
		t.Fatal(err)
	}
}

// addition is the command that adds elements from to from+n-1 to the value at name. A second value has every second of
// the first one's, and some that it lacks.
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
			args = append(args, fmt.Sprint("element ", i))
		case "ZADD":
			args = append(args, i, fmt.Sprint("member:", element))
		}
	}
	return args
}

// receive fails the test if one of n replies is an error.
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
