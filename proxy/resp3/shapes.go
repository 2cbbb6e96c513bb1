package resp3

import (
	"strconv"
	"strings"

	"spindle/internal/ascii"
)

// The shapes of replies, as Redis 7.0 has them in RESP3. A script's reply is plain: RESP2 has lost what of it was a
// map, a set or a double.

var (
	number   = &Shape{kind: double}
	aSet     = &Shape{kind: set}
	aMap     = &Shape{kind: flat}
	maps     = &Shape{kind: each, of: aMap}
	numbers  = &Shape{kind: each, of: number}
	scored   = &Shape{kind: pairs, of: number}
	scores   = &Shape{kind: each, of: &Shape{kind: tuple, parts: []*Shape{nil, number}}}
	places   = &Shape{kind: each, of: numbers}
	around   = &Shape{kind: each, of: places}
	verbatim = &Shape{kind: text}
)

// shapes are the commands whose replies have another form in RESP3, by the name of a row of COMMAND. args begin with
// the command's name.
var shapes = map[string]func(args [][]byte) *Shape{
	"hgetall":    always(aMap),
	"hrandfield": option(3, "withvalues", &Shape{kind: pairs}),

	"smembers": always(aSet), "sinter": always(aSet), "sunion": always(aSet), "sdiff": always(aSet), "spop": always(aSet),

	"zscore": always(number), "zincrby": always(number), "zadd": always(number), "zmscore": always(numbers),
	"zrange": option(4, "withscores", scored), "zrevrange": option(4, "withscores", scored),
	"zrangebyscore": option(4, "withscores", scored), "zrevrangebyscore": option(4, "withscores", scored),
	"zunion": combined, "zinter": combined, "zdiff": combined, "zrandmember": option(3, "withscores", scored),
	"zrank":    always(&Shape{kind: tuple, parts: []*Shape{nil, number}}),
	"zrevrank": always(&Shape{kind: tuple, parts: []*Shape{nil, number}}),
	"zpopmin":  popped, "zpopmax": popped,
	"bzpopmin": always(&Shape{kind: tuple, parts: []*Shape{nil, nil, number}}),
	"bzpopmax": always(&Shape{kind: tuple, parts: []*Shape{nil, nil, number}}),
	"zmpop":    always(&Shape{kind: tuple, parts: []*Shape{nil, scores}}),
	"bzmpop":   always(&Shape{kind: tuple, parts: []*Shape{nil, scores}}),

	"geopos": always(places), "geosearch": always(around), "georadius": always(around),
	"georadius_ro": always(around), "georadiusbymember": always(around), "georadiusbymember_ro": always(around),

	"xread": always(&Shape{kind: entries}), "xreadgroup": always(&Shape{kind: entries}),
	"xinfo|stream": always(&Shape{kind: fields, named: map[string]*Shape{"groups": {kind: each, of: &Shape{kind: fields,
		named: map[string]*Shape{"consumers": maps}}}}}),
	"xinfo|groups": always(maps), "xinfo|consumers": always(maps),

	"lcs":    always(aMap),
	"lolwut": always(verbatim),

	"acl|getuser": always(&Shape{kind: fields, named: map[string]*Shape{"flags": aSet, "selectors": maps}}),

	"function|list": always(&Shape{kind: each, of: &Shape{kind: fields, named: map[string]*Shape{"functions": {kind: each,
		of: &Shape{kind: fields, named: map[string]*Shape{"flags": aSet}}}}}}),
	"function|stats": always(&Shape{kind: fields, named: map[string]*Shape{"running_script": aMap,
		"engines": {kind: flat, of: aMap}}}),

	"command": always(commands), "command|info": always(commands),
	"command|docs":            always(&Shape{kind: flat, of: documentation()}),
	"command|getkeysandflags": always(&Shape{kind: each, of: &Shape{kind: tuple, parts: []*Shape{nil, aSet}}}),
}

