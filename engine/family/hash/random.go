package hash

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
	"spindle/protocol"
)

// randField is HRANDFIELD key [count [WITHVALUES]].
//
// Replies: a random field, or null. A positive count gives an array of different fields; a negative one gives -count
// fields that may repeat. WITHVALUES adds the values (RESP3: as pairs).
// Errors: ErrNotInteger, a count out of range, ErrSyntax, ErrWrongType.
func randField(c *command.Context) error {
	if len(c.Args) == 2 {
		v, err := lookup(c)
		if err != nil {
			return err
		}
		if field, _, ok := draw(c, v); ok {
			bulk(c, field)
		} else {
			c.Reply.Null()
		}
		return nil
	}
	count, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	if count == math.MinInt64 {
		return errCount
	}
	pairs := len(c.Args) == 4
	if len(c.Args) > 4 || pairs && !command.Is(c.Args[3], "WITHVALUES") {
		return protocol.ErrSyntax
	}
	if pairs && (count < -math.MaxInt64/2 || count > math.MaxInt64/2) {
		return errCountPairs
	}
	v, err := lookup(c)
	if err != nil {
		return err
	}
	if v.Exists() {
		v = lapseAll(c, v, c.Args[1])
	}
	if !v.Exists() || count == 0 {
		c.Reply.Array(0)
		return nil
	}
	return randFields(c, v, int(count), pairs)
}

// draw returns a random field of v, the hash at the first argument, and its value. ok is false if there is no field.
func draw(c *command.Context, v value.Value) (field, val listpack.Element, ok bool) {
	if v.Exists() {
		v = lapseAll(c, v, c.Args[1])
	}
	for v.Exists() {
		field, val, deadline := hashes.Random(v, c.Space.Rand())
		if !past(c, deadline) || !removes(c) {
			return field, val, true
		}
		if lapse(c, c.Args[1], field.Bytes(), true) { // lapseAll left it: the deadline passed less than a tick ago
			break
		}
		v = c.DB.Peek(c.Args[1])
	}
	return field, val, false
}

// randFields replies random fields of v, which is not empty: up to count different ones, or -count that may repeat.
func randFields(c *command.Context, v value.Value, count int, pairs bool) error {
	past := anyPast(c, v)
	if c.IsLong(command.ReadsOfDraws(count, hashes.Len(v))) {
		rng := c.OwnRand()
		return c.ReadBeside(func(r *command.Reading) error {
			replyRandom(r, v, count, rng, past, pairs)
			return nil
		})
	}
	replyRandom(c.Inline(), v, count, c.Space.Rand(), past, pairs)
	return nil
}

// anyPast reports whether v may have fields past their deadline that clients must not see. lapseAll leaves those whose
// deadline passed less than a tick ago.
func anyPast(c *command.Context, v value.Value) bool {
	return hashes.Volatile(v) && past(c, hashes.Least(v)) && removes(c)
}

// replyRandom replies random fields of v, as randFields does. past means that some may be past their deadline. Only
// then it does not know their number in advance.
func replyRandom(r *command.Reading, v value.Value, count int, rng *rand.PCG, past, pairs bool) {
	n := max(count, -count)
	if count > 0 {
		n = min(n, hashes.Len(v))
	}
	elements := 1
	if pairs && !r.Reply.RESP3 {
		elements = 2
	}
	mark, given := r.Reply.Mark(), 0
	reply := func(field, val listpack.Element) {
		r.Step()
		pair(r.Reply, field, val, pairs)
		given++
	}
	var live func(int64) bool
	if past {
		now := r.Now
		live = func(deadline int64) bool { return deadline == 0 || deadline >= now }
	} else {
		r.Reply.Array(elements * n)
	}
	switch {
	case count > 0:
		hashes.Sample(v, rng, n, live, reply)
	case past:
		drawLive(r, v, n, rng, live, reply)
	default:
		for range n {
			field, val, _ := hashes.Random(v, rng)
			if reply(field, val); r.Reply.Full() {
				break
			}
		}
	}
	if past {
		r.Reply.ArrayAt(mark, elements*given)
	}
}

// fewDead is how many more lapsed fields than others drawLive draws before it walks the hash.
const fewDead = 32

// drawLive replies n random fields that are not past their deadline, possibly repeated. If it draws many fields that
// are past it, it collects the others once, and draws from these.
func drawLive(r *command.Reading, v value.Value, n int, rng *rand.PCG, live func(int64) bool,
	reply func(field, val listpack.Element)) {
	for dead := -fewDead; n > 0 && dead < 0 && !r.Reply.Full(); {
		if field, val, deadline := hashes.Random(v, rng); live(deadline) {
			reply(field, val)
			n, dead = n-1, dead-1
		} else {
			r.Step()
			dead++
		}
	}
	if n == 0 {
		return
	}
	var fields [][2]listpack.Element
	hashes.All(v, func(field, val listpack.Element, deadline int64) bool {
		if r.Step(); live(deadline) {
			fields = command.Collect(r, fields, [2]listpack.Element{field, val})
		}
		return true
	})
	for ; n > 0 && len(fields) > 0 && !r.Reply.Full(); n-- {
		high, _ := bits.Mul64(rng.Uint64(), uint64(len(fields)))
		reply(fields[high][0], fields[high][1])
	}
}

// pair replies a field, and also its value if pairs is true.
func pair(reply *protocol.Reply, field, val listpack.Element, pairs bool) {
	if pairs && reply.RESP3 {
		reply.Array(2)
	}
	answer(reply, field)
	if pairs {
		answer(reply, val)
	}
}
