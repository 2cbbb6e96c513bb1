package engine

import (
	"math"
	"strings"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A guest is a client without a connection, who asks by another door than a socket: the admin address's page and its
// console. It may only read.

// NewGuest is a client that asks as the user u. nil is the server itself, which may read everything.
func NewGuest(u *acl.User) *client.Client {
	cl := &client.Client{
		Flags: client.Fake | client.DenyBlocking | client.NoTouch, Protocol: 3, Authenticated: true,
		LastCommand: "NULL", Out: &protocol.Reply{RESP3: true},
	}
	if u != nil {
		cl.User = u
	}
	return cl
}

// guestMost is how many elements a guest's command of inParts or asks may read: about a millisecond's work.
const guestMost = 10_000

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

// beside says how many elements a call reads by the number next to word, which is looked for from argument from on. 0
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
func (c *Core) admitWhole(cl *client.Client, call Call) error {
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
	return errGuestReadsMuch(strings.ToUpper(call.Spec.Name), n, use)
}

// forGuests says whether a guest may run commands with these flags: none that changes data, waits or listens.
func forGuests(flags command.Flags) bool {
	listens := flags&command.PubSub != 0 && flags&command.NoScript != 0
	waits := flags&command.Blocking != 0 && flags&command.ReadOnly == 0 // who reads and cannot wait gets what is there
	return flags&(command.Write|command.MayReplicate) == 0 && !listens && !waits
}

// Consult runs one command as the guest cl. What refuses a client refuses a guest, but a guest never waits: where a
// client would, it is told why. The command is counted as a client's is. Turn only.
//
// Lifetime: args are lent until Consult returns. cl.Out has the reply, and pieces of it may be lent: its owner reads
// them before the turn ends, and resets it.
// Errors: those of the catalogue and of admission. Then nothing was run. A command's own error is its reply.
func (c *Core) Consult(cl *client.Client, args [][]byte) error {
	c.assertHeld()
	spec, err := c.catalogue.Resolve(c.catalogue.Lookup(args[0]), args)
	if err == nil {
		_, err = c.admit(byGuest, cl, callOf(cl, spec, args))
	}
	if err != nil {
		c.meter.rejected(spec, err)
		return err
	}
	began := c.wall.Nanos()
	c.invokeGuest(cl, spec, args)
	if c.monitors.Len() != 0 {
		c.feedMonitors(cl, spec, args)
	}
	took := c.wall.Nanos() - began
	c.done(cl, spec, args, 1, took, took)
	return nil
}

// Observe is Consult for the server's own eyes: it is admitted whatever stands in the way of clients, and leaves no
// trace in what is counted and logged. args must not name a key: data may not be whole, or lent. Turn only.
//
// Lifetime and errors: as Consult's.
func (c *Core) Observe(cl *client.Client, args [][]byte) error {
	c.assertHeld()
	spec, err := c.catalogue.Resolve(c.catalogue.Lookup(args[0]), args)
	if err != nil {
		return err
	}
	if !forGuests(spec.Flags) {
		return errGuestWrites
	}
	c.invokeGuest(cl, spec, args)
	return nil
}

// invokeGuest runs an admitted command of a guest's, and tells of keys that it has found past their deadline.
func (c *Core) invokeGuest(cl *client.Client, spec *command.Spec, args [][]byte) {
	cl.LastCommand, cl.LastMs = spec.Full, c.nowMs
	_, _ = c.invoke(cl, args, nil, spec, cl.Out.Mark())
	if c.stack.unit.effects != 0 {
		c.flushUnit()
	}
	c.unitEnded()
}
