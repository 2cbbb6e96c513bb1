package engine

import (
	"math"
	"strings"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
)

// inParts has the commands that read a key or a database as a whole. For each it names the command that reads in parts.
var inParts = map[string]string{
	"keys": "SCAN", "hgetall": "HSCAN", "hkeys": "HSCAN", "hvals": "HSCAN", "smembers": "SSCAN", "sinter": "SSCAN",
	"sintercard": "SSCAN", "sunion": "SSCAN", "sdiff": "SSCAN", "zinter": "ZSCAN", "zintercard": "ZSCAN",
	"zunion": "ZSCAN", "zdiff": "ZSCAN", "sort_ro": "SSCAN, ZSCAN or LRANGE",
}

// asks has the commands whose arguments say how much of a key or a database they read. For each it names what to make
// smaller.
var asks = map[string]struct {
	most func(args [][]byte, size int64) int64 // the most elements that a call reads of a key that has size of them
	use  string
}{
	"scan": {beside("COUNT", 2, 10), "a small COUNT"}, "hscan": {beside("COUNT", 3, 10), "a small COUNT"},
	"sscan": {beside("COUNT", 3, 10), "a small COUNT"}, "zscan": {beside("COUNT", 3, 10), "a small COUNT"},
	"hrandfield": {picked, "a smaller count"}, "srandmember": {picked, "a smaller count"},
	"zrandmember": {picked, "a smaller count"},
	"lrange":      {spanned, "a shorter range"}, "zrevrange": {spanned, "a shorter range"},
	"zrange":           {zranged, "a shorter range or a small LIMIT"},
	"zrangebyscore":    {beside("LIMIT", 4, 0), "a small LIMIT"},
	"zrevrangebyscore": {beside("LIMIT", 4, 0), "a small LIMIT"},
	"zrangebylex":      {beside("LIMIT", 4, 0), "a small LIMIT"},
	"zrevrangebylex":   {beside("LIMIT", 4, 0), "a small LIMIT"},
	"xrange":           {beside("COUNT", 4, 0), "a small COUNT"}, "xrevrange": {beside("COUNT", 4, 0), "a small COUNT"},
	"xread": {beside("COUNT", 1, 0), "a small COUNT"}, "xinfo|stream": {beside("COUNT", 4, 10), "a small COUNT"},
	"lpos": {beside("MAXLEN", 3, 0), "a small MAXLEN"}, "memory|usage": {beside("SAMPLES", 3, 5), "few SAMPLES"},
}

// beside says how many elements a call reads by the number next to word. The search for word begins at argument from. 0
// and less is all of them. Of LIMIT the second number counts. Without the word a call reads absent.
func beside(word string, from int, absent int64) func([][]byte, int64) int64 {
	second := 0
	if word == "LIMIT" {
		second = 1
	}
	return func(args [][]byte, size int64) int64 {
		most := absent
		for i := from; i+1+second < len(args); i++ {
			if !command.Is(args[i], word) {
				continue
			}
			if n, err := command.Int(args[i+1+second]); err == nil {
				most = n
			}
		}
		if most <= 0 {
			return size
		}
		return min(most, size)
	}
}

// picked says how many elements a call picks at random. Fewer than 0 may be the same ones, so there is no end to them.
func picked(args [][]byte, size int64) int64 {
	if len(args) < 3 || size == 0 {
		return min(1, size)
	}
	n, err := command.Int(args[2])
	switch {
	case err != nil:
		return 0
	case n < 0:
		return -max(n, -math.MaxInt64)
	}
	return min(n, size)
}

// spanned says how many elements lie between two indexes, which count from the end if they are below 0.
func spanned(args [][]byte, size int64) int64 {
	if len(args) < 4 {
		return 0
	}
	first, err := command.Int(args[2])
	last, err2 := command.Int(args[3])
	if err != nil || err2 != nil {
		return 0
	}
	if first < 0 {
		first = max(first+size, 0)
	}
	if last < 0 {
		last += size
	}
	return max(min(last, size-1)-min(first, size)+1, 0)
}

// zranged is spanned for ZRANGE, whose bounds may be scores or texts.
func zranged(args [][]byte, size int64) int64 {
	for _, a := range args[min(len(args), 4):] {
		if command.Is(a, "BYSCORE") || command.Is(a, "BYLEX") {
			return beside("LIMIT", 4, 0)(args, size)
		}
	}
	return spanned(args, size)
}

// admitWhole refuses a command of inParts or asks that may read more than guestMost elements. A guest's command cannot
// lend the turn, so all clients would wait for it.
func (c *Core) admitWhole(cl *client.Client, call part.Call) error {
	asked := asks[call.Spec.Full]
	use := inParts[call.Spec.Full] + asked.use
	if use == "" {
		return nil
	}
	most := func(size int64) int64 {
		if asked.most != nil {
			return asked.most(call.Args, size)
		}
		return size
	}
	db, n := c.space.DB(cl.DB), int64(0)
	if !call.Spec.HasKeys(command.IncludeNotKeys) {
		n = most(int64(db.Len()))
	}
	keys, err := call.Spec.AppendKeys(nil, call.Args, 0)
	if err != nil {
		return nil // the handler says what is wrong
	}
	for _, k := range keys {
		n += most(db.Elements(call.Args[k.Index]))
	}
	if n <= guestMost {
		return nil
	}
	return errGuestReadsMuch(strings.ToUpper(call.Spec.Name), n, guestMost, use)
}

// guestMost is how many elements a guest's command of inParts or asks may read: about a millisecond's work.
const guestMost = 10_000

// forGuests says whether a guest may run commands with these flags: none that changes data, waits or listens.
func forGuests(flags command.Flags) bool {
	listens := flags&command.PubSub != 0 && flags&command.NoScript != 0
	// A command that reads and cannot wait answers at once.
	waits := flags&command.Blocking != 0 && flags&command.ReadOnly == 0
	return flags&(command.Write|command.MayReplicate) == 0 && !listens && !waits
}
