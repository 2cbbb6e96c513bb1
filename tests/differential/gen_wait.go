package differential

import (
	"strconv"
	"strings"
)

// A plan has few keys, so that clients wait for the same keys. Deadlines are past or absent, because the two clocks
// differ. Nearly all elements differ, so that a client's element shows when the client was served. The IDs of entries
// follow from their number.
var (
	planKey   = oneOf(exactly("a"), exactly("a"), exactly("b"), exactly("b"), exactly("c"), exactly("c"), exactly("d"))
	planSide  = anyOf("LEFT", "RIGHT")
	planValue = func(g *generator) { g.add("v" + g.between(0, 100_000)) }
	score     = func(g *generator) { g.add(g.between(0, 20)) }
	entryID   = oneOf(exactly("0"), exactly("7-1"), exactly("7-3"), exactly("7-1000"))
	handful   = func(g *generator) { g.add(g.between(1, 4)) }
	upToFew   = maybe(50, lit("COUNT"), handful)
	longWait  = oneOf(exactly("0"), exactly("0"), exactly("0"), exactly("1000"), exactly("0.0"))
	planWait  = func(g *generator) {
		if longWait(g); g.chance(4) {
			g.args[len(g.args)-1] = shortWait
		}
	}
	planBlock = seq(lit("BLOCK"), func(g *generator) {
		g.add(pick(g, []string{"0", "0", "0", "1000000"}))
		if g.chance(4) {
			g.args[len(g.args)-1] = shortWaitMs
		}
	})
)

// shortWait is the longest wait that times out, in seconds and in milliseconds. No other argument of a plan looks the
// same.
const (
	shortWait   = "0.01"
	shortWaitMs = "10"
)

// waitKey adds a key for which a client waits.
func waitKey(g *generator) {
	if g.meet != "" {
		g.add(g.meet)
		return
	}
	planKey(g)
}

// someWaits returns the number of keys for which one call waits. 7.0 only checks the key that is ready. 7.4 first
// checks the call's first key, which may have another type or other elements. So in plans for 7.0 each call waits for
// one key.
func someWaits(g *generator) int {
	if strings.HasPrefix(g.reference, "7.0") {
		return 1
	}
	return 1 + g.rng.IntN(3)
}

func waitKeys(g *generator) {
	for range someWaits(g) {
		waitKey(g)
	}
}

// countedWaitKeys adds a number of keys and the keys.
func countedWaitKeys(g *generator) {
	n := someWaits(g)
	g.add(strconv.Itoa(n))
	for range n {
		waitKey(g)
	}
}

// countedKeys adds a number of keys and the keys, for calls that do not wait.
func countedKeys(g *generator) {
	n := 1 + g.rng.IntN(3)
	g.add(strconv.Itoa(n))
	for range n {
		planKey(g)
	}
}

// A scarcity is something for which clients wait. It has the calls that wait for it, and the calls that add or remove
// it.
type scarcity struct {
	waits, gives family
}

