package longreads

import (
	"fmt"
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
	{args: []any{"HGETALL", "hash"}, unordered: true},
	{args: []any{"HKEYS", "hash"}, unordered: true},
	{args: []any{"HVALS", "hash"}, unordered: true},
	{args: []any{"HKEYS", "volatile"}, unordered: true},
}

// fillEach is how many elements one command of fill adds.
const fillEach = 500

// fill makes the data that calls read: values of n elements, and n keys.
func fill(t *testing.T, c *respclient.Client, n int) {
	t.Helper()
	for from := 0; from < n; from += fillEach {
		for _, name := range []string{"set", "hash", "volatile", "keys"} {
			c.Send(addition(name, from, min(fillEach, n-from))...)
		}
		c.Send("HPEXPIRE", "volatile", 3600_000, "FIELDS", 1, fmt.Sprint("field:", from))
		receive(t, c, 5)
	}
}

// addition is the command that adds elements from to from+n-1 to the value at name. "keys" are keys beside it.
func addition(name string, from, n int) []any {
	word := map[string]string{"set": "SADD", "hash": "HSET", "volatile": "HSET", "keys": "MSET"}[name]
	args := []any{word}
	if name != "keys" {
		args = append(args, name)
	}
	for i := from; i < from+n; i++ {
		switch name {
		case "set":
			args = append(args, fmt.Sprint("member:", i))
		case "hash", "volatile":
			args = append(args, fmt.Sprint("field:", i), fmt.Sprint("value ", i))
		case "keys":
			args = append(args, fmt.Sprint("key:", i), i)
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
