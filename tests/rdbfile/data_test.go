package rdbfile

import (
	"fmt"
	"math"
	"strings"
)

// A dataset is one form of a type in a file. It has the commands that make the form, and settings by which encodings
// change at small sizes.
type dataset struct {
	name     string
	settings []string // settings for redis-server
	needs    int      // the lowest RDB version that can hold it; 0 means 10
	mine     bool     // only spindle makes it: redis-server cannot read its own file of it
	fill     func(do func(args ...any))
}

// element returns one of many texts: numbers, short texts, compressible texts, and texts with every byte.
func element(i int) string {
	switch i % 7 {
	case 0:
		return fmt.Sprint(i*i*i - 1000)
	case 1:
		return fmt.Sprint("-", i)
	case 2:
		return fmt.Sprint("element:", i)
	case 3:
		return strings.Repeat(fmt.Sprint("compress me ", i, " "), 5)
	case 4:
		return string([]byte{byte(i), byte(i >> 8), 0, '\r', '\n', 0xFF})
	case 5:
		return fmt.Sprint(math.MinInt64 + i)
	}
	return fmt.Sprint("0", i)
}

// many returns first, followed by the arguments of n elements.
func many(n int, per func(i int) []any, first ...any) []any {
	for i := range n {
		first = append(first, per(i)...)
	}
	return first
}

func one(i int) []any { return []any{element(i)} }

func numbers(step int) func(int) []any { return func(i int) []any { return []any{i*step - 50*step} } }

var datasets = []dataset{
	{name: "strings", fill: func(do func(args ...any)) {
		for i := range 300 {
			do("SET", fmt.Sprint("string:", i), element(i))
		}
		do("SET", "long", strings.Repeat("0123456789abcdef", 20_000))
		do("SET", "volatile", "x", "PXAT", 4102444800000)
		do("SELECT", 3)
		do("SET", "elsewhere", "1")
		do("SELECT", 0)
	}},
	{name: "sets", settings: []string{"--set-max-intset-entries", "64"},
		fill: func(do func(args ...any)) {
			for _, step := range []int{1, 1000, 100_000_000, 1 << 56} {
				do(many(40, numbers(step), "SADD", fmt.Sprint("intset:", step))...)
			}
			do(many(100, numbers(7), "SADD", "integers in a table")...)
			do(many(20, one, "SADD", "small")...)
			do(many(5000, one, "SADD", "large")...)
			do("SADD", "one long", strings.Repeat("m", 100_000), "short")
			do("PEXPIREAT", "large", 4102444800000)
		}},
	{name: "hashes", fill: func(do func(args ...any)) {
		pair := func(i int) []any { return []any{fmt.Sprint(element(i), "f"), element(i * 3)} }
		short := func(i int) []any { return []any{fmt.Sprint("f", i), i} }
		do(many(30, short, "HSET", "small")...)
		do(many(20, func(i int) []any { return []any{i, fmt.Sprint("v", i)} }, "HSET", "number fields")...)
		do(many(3000, pair, "HSET", "large")...)
		do("HSET", "one long", "field", strings.Repeat("value ", 40_000))
		do("PEXPIREAT", "small", 4102444800000)
	}},
	{name: "field deadlines", needs: 12, fill: func(do func(args ...any)) {
		short := func(i int) []any { return []any{fmt.Sprint("f", i), i} }
		do(many(30, short, "HSET", "small")...)
		do("HPEXPIREAT", "small", 4102444800000, "FIELDS", 2, "f3", "f7")
		do("HPEXPIREAT", "small", 4102444800777, "FIELDS", 1, "f1")
		do(many(2000, short, "HSET", "large")...)
		for i := range 500 {
			do("HPEXPIREAT", "large", 4102444800000+int64(i%50)*1000, "FIELDS", 1, fmt.Sprint("f", i*3))
		}
	}},
	{name: "sorted sets", fill: func(do func(args ...any)) {
		pair := func(i int) []any { return []any{float64(i%40)/4 - 3, element(i)} }
		do(many(20, func(i int) []any { return []any{i * 5, fmt.Sprint("m", i)} }, "ZADD", "small")...)
		do(many(3000, pair, "ZADD", "large")...)
		do("ZADD", "edges", "-inf", "low", "+inf", "high", 0, "zero", -5, "minus", "4503599627370496", "2^52")
		do("ZADD", "one long", 1.5, strings.Repeat("m", 5000), 1.5, "b", 1.5, "a")
	}},
	{name: "lists", settings: []string{"--list-max-listpack-size", "16", "--list-compress-depth", "1"},
		fill: func(do func(args ...any)) {
			do(many(10, one, "RPUSH", "small")...)
			do(many(4000, one, "RPUSH", "large")...)
			do("RPUSH", "big elements", strings.Repeat("a", 9000), "x", strings.Repeat("b", 70_000), "y",
				strings.Repeat("\x00\xff", 50_000))
		}},
	{name: "lists of next to nothing", settings: []string{"--list-max-listpack-size", "-5"}, mine: true,
		fill: func(do func(args ...any)) {
			none := func(int) []any { return []any{""} }
			do(many(70_000, none, "RPUSH", "one listpack")...)
			do(many(140_000, none, "RPUSH", "three")...)
			do(many(70_000, none, "RPUSH", "quicklist")...)
			do("RPUSH", "quicklist", strings.Repeat("x", 40_000), strings.Repeat("y", 40_000))
			do(many(65_536, none, "LPUSH", "one too many for 16 bits")...)
		}},
	{name: "streams", settings: []string{"--stream-node-max-entries", "10"},
		fill: func(do func(args ...any)) {
			for i := range 95 {
				do("XADD", "events", fmt.Sprintf("%d-%d", 1000+i/3, i%3+1), "kind", element(i), "n", i)
			}
			do("XADD", "events", "2000-1", "other", "fields", "of", "another", "entry", "!")
			do("XDEL", "events", "1003-1", "1010-2")
			do("XGROUP", "CREATE", "events", "readers", "0")
			do("XGROUP", "CREATE", "events", "idle", "1005-1")
			do("XREADGROUP", "GROUP", "readers", "ann", "COUNT", 20, "STREAMS", "events", ">")
			do("XREADGROUP", "GROUP", "readers", "bob", "COUNT", 7, "STREAMS", "events", ">")
			do("XACK", "events", "readers", "1000-1", "1001-2")
			do("XGROUP", "CREATECONSUMER", "events", "readers", "eve")
			do("XADD", "trimmed", "MAXLEN", 3, "5-1", "a", "b")
			for i := range 10 {
				do("XADD", "trimmed", "MAXLEN", 3, fmt.Sprint(6+i, "-1"), "a", i)
			}
			do("XADD", "emptied", "1-1", "a", "b")
			do("XDEL", "emptied", "1-1")
		}},
}