// scarcities has a table for each type of value, and one for consumer groups.
var scarcities = []scarcity{
	{
		waits: family{name: "lists", templates: []template{
			{3, "blpop", []arg{waitKeys, planWait}},
			{3, "brpop", []arg{waitKeys, planWait}},
			{3, "blmove", []arg{waitKey, waitKey, planSide, planSide, planWait}},
			{1, "brpoplpush", []arg{waitKey, waitKey, planWait}},
			{3, "blmpop", []arg{planWait, countedWaitKeys, planSide, upToFew}},
		}},
		gives: family{templates: []template{
			{16, "rpush", []arg{planKey, times(1, 4, planValue)}},
			{8, "lpush", []arg{planKey, times(1, 3, planValue)}},
			{1, "lpop", []arg{planKey, maybe(30, handful)}},
			{1, "rpop", []arg{planKey}},
			{3, "lmove", []arg{planKey, planKey, planSide, planSide}},
			{1, "rpoplpush", []arg{planKey, planKey}},
			{1, "lmpop", []arg{countedKeys, planSide, upToFew}},
			{1, "linsert", []arg{planKey, lit("BEFORE"), planValue, planValue}},
			{1, "rpushx", []arg{planKey, planValue}},
			{1, "ltrim", []arg{planKey, exactly("1"), exactly("-1")}},
		}},
	},
	{
		waits: family{name: "zsets", templates: []template{
			{2, "bzpopmin", []arg{waitKeys, planWait}},
			{2, "bzpopmax", []arg{waitKeys, planWait}},
			{2, "bzmpop", []arg{planWait, countedWaitKeys, anyOf("MIN", "MAX"), upToFew}},
		}},
		gives: family{templates: []template{
			{16, "zadd", []arg{planKey, times(1, 3, score, planValue)}},
			{2, "zincrby", []arg{planKey, score, planValue}},
			{1, "geoadd", []arg{planKey, score, score, planValue}},
			{1, "zpopmin", []arg{planKey}},
			{1, "zmpop", []arg{countedKeys, anyOf("MIN", "MAX"), upToFew}},
			{1, "zremrangebyrank", []arg{planKey, exactly("0"), exactly("0")}},
		}},
	},
	{
		waits: family{name: "streams", templates: []template{
			{3, "xread", []arg{upToFew, planBlock, lit("STREAMS"), waitKey, oneOf(exactly("$"), exactly("$"), entryID)}},
		}},
		gives: family{templates: []template{
			{16, "xadd", []arg{planKey, maybe(20, lit("MAXLEN"), handful), exactly("7-*"), exactly("f"), planValue}},
			{1, "xadd", []arg{planKey, lit("NOMKSTREAM"), exactly("7-*"), exactly("f"), planValue}},
		}},
	},
	{
		// 7.0 has other errors for clients whose stream is deleted, and creates no consumer while a client waits. If a
		// stream has no entries, and its last ID is beyond a client's ID, the client gets no reply. Two streams are two
		// keys (someWaits).
		waits: family{name: "groups", parts: "7.0", templates: []template{
			{8, "xreadgroup", []arg{exactly("GROUP"), exactly("g"), anyConsumer, upToFew, planBlock, maybe(20, lit("NOACK")),
				lit("STREAMS"), waitKey, exactly(">")}},
			{2, "xreadgroup", []arg{exactly("GROUP"), exactly("g"), anyConsumer, planBlock, lit("STREAMS"), waitKey, waitKey,
				exactly(">"), exactly(">")}},
			{1, "xread", []arg{planBlock, lit("STREAMS"), waitKey, lastEntry}},
			{2, "xread", []arg{planBlock, lit("STREAMS"), waitKey, waitKey, oneOf(exactly("$"), entryID), exactly("$")}},
		}},
		gives: family{templates: []template{
			{12, "xadd", []arg{planKey, exactly("7-*"), exactly("f"), planValue}},
			{6, "xgroup|create", []arg{planKey, exactly("g"), oneOf(exactly("0"), exactly("$")), lit("MKSTREAM")}},
			{2, "xgroup|destroy", []arg{planKey, exactly("g")}},
			{1, "xgroup|setid", []arg{planKey, exactly("g"), entryID}},
			{1, "xgroup|delconsumer", []arg{planKey, exactly("g"), anyConsumer}},
			{1, "xack", []arg{planKey, exactly("g"), exactly("7-0"), exactly("7-1")}},
			{1, "xsetid", []arg{planKey, exactly("7-1000")}},
			{1, "xtrim", []arg{planKey, lit("MAXLEN"), oneOf(exactly("0"), exactly("1"))}},
			{1, "xdel", []arg{planKey, exactly("7-1")}},
		}},
	},
}

var anyConsumer = oneOf(exactly("c1"), exactly("c2"))

// acts has calls about keys of any type.
var acts = family{name: "acts", templates: []template{
	{2, "del", []arg{times(1, 2, planKey)}},
	{1, "unlink", []arg{planKey}},
	{1, "getdel", []arg{planKey}},
	{3, "rename", []arg{planKey, planKey}},
	{1, "renamenx", []arg{planKey, planKey}},
	{3, "copy", []arg{planKey, planKey, maybe(30, lit("DB"), oneOf(exactly("0"), exactly("1"))),
		maybe(60, lit("REPLACE"))}},
	{2, "move", []arg{planKey, oneOf(exactly("0"), exactly("1"))}},
	{1, "set", []arg{planKey, planValue}},
	{1, "sadd", []arg{planKey, planValue}},
	{1, "sunionstore", []arg{planKey, planKey, planKey}},
	{1, "pexpire", []arg{planKey, exactly("0")}},
	{1, "expire", []arg{planKey, exactly("-1")}},
	{1, "flushdb", nil},
	{1, "flushall", nil},
	{1, "select", []arg{oneOf(exactly("0"), exactly("0"), exactly("1"))}},
}}

// swaps make many keys ready at once. Redis then serves them in the order of a hash table with a random seed. So in a
// plan with swaps all clients wait for one key.
var swaps = family{name: "swaps", templates: []template{
	{4, "swapdb", []arg{exactly("0"), exactly("1")}},
}}

// stores write a result to a key. They delete the key first. Otherwise spindle would also serve clients that wait for a
// result of another type. Redis does not (COMPATIBILITY.md), so the data would differ.
var stores = family{name: "stores", templates: []template{
	{2, "sort", []arg{oneOf(exactly("a"), exactly("b")), lit("BY"), exactly("nosort"), lit("STORE"), exactly("d")}},
	{1, "zunionstore", []arg{exactly("d"), exactly("2"), exactly("a"), exactly("b")}},
	{1, "zrangestore", []arg{exactly("d"), exactly("a"), exactly("0"), exactly("-1")}},
}}

// lastEntry adds +, unless known.go has a replacement for this version of Redis.
func lastEntry(g *generator) { g.add(mendFor(g.reference, false, []string{"xread", "+"})[1]) }
