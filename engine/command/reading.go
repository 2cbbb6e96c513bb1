package command

import (
	"math"

	"spindle/engine/data/value"
	"spindle/protocol"
)

// A Reading is where a command that reads many elements writes its reply: in the turn, or on a goroutine beside the
// turns (engine/reading). A handler does its part in the turn: it checks the call, finds the values and notes the
// access. Then one function reads the values and writes the reply, in either place:
//
//	if c.IsLong(n) {
//		return c.ReadBeside(func(r *command.Reading) error { answerMembers(r, v); return nil })
//	}
//	answerMembers(c.Inline(), v)
//
// Beside the turns it may read the values that the handler has found, and nothing else of the databases. The values do
// not change until it returns. It must not use the Context, nor memory that other calls use.
//
// command.L1. The function calls Step once for each element or so. It may not return: then no client wants the reply.
type Reading struct {
	Reply *protocol.Reply
	Args  [][]byte // of the call; they live until the function returns
	Now   int64    // Unix ms: when the command began

	Hits, Misses int64 // keys that the function has looked for beside the turns; they are counted when it is over

	left  int // steps until rest
	rest  func() (steps int)
	store *value.Store
	apart func() *value.Store
}

// NewReading returns a Reading beside the turns. Its Step calls rest now and then; rest returns the number of steps
// until the next call. apart makes the result of Store when it is first asked for.
func NewReading(reply *protocol.Reply, args [][]byte, now int64, rest func() (steps int),
	apart func() *value.Store) *Reading {
	return &Reading{Reply: reply, Args: args, Now: now, rest: rest, apart: apart}
}

// Store is where the function may build values, for itself. Beside the turns they go when it returns.
func (r *Reading) Store() *value.Store {
	if r.store == nil {
		r.store = r.apart()
	}
	return r.store
}

// Step says that about one more element was read.
func (r *Reading) Step() {
	if r.left--; r.left < 0 {
		r.left = r.rest()
	}
}

// Steps is n times Step.
func (r *Reading) Steps(n int) {
	if r.left -= n; r.left < 0 {
		r.left = r.rest()
	}
}

// Inline is a Reading in the turn. Lifetime: the call.
func (c *Context) Inline() *Reading {
	r := &c.inline
	r.Reply, r.Args, r.Now, r.left, r.store = c.Reply, c.Args, c.Now, math.MaxInt, c.Space.Store()
	return r
}

// IsLong reports whether a call that reads about n elements is to be read beside the turns: long-read-elements is
// exceeded, and the client can wait.
func (c *Context) IsLong(n int) bool {
	limit := c.Settings.LongRead.Get()
	return int64(n) > limit && limit > 0 && c.Core.CanReadBeside(c)
}

// ReadBeside parks the client and has read write the reply beside the turns. The handler returns what ReadBeside
// returns, without a reply. It has changed nothing but clocks and counts, and IsLong has returned true. An error of
// read is the command's reply.
func (c *Context) ReadBeside(read func(*Reading) error) error {
	c.Core.ReadBeside(c, read)
	return nil
}