// unchanged are the commands whose replies differ in nulls alone.
var unchanged = wordSet(`acl|cat acl|dryrun acl|genpass acl|list acl|users acl|whoami append bitcount bitfield
bitfield_ro bitop bitpos blmove blmpop blpop brpop brpoplpush command|count command|getkeys command|list copy dbsize
decr decrby del discard dump echo eval eval_ro evalsha evalsha_ro exists expire expireat expiretime fcall fcall_ro
flushall flushdb function|delete function|dump function|flush function|kill function|load function|restore geoadd
geodist geohash geosearchstore get getbit getdel getex getrange getset hdel hexists hget hincrby hincrbyfloat hkeys
hlen hmget hmset hscan hset hsetnx hstrlen hvals hexpire hexpireat hexpiretime hpersist hpexpire hpexpireat
hpexpiretime hpttl httl incr incrby incrbyfloat keys lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange
lrem lset ltrim memory|purge memory|usage mget migrate move mset msetnx object|encoding object|freq object|idletime
object|refcount persist pexpire pexpireat pexpiretime pfadd pfcount pfmerge ping psetex pttl publish randomkey rename
renamenx restore rpop rpoplpush rpush rpushx sadd scan scard script|exists script|flush script|kill script|load
sdiffstore set setbit setex setnx setrange sintercard sinterstore sismember smismember smove sort sort_ro spublish
srandmember srem sscan strlen substr sunionstore time touch ttl type unlink unwatch wait waitaof watch xack xadd
xautoclaim xclaim xdel xgroup|create xgroup|createconsumer xgroup|delconsumer xgroup|destroy xgroup|setid xlen xpending
xrange xrevrange xsetid xtrim zcard zcount zdiffstore zintercard zinterstore zlexcount zrangebylex zrangestore zrem
zremrangebylex zremrangebyrank zremrangebyscore zrevrangebylex zscan zunionstore`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// Of returns the shape of the reply to a call. name is that of the row of COMMAND, in lower case: "xinfo|stream". known
// is false if the command's form in RESP3 is not known.
func Of(name string, args [][]byte) (s *Shape, known bool) {
	if shape := shapes[name]; shape != nil {
		return shape(args), true
	}
	return nil, unchanged[name] || strings.HasSuffix(name, "|help")
}

// Transaction is the shape of EXEC's reply: of the requests in their order.
func Transaction(parts []*Shape) *Shape { return &Shape{kind: tuple, parts: parts} }

func always(s *Shape) func([][]byte) *Shape { return func([][]byte) *Shape { return s } }

// option is s if a call has the option among its arguments from the given one on; otherwise the reply is plain.
func option(from int, word string, s *Shape) func([][]byte) *Shape {
	return func(args [][]byte) *Shape {
		for i := from; i < len(args); i++ {
			if ascii.EqualFold(args[i], word) {
				return s
			}
		}
		return nil
	}
}

// combined is the shape of ZUNION, ZINTER and ZDIFF numkeys key [key ...] [option ...]. A key may have the option's
// name.
func combined(args [][]byte) *Shape {
	if len(args) < 2 {
		return nil
	}
	keys, err := strconv.Atoi(string(args[1]))
	if err != nil || keys < 0 || keys > len(args)-2 {
		return nil
	}
	return option(2+keys, "withscores", scored)(args)
}

// popped is the shape of ZPOPMIN and ZPOPMAX. Only with a count have members a pair each.
func popped(args [][]byte) *Shape {
	if len(args) > 2 {
		return scored
	}
	return &Shape{kind: tuple, parts: []*Shape{nil, number}}
}

// commands is the shape of COMMAND.
var commands = func() *Shape {
	search := &Shape{kind: fields, named: map[string]*Shape{"spec": aMap}}
	spec := &Shape{kind: fields, named: map[string]*Shape{"flags": aSet, "begin_search": search, "find_keys": search}}
	row := &Shape{kind: tuple}
	row.parts = []*Shape{nil, nil, aSet, nil, nil, nil, aSet, aSet, {kind: set, of: spec}, {kind: some, of: row}}
	return &Shape{kind: each, of: row}
}()

// documentation is the shape of a command in COMMAND DOCS.
func documentation() *Shape {
	argument := &Shape{kind: fields}
	arguments := &Shape{kind: each, of: argument}
	argument.named = map[string]*Shape{"flags": aSet, "arguments": arguments}
	docs := &Shape{kind: fields}
	docs.named = map[string]*Shape{"history": aSet, "doc_flags": aSet, "arguments": arguments,
		"subcommands": {kind: flat, of: docs}}
	return docs
}
