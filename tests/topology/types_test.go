package topology

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// newLoad starts writers of everything that two releases of redis-server support: all types, scripts, functions,
// deadlines, blocking commands, transactions. If fields is true, they also set deadlines of hash fields. If persists is
// true, they also remove some of these deadlines.
func newLoad(t *testing.T, seed uint64, fields, persists bool) *writers {
	return &writers{t: t, seed: seed, done: make(chan struct{}), source: func(rng *rand.Rand) [][]any {
		switch n := rng.IntN(12); {
		case n < 4:
			return write(rng)
		case n == 4 && fields:
			return [][]any{writeField(&drawn{rng, "h:", 60}, persists)}
		}
		return writeTyped(rng)
	}}
}

// writeField returns a request about the deadline of a hash field.
func writeField(d *drawn, persists bool) []any {
	field := []any{"FIELDS", 2, d.value(), d.value()}
	switch kind := d.IntN(6); {
	case kind == 0 && persists:
		return append([]any{"HPERSIST", d.key()}, field...)
	case kind == 1:
		return append([]any{"HEXPIRE", d.key(), 10_000 + d.IntN(10_000), d.end("NX", "GT")}, field...)
	case kind == 2:
		return append([]any{"HPEXPIREAT", d.key(), 1}, field...) // in the past, so it deletes
	}
	return append([]any{"HPEXPIRE", d.key(), 1 + d.IntN(volatileMs)}, field...)
}

// A kind is a type with its write requests.
type kind struct {
	prefix string
	keys   int
	make   []func(k *drawn) []any
}

// drawn returns random parts of a request.
type drawn struct {
	*rand.Rand
	prefix string
	keys   int
}

func (d *drawn) key() string { return d.prefix + strconv.Itoa(d.IntN(d.keys)) }

func (d *drawn) value() string {
	if d.IntN(200) == 0 {
		return strings.Repeat("long ", 60+d.IntN(100)) // too long for a listpack
	}
	return strconv.Itoa(d.IntN(300))
}

// some returns the words followed by one to ten results of each.
func (d *drawn) some(words []any, each func() []any) []any {
	n := 1 + d.IntN(10)
	if d.IntN(40) == 0 {
		n = 150 // too many for a small encoding
	}
	for range n {
		words = append(words, each()...)
	}
	return words
}

func (d *drawn) values(words ...any) []any {
	return d.some(words, func() []any { return []any{d.value()} })
}

// score returns a number that every release prints with the same digits. The same holds for sums of such numbers.
// Digests depend on the digits.
func (d *drawn) score() string { return strconv.FormatFloat(float64(d.IntN(4000))/16-100, 'g', -1, 64) }

func (d *drawn) end(a, b string) string { return []string{a, b}[d.IntN(2)] }

func id(d *drawn) string { return fmt.Sprint(1+d.IntN(50), "-", d.IntN(3)) }

