package command

import (
	"math"
	"math/rand/v2"
	"unsafe"

	"spindle/engine/data/value"
	"spindle/protocol"
)

// A Reading is where a command that reads many elements writes its reply: in the turn, or on a goroutine outside the
// turn (engine/reading). The handler does its part in the turn: it checks the call, finds the values and records the
// access. Then one function reads the values and writes the reply, in either place:
//
//	if c.IsLong(n) {
//		return c.ReadBeside(func(r *command.Reading) error { answerMembers(r, v); return nil })
//	}
//	answerMembers(c.Inline(), v)
//
// Outside the turn, the function may read the values that the handler has found, and nothing else of the databases. The
// values do not change until it returns. It must not use the Context, nor memory that other calls use.
//
// command.L1. The function calls Step about once for each element. Step may not return, if no client wants the reply
// any more.
type Reading struct {
	Reply *protocol.Reply
	Args  [][]byte // of the call; they live until the function returns
	Now   int64    // Unix ms: when the command began

	Hits, Misses int64 // look-ups of the function outside the turn; counted when it has ended

	held  int // bytes on the Go heap
	left  int // steps until rest
	rest  func() (steps int)
	store *value.Store
	apart func() *value.Store
}

// NewReading returns a Reading outside the turn. Its Step sometimes calls rest, which returns the number of steps until
// the next such call. The first call of Store calls apart to make the store.
func NewReading(reply *protocol.Reply, args [][]byte, now int64, rest func() (steps int),
	apart func() *value.Store) *Reading {
	return &Reading{Reply: reply, Args: args, Now: now, rest: rest, apart: apart}
}

// Store returns a store in which the function may build values for its own use. Outside the turn, these values are
// freed when the function returns.
func (r *Reading) Store() *value.Store {
	if r.store == nil {
		r.store = r.apart()
	}
	return r.store
}

// Step reports that about one more element was read.
func (r *Reading) Step() {
	if r.left--; r.left < 0 {
		r.left = r.rest()
	}
}

// Steps does the same as n calls of Step.
func (r *Reading) Steps(n int) {
	if r.left -= n; r.left < 0 {
		r.left = r.rest()
	}
}

// Hold reports that the function has taken n more bytes of the Go heap until it returns. Outside the turn, they count
// as the client's memory. The values of Store are counted without it.
func (r *Reading) Hold(n int) { r.held += n }

// Held returns the sum of all calls of Hold.
func (r *Reading) Held() int { return r.held }

// Room returns an empty list with room for n items, and calls Hold for it.
func Room[T any](r *Reading, n int) []T {
	var item T
	r.Hold(n * int(unsafe.Sizeof(item)))
	return make([]T, 0, n)
}

// Collect appends item to list, and calls Hold for the memory by which list has grown.
func Collect[T any](r *Reading, list []T, item T) []T {
	before := cap(list)
	if list = append(list, item); cap(list) != before {
		r.Hold((cap(list) - before) * int(unsafe.Sizeof(item)))
	}
	return list
}

// Inline returns a Reading that writes the reply in the turn. Lifetime: the call.
func (c *Context) Inline() *Reading {
	r := &c.inline
	r.Reply, r.Args, r.Now, r.left, r.held, r.store = c.Reply, c.Args, c.Now, math.MaxInt, 0, c.Space.Store()
	return r
}

// IsLong reports whether a call that reads about n elements must read them outside the turn. That is so if n exceeds
// long-read-elements and the client can wait.
func (c *Context) IsLong(n int) bool {
	limit := c.Settings.LongRead.Get()
	return int64(n) > limit && limit > 0 && c.Core.CanReadBeside(c)
}

// drawReads is the number of elements that cost as much to read as one random draw from a large value. A draw misses
// the CPU's caches, and a walk does not.
const drawReads = 10

// ReadsOfDraws returns the cost of random draws from a value of size elements, in elements read. The draws yield n
// different elements, or -n that may repeat. A walk draws many different ones.
func ReadsOfDraws(n, size int) int {
	const most = math.MaxInt / drawReads
	if n < 0 {
		return min(-n, most) * drawReads
	}
	return min(min(n, most)*drawReads, size)
}

// OwnRand returns a random generator for a function outside the turn. That of c.Space belongs to the turn.
func (c *Context) OwnRand() *rand.PCG {
	rng := c.Space.Rand()
	return rand.NewPCG(rng.Uint64(), rng.Uint64())
}

// ReadBeside parks the client and lets read write the reply outside the turn. The handler returns the result of
// ReadBeside, without a reply. Before that, the handler has changed only clocks and counts, and IsLong has returned
// true. An error of read becomes the command's reply.
func (c *Context) ReadBeside(read func(*Reading) error) error {
	c.Core.ReadBeside(c, read)
	return nil
}
