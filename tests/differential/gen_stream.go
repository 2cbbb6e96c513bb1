package differential

import (
	"slices"
	"strconv"
	"strings"

	"spindle/protocol/respclient"
)

// There are few IDs, so that many calls are about the same entries. "*" alone uses the clock and is never sent
// (tameID).
var (
	streamMs  = oneOf(among(1, 9), among(1, 60), among(1, 60))
	streamSeq = among(0, 4)
	plainID   = joined("-", streamMs, streamSeq)
	oddID     = oneOf(exactly("0-0"), exactly("18446744073709551615-18446744073709551615"),
		exactly("18446744073709551615-18446744073709551614"), exactly("0-1"), exactly("-"), exactly("+"), exactly("$"),
		exactly(">"), exactly("5-*"), exactly("*-1"), exactly("1-2-3"), exactly("-1-1"), exactly("1-"), exactly("-1"),
		exactly("18446744073709551616"), integer)
	streamID  = often(12, plainID, 4, streamMs, 1, oddID)
	streamIDs = times(1, 4, streamID)
	rangeFrom = often(3, exactly("-"), 8, streamID, 2, joined("", exactly("("), plainID), 1,
		joined("", exactly("("), oddID))
	rangeTo = often(3, exactly("+"), 8, streamID, 2, joined("", exactly("("), plainID), 1,
		joined("", exactly("("), oddID))
	addID       = often(8, joined("-", streamMs, exactly("*")), 4, plainID, 1, oddID)
	streamGroup = oneOf(exactly("g"), exactly("g"), exactly("g"), exactly("h"), exactly("a longer name"), short)
	streamWho   = oneOf(exactly("ann"), exactly("bob"), exactly("ann"), exactly("consumer:1"),
		exactly("consumer:2"), short)
	streamField = oneOf(exactly("f"), exactly("g"), short)
	streamPairs = often(8, seq(exactly("f"), value, exactly("g"), short), 3, seq(exactly("f"), value), 4,
		times(1, 4, streamField, value), 1, times(1, 3, short))
	bound    = often(8, among(0, 30), 2, among(0, 400), 1, integer)
	trimming = seq(oneOf(
		seq(lit("MAXLEN"), maybe(60, oneOf(exactly("~"), exactly("="))), bound),
		seq(lit("MINID"), maybe(60, oneOf(exactly("~"), exactly("="))), streamID),
	), maybe(25, lit("LIMIT"), often(4, among(0, 120), 1, integer)))
	streamCount = maybe(60, lit("COUNT"), often(4, among(1, 12), 1, integer))
	streamBlock = maybe(3, lit("BLOCK"), exactly("1"))
	readIDs     = often(10, streamID, 3, exactly("0"), 1, exactly("$"), 2, exactly("+"))
	groupIDs    = often(10, exactly(">"), 5, exactly("0"), 2, streamID)
	// Idle times are so far apart that the difference between the clocks does not matter.
	idleMs = often(8, exactly("0"), 4, exactly("1000000"), 4, exactly("2000000"), 1,
		oneOf(exactly("-1"), exactly("9223372036854775807"), exactly("x")))
	aged = often(6, exactly("0"), 6, exactly("1500000"), 6, exactly("2500000"), 1,
		oneOf(exactly("-1"), exactly("9223372036854775807"), exactly("1.5")))
	entriesRead = oneOf(among(-2, 30), among(0, 200), integer)
)

