package engine

import (
	"math"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/number"
	"spindle/internal/setting"
)

// COMMANDLOG records slow commands (laps.go), large requests and large replies. The parser has recorded where a request
// ends, and a mark records where its reply begins. So an ordinary call costs two comparisons.

// ApplyLogLimits applies the limits of the command logs. If slowlog-log-slower-than is under a millisecond, every
// command is timed alone. Turn only.
func (c *Core) ApplyLogLimits() {
	c.assertHeld()
	slow := c.settings.SlowlogSlowerThan.Get()
	c.meter.precise = slow >= 0 && slow < 1000 || c.slotStats != nil
	c.large.request, c.large.reply = limitOf(&c.settings.LargeRequest), limitOf(&c.settings.LargeReply)
	if c.large.noted = c.large.request; c.slotStats != nil {
		c.large.noted = 1
	}
}

// limitOf returns a limit of the command logs. It is at least 1, so an empty reply is never logged.
func limitOf(s *setting.Int) int {
	if n := s.Get(); n >= 0 {
		return int(max(n, 1))
	}
	return math.MaxInt
}

// noteSizes logs a finished call if its request or its reply is large. sent is 0 if the request is known to be small.
// args are the request's arguments. noteSizes counts the bytes for the slot n.
func (c *Core) noteSizes(cl *client.Client, spec *command.Spec, args [][]byte, n counted, sent, replied int) {
	if cl.Flags&(unheard|client.Primary) != 0 {
		replied = 0
	}
	if sent >= c.large.request {
		c.log(cl, spec, args, part.Measure{Log: part.LargeRequest, Value: int64(sent)})
	}
	if replied >= c.large.reply {
		c.log(cl, spec, args, part.Measure{Log: part.LargeReply, Value: int64(replied)})
	}
	if spec.Has(command.RunsQueue) {
		sent += len(multiBytes)
	}
	c.countBytes(n, sent, replied)
}

// countBytes counts a request and a reply for the slot n.
func (c *Core) countBytes(n counted, in, out int) {
	if n > uncounted && c.slotStats != nil {
		s := &c.slotStats.of[n-1]
		s.In, s.Out = s.In+uint64(in), s.Out+uint64(out)
	}
}

// log passes a call to the command logs. A command of a script is logged for the client that has called the script.
func (c *Core) log(cl *client.Client, spec *command.Spec, args [][]byte, m part.Measure) {
	if c.hooks.Logged == nil || spec.Flags&command.SkipSlowlog != 0 {
		return
	}
	if cl.Is(client.InScript) {
		cl = c.Current()
	}
	c.hooks.Logged(cl, args, m)
}

// requestBytes returns the length of a request with these arguments. It returns 0 if the limits log no request.
func (c *Core) requestBytes(args [][]byte) int {
	if c.large.noted == math.MaxInt {
		return 0
	}
	header := func(n int) int { return number.IntLen(int64(n)) + 3 }
	sum := header(len(args))
	for _, a := range args {
		sum += header(len(a)) + len(a) + 2
	}
	return sum
}