// kinds has all types except strings. A request may fail. Only COPY and RENAME change the type of a key, but consumer
// groups are created and destroyed.
var kinds = []kind{
	{"l:", 60, []func(*drawn) []any{
		func(d *drawn) []any { return d.values("RPUSH", d.key()) },
		func(d *drawn) []any { return d.values("LPUSH", d.key()) },
		func(d *drawn) []any { return []any{d.end("LPOP", "RPOP"), d.key(), d.IntN(6)} },
		func(d *drawn) []any { return []any{"LPOP", d.key()} },
		func(d *drawn) []any { return []any{"LTRIM", d.key(), d.IntN(3), 40 + d.IntN(40)} },
		func(d *drawn) []any { return []any{"LINSERT", d.key(), d.end("BEFORE", "AFTER"), d.value(), d.value()} },
		func(d *drawn) []any { return []any{"LSET", d.key(), d.IntN(20) - 10, d.value()} },
		func(d *drawn) []any { return []any{"LREM", d.key(), d.IntN(5) - 2, d.value()} },
		func(d *drawn) []any {
			return []any{"LMOVE", d.key(), d.key(), d.end("LEFT", "RIGHT"), d.end("LEFT", "RIGHT")}
		},
		func(d *drawn) []any {
			return []any{"LMPOP", 2, d.key(), d.key(), d.end("LEFT", "RIGHT"), "COUNT", 1 + d.IntN(5)}
		},
		func(d *drawn) []any { return []any{"BLPOP", d.key(), "l:empty", "0.01"} },
		func(d *drawn) []any { return []any{"BRPOP", "l:empty", "l:empty2", "0.005"} },
		func(d *drawn) []any { return []any{"RPUSH", "l:empty", d.value()} },
		func(d *drawn) []any { return []any{"BLMOVE", "l:empty", d.key(), "LEFT", "RIGHT", "0.005"} },
		func(d *drawn) []any { return []any{"SORT", d.key(), "ALPHA", "STORE", d.key()} },
	}},
	{"s:", 60, []func(*drawn) []any{
		func(d *drawn) []any { return d.values("SADD", d.key()) },
		func(d *drawn) []any { return d.values("SREM", d.key()) },
		func(d *drawn) []any { return []any{"SPOP", d.key()} },
		func(d *drawn) []any { return []any{"SPOP", d.key(), d.IntN(30)} },
		func(d *drawn) []any { return []any{"SMOVE", d.key(), d.key(), d.value()} },
		func(d *drawn) []any { return []any{"SINTERSTORE", d.key(), d.key(), d.key()} },
		func(d *drawn) []any { return []any{"SUNIONSTORE", d.key(), d.key(), d.key()} },
		func(d *drawn) []any { return []any{"SDIFFSTORE", d.key(), d.key(), d.key()} },
		func(d *drawn) []any { return []any{"SORT", d.key(), "BY", "nosort", "STORE", "l:" + d.value()} },
	}},
	{"h:", 60, []func(*drawn) []any{
		func(d *drawn) []any {
			return d.some([]any{"HSET", d.key()}, func() []any { return []any{d.value(), d.value()} })
		},
		func(d *drawn) []any { return d.values("HDEL", d.key()) },
		func(d *drawn) []any { return []any{"HINCRBY", d.key(), "n", d.IntN(1000)} },
		func(d *drawn) []any { return []any{"HINCRBYFLOAT", d.key(), "f", d.score()} },
		func(d *drawn) []any { return []any{"HSETNX", d.key(), d.value(), d.value()} },
	}},
	{"z:", 60, []func(*drawn) []any{
		func(d *drawn) []any {
			return d.some([]any{"ZADD", d.key()}, func() []any { return []any{d.score(), d.value()} })
		},
		func(d *drawn) []any { return []any{"ZADD", d.key(), d.end("GT", "LT"), "CH", d.score(), d.value()} },
		func(d *drawn) []any { return []any{"ZADD", d.key(), "INCR", d.score(), d.value()} },
		func(d *drawn) []any { return []any{"ZINCRBY", d.key(), d.score(), d.value()} },
		func(d *drawn) []any { return d.values("ZREM", d.key()) },
		func(d *drawn) []any { return []any{d.end("ZPOPMIN", "ZPOPMAX"), d.key(), d.IntN(4)} },
		func(d *drawn) []any { return []any{"ZREMRANGEBYRANK", d.key(), d.IntN(20), 20 + d.IntN(20)} },
		func(d *drawn) []any { return []any{"ZREMRANGEBYSCORE", d.key(), "(" + d.score(), d.score()} },
		func(d *drawn) []any { return []any{"ZUNIONSTORE", d.key(), 2, d.key(), d.key(), "AGGREGATE", "MAX"} },
		func(d *drawn) []any { return []any{"ZINTERSTORE", d.key(), 2, d.key(), "s:" + d.value()} },
		func(d *drawn) []any { return []any{"ZDIFFSTORE", d.key(), 2, d.key(), d.key()} },
		func(d *drawn) []any { return []any{"ZRANGESTORE", d.key(), d.key(), d.IntN(10), 60} },
		func(d *drawn) []any { return []any{"ZMPOP", 2, d.key(), d.key(), d.end("MIN", "MAX"), "COUNT", 2} },
		func(d *drawn) []any { return []any{"BZPOPMIN", d.key(), "z:empty", "0.005"} },
		func(d *drawn) []any { return []any{"ZADD", "z:empty", d.score(), d.value()} },
		func(d *drawn) []any { return []any{"GEOADD", d.key(), d.IntN(170), d.IntN(80), d.value()} },
		func(d *drawn) []any {
			return []any{"GEOSEARCHSTORE", d.key(), d.key(), "FROMLONLAT", 80, 40, "BYRADIUS", 3000, "km", "ASC"}
		},
	}},
	{"x:", 20, []func(*drawn) []any{
		func(d *drawn) []any { return []any{"XADD", d.key(), "*", d.value(), d.value()} },
		func(d *drawn) []any { return []any{"XADD", d.key(), "*", "f", d.value()} },
		func(d *drawn) []any { return []any{"XADD", d.key(), "MAXLEN", "~", 100, "*", "f", d.value()} },
		func(d *drawn) []any {
			return []any{"XADD", d.key(), "MAXLEN", 200, "*", "f", d.value(), "g", d.value()}
		},
		func(d *drawn) []any { return []any{"XADD", "x:ids", id(d), "f", d.value()} },
		func(d *drawn) []any { return []any{"XDEL", "x:ids", id(d), id(d)} },
		func(d *drawn) []any { return []any{"XTRIM", d.key(), "MAXLEN", 50 + d.IntN(100)} },
		func(d *drawn) []any {
			return []any{"XGROUP", "CREATE", d.key(), d.end("g1", "g2"), d.end("0", "$"), "MKSTREAM"}
		},
		func(d *drawn) []any { return []any{"XGROUP", "SETID", d.key(), "g1", d.end("0", "$")} },
		func(d *drawn) []any { return []any{"XGROUP", "CREATECONSUMER", d.key(), "g1", d.value()} },
		func(d *drawn) []any { return []any{"XGROUP", "DELCONSUMER", d.key(), "g1", d.end("a", "b")} },
		func(d *drawn) []any {
			if d.IntN(10) > 0 {
				return []any{"XLEN", d.key()}
			}
			return []any{"XGROUP", "DESTROY", d.key(), d.end("g1", "g2")}
		},
		func(d *drawn) []any {
			return []any{"XREADGROUP", "GROUP", "g1", d.end("a", "b"), "COUNT", 1 + d.IntN(9), "STREAMS", d.key(), ">"}
		},
		func(d *drawn) []any {
			return []any{"XREADGROUP", "GROUP", "g2", d.end("a", "b"), "COUNT", 5, "NOACK", "STREAMS", d.key(), ">"}
		},
		func(d *drawn) []any { return []any{"XAUTOCLAIM", d.key(), "g1", d.end("a", "b"), 0, "0", "COUNT", 3} },
		func(d *drawn) []any {
			return []any{"EVAL", "local p = redis.call('XPENDING', KEYS[1], 'g1', '-', '+', 5) for _, e in ipairs(p) do " +
				"redis.call('XACK', KEYS[1], 'g1', e[1]) end return #p", 1, d.key()}
		},
	}},
	{"b:", 20, []func(*drawn) []any{
		func(d *drawn) []any { return []any{"SETBIT", d.key(), d.IntN(4000), d.IntN(2)} },
		func(d *drawn) []any { return []any{"BITOP", d.end("AND", "XOR"), d.key(), d.key(), d.key()} },
		func(d *drawn) []any {
			return []any{"BITFIELD", d.key(), "SET", "u7", d.IntN(999), d.IntN(100), "OVERFLOW", "SAT", "INCRBY", "i9",
				d.IntN(99), d.IntN(100)}
		},
		func(d *drawn) []any { return d.values("PFADD", "pf"+d.key()) },
		func(d *drawn) []any { return []any{"PFCOUNT", "pf" + d.key()} },
		func(d *drawn) []any { return []any{"PFMERGE", "pf" + d.key(), "pf" + d.key(), "pf" + d.key()} },
	}},
}