var streamTemplates = []template{
	{30, "xadd", []arg{key, addID, streamPairs}},
	{8, "xadd", []arg{key, maybe(20, lit("NOMKSTREAM")), trimming, maybe(5, lit("NOMKSTREAM")), addID, streamPairs}},
	{2, "xadd", []arg{key, addID, times(40, 120, streamField, integer)}},
	{8, "xdel", []arg{key, streamIDs}},
	{4, "xlen", []arg{key}},
	{8, "xrange", []arg{key, rangeFrom, rangeTo, streamCount}},
	{6, "xrevrange", []arg{key, rangeTo, rangeFrom, streamCount}},
	{6, "xtrim", []arg{key, trimming}},
	{4, "xsetid", []arg{key, streamID, shuffled(seq(lit("ENTRIESADDED"), entriesRead),
		seq(lit("MAXDELETEDID"), streamID))}},
	{8, "xread", []arg{streamCount, streamBlock, lit("STREAMS"), key, readIDs}},
	{4, "xread", []arg{streamCount, lit("STREAMS"), key, key, readIDs, readIDs}},
	{20, "xreadgroup", []arg{lit("GROUP"), streamGroup, streamWho, streamCount, streamBlock, maybe(15, lit("NOACK")),
		lit("STREAMS"), key, groupIDs}},
	{4, "xreadgroup", []arg{lit("GROUP"), streamGroup, streamWho, streamCount, maybe(15, lit("NOACK")), lit("STREAMS"),
		key, key, groupIDs, groupIDs}},
	{14, "xgroup|create", []arg{key, streamGroup, often(6, exactly("0"), 3, exactly("$"), 3, streamID),
		maybe(60, lit("MKSTREAM")), maybe(30, lit("ENTRIESREAD"), entriesRead)}},
	{4, "xgroup|setid", []arg{key, streamGroup, often(4, exactly("0"), 3, exactly("$"), 3, streamID),
		maybe(40, lit("ENTRIESREAD"), entriesRead)}},
	{2, "xgroup|destroy", []arg{key, streamGroup}},
	{4, "xgroup|createconsumer", []arg{key, streamGroup, streamWho}},
	{3, "xgroup|delconsumer", []arg{key, streamGroup, streamWho}},
	{8, "xack", []arg{key, streamGroup, streamIDs}},
	{6, "xpending", []arg{key, streamGroup}},
	{10, "xpending", []arg{key, streamGroup, maybe(30, lit("IDLE"), aged), rangeFrom, rangeTo,
		often(4, among(1, 12), 1, integer), maybe(40, streamWho)}},
	{14, "xclaim", []arg{key, streamGroup, streamWho, aged, streamIDs,
		shuffled(seq(lit("IDLE"), idleMs), seq(lit("RETRYCOUNT"), often(4, among(0, 9), 1, integer)),
			lit("FORCE"), lit("FORCE"), lit("JUSTID"), seq(lit("LASTID"), streamID))}},
	{10, "xautoclaim", []arg{key, streamGroup, streamWho, aged, often(4, exactly("0"), 1, exactly("-"), 4, rangeFrom),
		streamCount, maybe(20, lit("JUSTID"))}},
	{6, "xinfo|stream", []arg{key, maybe(70, lit("FULL"), streamCount)}},
	{4, "xinfo|stream", []arg{key, lit("FULL"), lit("COUNT"), exactly("0")}},
	{6, "xinfo|groups", []arg{key}},
	{4, "xinfo|consumers", []arg{key, streamGroup}},
	{2, "object|encoding", []arg{key}},
	{3, "copy", []arg{key, key, maybe(70, lit("REPLACE"))}},
	{2, "rename", []arg{key, key}},
	{2, "del", []arg{key}},
}

// among adds an integer of [from, to).
func among(from, to int64) arg { return func(g *generator) { g.add(g.between(from, to)) } }

// joined adds several arguments as one, with between as their separator.
func joined(between string, parts ...arg) arg {
	all := seq(parts...)
	return func(g *generator) {
		n := len(g.args)
		all(g)
		whole := strings.Join(g.args[n:], between)
		g.args = append(g.args[:n], whole)
	}
}

// often adds one of several arguments. Its weight precedes each argument.
func often(weighted ...any) arg {
	var args []arg
	for i := 0; i < len(weighted); i += 2 {
		var a arg
		switch w := weighted[i+1].(type) {
		case arg:
			a = w
		case func(*generator):
			a = w
		}
		for range weighted[i].(int) {
			args = append(args, a)
		}
	}
	return oneOf(args...)
}

// tameID replaces IDs that come from the clock, because the clocks of the two servers differ.
func (g *generator) tameID() {
	for i := 2; i < len(g.args); i++ {
		if g.args[i] == "*" {
			g.args[i] = "5-*"
			return
		}
	}
}

// tameCount replaces a number after word that is above most and not above refused. All servers refuse larger numbers.
func (g *generator) tameCount(word string, most, refused int64) {
	for i, a := range g.args[:len(g.args)-1] {
		if n, err := strconv.ParseInt(g.args[i+1], 10, 64); err == nil && n > most && n <= refused &&
			strings.EqualFold(a, word) {
			g.args[i+1] = "77"
		}
	}
}

// sameTold compares XINFO's replies. Times and idle times may differ: these are integers after such a name, or in
// pending entries.
func sameTold(_ []string, want, got respclient.Value) bool { return toldAlike(want, got, "") }

var toldTimes = []string{"idle", "inactive", "seen-time", "active-time"}

func toldAlike(a, b respclient.Value, name string) bool {
	switch {
	case equal(a, b):
		return true
	case a.Kind == ':':
		return (slices.Contains(toldTimes, name) || name == "at") && within(5000)(nil, a, b)
	case a.Kind != b.Kind || len(a.Elems) != len(b.Elems):
		return false
	}
	for i := range a.Elems {
		inside := name
		switch {
		case name == "pending": // an array of entries: ID, the consumer if it is a group's, time, count
			inside = "one pending"
		case name == "one pending":
			inside = ""
			if i == len(a.Elems)-2 {
				inside = "at"
			}
		case i > 0 && a.Elems[i-1].Kind == '$':
			inside = a.Elems[i-1].Text
		}
		if !toldAlike(a.Elems[i], b.Elems[i], inside) {
			return false
		}
	}
	return len(a.Elems) > 0
}
