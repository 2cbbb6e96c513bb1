package differential

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"spindle/protocol/respclient"
)

// A likeness defines when two replies to one command are alike although their bytes differ, and why. It does not apply
// to errors: two errors are equal or they differ.
type likeness struct {
	commands string // separated by spaces
	why      string
	alike    func(args []string, want, got respclient.Value) bool
}

var likenesses = []likeness{
	{"keys smembers sunion sinter sdiff hkeys hvals", "the order of a table is not promised", sameMembers},
	{"hgetall", "the order of a table is not promised", samePairs},
	{"srandmember hrandfield zrandmember", "random: as many of the same shape, and none twice unless asked for", sameDraw},
	{"sort sort_ro", "a set by nothing comes in its table's order, and so do elements whose ALPHA weights are equal",
		sameSorted},
	{"xpending", "idle times are counted from two clocks", samePending},
	{"xinfo", "times are two clocks'", sameTold},
	{"httl hexpiretime", "clocks apart", timesWithin(2)},
	{"hpttl hpexpiretime", "clocks apart", timesWithin(2000)},
	{"scan sscan hscan zscan",
		"cursors and what one step returns belong to the table; the state's comparison walks to the end", sameWalk},
	{"randomkey", "random: both find a key, or none", bothOrNeither},
	{"ttl", "the two read their clocks apart", within(2)},
	{"pttl", "the two read their clocks apart", within(2000)},
	{"expiretime", "a ttl was added to two clocks", within(2)},
	{"pexpiretime", "a ttl was added to two clocks", within(2000)},
	{"object", "IDLETIME is counted from two clocks, means nothing past half the 24-bit clock's turn, and belongs to " +
		"all keys " +
		"with the same small integer there. REFCOUNT counts holders of a C object: " +
		"one more for MULTI's queue, and not 2147483647 for a small integer that came by COPY or RESTORE", sameObject},
	{"time lastsave", "the clock", sameShape},
	{"dbsize", "counts keys past their deadline until a call meets them; the state's comparison counts without them",
		within(8)},
	{"hello", "identity: id and version", sameHello},
	{"dump", "payloads may be packed differently; the state's comparison restores each into the other", bothOrNeither},
}

var likenessOf = func() map[string]*likeness {
	of := map[string]*likeness{}
	for i := range likenesses {
		for name := range strings.FieldsSeq(likenesses[i].commands) {
			of[name] = &likenesses[i]
		}
	}
	return of
}()

// alike compares two parsed replies to one call.
func alike(args []string, want, got respclient.Value) bool {
	if want.Kind != got.Kind || want.Null != got.Null {
		return false
	}
	if equal(want, got) {
		return true
	}
	l := likenessOf[strings.ToLower(args[0])]
	return l != nil && want.Kind != '-' && l.alike(args, want, got)
}

func equal(a, b respclient.Value) bool {
	return a.Kind == b.Kind && a.Null == b.Null && a.Text == b.Text && a.Int == b.Int && a.Format == b.Format &&
		slices.EqualFunc(a.Elems, b.Elems, equal)
}

// within compares integers: they are alike if they differ by at most most. -1 and -2 have special meanings, so they
// must be equal.
func within(most int64) func([]string, respclient.Value, respclient.Value) bool {
	return func(_ []string, want, got respclient.Value) bool {
		return want.Kind == ':' && want.Int >= 0 && got.Int >= 0 && max(want.Int-got.Int, got.Int-want.Int) <= most
	}
}