// writeTyped returns a random action on structures, scripts or functions.
func writeTyped(rng *rand.Rand) [][]any {
	k := &kinds[rng.IntN(len(kinds))]
	d := &drawn{rng, k.prefix, k.keys}
	one := func(args ...any) [][]any { return [][]any{args} }
	switch rng.IntN(40) {
	case 0:
		return one("PEXPIRE", d.key(), 1+rng.IntN(volatileMs))
	case 1:
		return one("EXPIRE", d.key(), 10_000+rng.IntN(10_000))
	case 2:
		return one("COPY", d.key(), d.key(), "DB", rng.IntN(databases), "REPLACE")
	case 3:
		return one("RENAME", d.key(), d.key())
	case 4:
		return one("MOVE", d.key(), rng.IntN(databases))
	case 5:
		return one("UNLINK", d.key())
	case 6: // its effect depends on chance and the clock, so only propagated effects keep replicas equal
		return one("EVAL", "redis.call('SADD', 's:' .. math.random(50), ARGV[1], redis.call('TIME')[2] % 100) "+
			"redis.call('SPOP', 's:' .. math.random(50)) return redis.call('SET', 'k:1', redis.call('TIME')[2], 'PX', 200)", 0,
			d.value())
	case 7:
		return one("EVAL", "redis.call('SELECT', ARGV[1]) redis.call('LPUSH', 'l:1', ARGV[2]) redis.call('SELECT', ARGV[3]) "+
			"redis.pcall('HINCRBY', 'h:1', 'n', 1) return redis.pcall('INCR', 'l:1')", 0, rng.IntN(databases), d.value(),
			rng.IntN(databases))
	case 8:
		name := "lib" + strconv.Itoa(rng.IntN(3))
		return one("FUNCTION", "LOAD", "REPLACE", "#!lua name="+name+"\nredis.register_function('"+name+
			"', function(keys, args) "+
			"redis.call('RPUSH', keys[1], args[1], "+strconv.Itoa(d.IntN(9))+
			") return redis.call('ZINCRBY', 'z:1', 1, args[1]) end)")
	case 9, 10:
		return one("FCALL", "lib"+strconv.Itoa(rng.IntN(3)), 1, "l:"+d.value(), d.value())
	case 11:
		if rng.IntN(10) == 0 {
			return one("FUNCTION", "DELETE", "lib"+strconv.Itoa(rng.IntN(3)))
		}
		return one("PUBLISH", "channel", d.value())
	case 12:
		requests := one("MULTI")
		for range 1 + rng.IntN(6) {
			requests = append(requests, k.make[rng.IntN(len(k.make))](d))
		}
		return append(requests, []any{"EXEC"})
	}
	return one(k.make[rng.IntN(len(k.make))](d)...)
}