// sameMembers compares arrays of strings without regard to order.
func sameMembers(_ []string, want, got respclient.Value) bool {
	a, b := want.Strings(), got.Strings()
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// samePairs compares maps, or arrays of alternating names and values, without regard to order.
func samePairs(_ []string, want, got respclient.Value) bool {
	pairs := func(v respclient.Value) (list []string) {
		for i := 0; i+1 < len(v.Elems); i += 2 {
			list = append(list, fmt.Sprintf("%q %q", v.Elems[i].Text, v.Elems[i+1].Text))
		}
		slices.Sort(list)
		return list
	}
	return len(want.Elems) == len(got.Elems) && slices.Equal(pairs(want), pairs(got))
}

// sameDraw compares random draws: only the number of elements and their shape must be equal. An element may come twice
// only with a negative count.
func sameDraw(args []string, want, got respclient.Value) bool {
	if want.Kind == '$' {
		return true
	}
	if len(want.Elems) != len(got.Elems) || slices.ContainsFunc(got.Elems,
		func(e respclient.Value) bool { return e.Kind != got.Elems[0].Kind }) {
		return false
	}
	if len(args) < 3 || len(got.Elems) == 0 {
		return true
	}
	if want.Elems[0].Kind != got.Elems[0].Kind || len(want.Elems[0].Elems) != len(got.Elems[0].Elems) {
		return false
	}
	if strings.HasPrefix(args[2], "-") {
		return true
	}
	step := 1
	if len(args) > 3 && want.Elems[0].Kind != '*' {
		step = 2 // WITHVALUES and WITHSCORES in RESP2: names and values alternate
	}
	seen := map[string]bool{}
	for i := 0; i < len(got.Elems); i += step {
		name := got.Elems[i].Text
		if e := got.Elems[i].Elems; len(e) > 0 {
			name = e[0].Text
		}
		if seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}

// sameSorted compares replies to SORT. Elements of equal weight have no fixed order. Then a whole reply is compared
// without order, and a part of one only by length. With BY, weights may be equal. With ALPHA, elements are equal if
// they agree up to a zero byte, because Redis's comparison ends there.
func sameSorted(args []string, want, got respclient.Value) bool {
	by, part := containsFold(args[2:], "BY"), containsFold(args[2:], "LIMIT")
	switch {
	case !by && !containsFold(args[2:], "ALPHA") || len(want.Elems) != len(got.Elems):
		return false
	case !by && !containsFold(args[2:], "GET") && !slices.EqualFunc(want.Elems, got.Elems, equalToZero):
		return false
	}
	return part || sameMembers(nil, want, got)
}

// equalToZero compares two strings up to their first zero byte.
func equalToZero(a, b respclient.Value) bool {
	x, _, _ := strings.Cut(a.Text, "\x00")
	y, _, _ := strings.Cut(b.Text, "\x00")
	return x == y
}

// samePending compares replies to XPENDING. Idle times in the extended form may differ.
func samePending(_ []string, want, got respclient.Value) bool {
	return len(want.Elems) == len(got.Elems) && !slices.ContainsFunc(pairsOf(want.Elems, got.Elems),
		func(e [2]respclient.Value) bool {
			a, b := e[0].Elems, e[1].Elems
			return len(a) != 4 || len(b) != 4 || !equal(a[0], b[0]) || !equal(a[1], b[1]) || !equal(a[3], b[3]) ||
				!within(5000)(nil, a[2], b[2])
		})
}

// pairsOf pairs the elements of two lists of the same length.
func pairsOf(a, b []respclient.Value) (pairs [][2]respclient.Value) {
	for i := range a {
		pairs = append(pairs, [2]respclient.Value{a[i], b[i]})
	}
	return pairs
}

// sameWalk compares steps of SCAN and similar commands. A single step that covers everything must return the same
// elements. Other steps must only have the same shape.
func sameWalk(args []string, want, got respclient.Value) bool {
	if len(want.Elems) != 2 || len(got.Elems) != 2 || want.Elems[1].Kind != got.Elems[1].Kind {
		return false
	}
	from := cursorAt(args)
	whole := from < len(args) && args[from] == "0" && want.Elems[0].Text == "0" && got.Elems[0].Text == "0"
	return !whole || sameMembers(nil, want.Elems[1], got.Elems[1])
}

// bothOrNeither is for replies that only need to be both null or both not null. alike has already compared that.
func bothOrNeither([]string, respclient.Value, respclient.Value) bool { return true }

func sameObject(args []string, want, got respclient.Value) bool {
	if len(args) != 3 || want.Kind != ':' {
		return false
	}
	if strings.EqualFold(args[1], "idletime") {
		return within(2)(args, want, got) || got.Int >= 1<<23 || got.Int <= 2
	}
	return strings.EqualFold(args[1], "refcount") && (want.Int == 1 || want.Int == 2) &&
		(got.Int == 1 || got.Int == math.MaxInt32)
}

// sameShape compares the numbers of elements.
func sameShape(_ []string, want, got respclient.Value) bool { return len(want.Elems) == len(got.Elems) }

// sameHello compares HELLO's fields, except those that name the server, the connection and the modules.
func sameHello(_ []string, want, got respclient.Value) bool {
	if len(want.Elems) != len(got.Elems) {
		return false
	}
	for i := 0; i+1 < len(want.Elems); i += 2 {
		name := want.Elems[i].Text
		if got.Elems[i].Text != name || (name != "id" && name != "version" && name != "modules" &&
			!equal(want.Elems[i+1], got.Elems[i+1])) {
			return false
		}
	}
	return true
}

// judge reports whether replies are alike, or differ in a way that is known for this version of Redis.
func judge(ref oracle, args []string, want, got respclient.Value) bool {
	return alike(args, want, got) || excused(ref, args, want, got)
}

// A queue is a connection's state between MULTI and EXEC. EXEC's reply is compared call by call.
type queue struct {
	open  bool
	calls [][]string
}

var (
	ok     = []byte("+OK\r\n")
	queued = []byte("+QUEUED\r\n")
	// execAbort is EXEC's reply after a mistake in the transaction or in EXEC itself. It ends the transaction.
	execAbort = []byte("-EXECABORT")
)

// compare judges the two replies to one call, and tracks its transaction.
func (q *queue) compare(ref oracle, c *call, want, got []byte) (same bool) {
	calls := q.calls
	switch {
	case bytes.Equal(want, queued):
		q.calls = append(q.calls, c.args)
	case !q.open && c.isName("multi") && bytes.Equal(want, ok):
		q.open = true
	case q.open && (len(c.args) == 1 && (c.isName("exec") || c.isName("discard")) || bytes.HasPrefix(want, execAbort)):
		q.open, q.calls = false, nil
	}
	if bytes.Equal(want, got) {
		return true
	}
	a, b := parse(want), parse(got)
	if !c.isName("exec") || a.Kind != '*' || a.Null {
		return judge(ref, c.args, a, b)
	}
	if len(a.Elems) != len(b.Elems) || len(a.Elems) != len(calls) || b.Kind != '*' {
		return false
	}
	for i := range calls {
		if !judge(ref, calls[i], a.Elems[i], b.Elems[i]) {
			return false
		}
	}
	return true
}

// isName compares the command's name without regard to case.
func (c *call) isName(name string) bool { return strings.EqualFold(c.args[0], name) }
