package stream

import (
	"math"
	"slices"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

// A reading holds the parsed arguments of XREAD or XREADGROUP.
type reading struct {
	grouped         bool
	named           bool // group and consumer were given; either may be empty
	group, consumer []byte
	noAck           bool
	count           uint64 // 0 means all
	claims          bool
	idleMs          int64  // claims: how long a pending entry must have been idle
	maxCount        uint64 // entries in the whole reply; 0 means no bound
	maxSize         uint64 // bytes in the whole reply; 0 means no bound

	given      uint64        // entries replied
	began      protocol.Mark // of the reply
	blocks     bool
	deadlineMs int64 // 0 means none
	keys, from [][]byte
	firstKey   int // index of keys in the arguments
}

func (r *reading) parse(c *command.Context) error {
	args := c.Args
	for i := 1; i < len(args) && r.keys == nil; i++ {
		arg, more := args[i], len(args)-1-i
		switch {
		case more > 0 && command.Is(arg, "BLOCK"):
			i++
			ms, err := timeout(args[i], c.Now)
			if err != nil {
				return err
			}
			r.blocks, r.deadlineMs = true, ms
		case more > 0 && command.Is(arg, "COUNT"):
			i++
			n, err := parseCount(args[i])
			if err != nil {
				return err
			}
			r.count = n
		case more > 0 && command.Is(arg, "MAXCOUNT"):
			i++
			n, err := command.Int(args[i])
			if err != nil || n < 1 {
				return errMaxCount
			}
			r.maxCount = uint64(n)
		case more > 0 && command.Is(arg, "MAXSIZE"):
			i++
			n, err := command.Int(args[i])
			if err != nil || n < 1 {
				return errMaxSize
			}
			r.maxSize = uint64(n)
		case more > 0 && command.Is(arg, "CLAIM"):
			if !r.grouped {
				return errClaimOnly
			}
			i++
			n, err := command.Int(args[i])
			if err != nil || n < 0 {
				return errReadIdle
			}
			r.claims, r.idleMs = true, n
		case more > 0 && command.Is(arg, "STREAMS"):
			if more%2 != 0 {
				return errUnbalanced(c, r.grouped)
			}
			r.firstKey = i + 1
			r.keys, r.from = args[i+1:i+1+more/2], args[i+1+more/2:]
		case more > 1 && command.Is(arg, "GROUP"):
			if !r.grouped {
				return errGroupOption
			}
			r.named, r.group, r.consumer = true, args[i+1], args[i+2]
			i += 2
		case command.Is(arg, "NOACK"):
			if !r.grouped {
				return errNoAckOption
			}
			r.noAck = true
		default:
			return protocol.ErrSyntax
		}
	}
	switch {
	case r.keys == nil:
		return protocol.ErrSyntax
	case r.grouped && !r.named:
		return errNoGroup
	case r.maxCount > 0 && r.count > r.maxCount:
		return errMaxBelowCount
	}
	return nil
}

// allows reports whether the reply has room for the iterator's present entry. it is nil for an entry that was deleted.
// The first entry is always allowed.
func (r *reading) allows(reply *protocol.Reply, it *streams.Iterator) bool {
	switch {
	case r.given == 0:
	case r.maxCount > 0 && r.given >= r.maxCount:
		return false
	case r.maxSize > 0:
		return uint64(reply.Since(r.began))+entrySize(it) <= r.maxSize
	}
	return true
}

const (
	head      = 16 // bytes of an ID or of an element's head in a reply
	leastSize = 2 * head
)

// entrySize returns about how many bytes an entry takes in a reply.
func entrySize(it *streams.Iterator) uint64 {
	n := uint64(leastSize)
	if it == nil {
		return n
	}
	ahead := *it // Pair moves it
	for range ahead.Pairs {
		field, val := ahead.Pair()
		n += 2*head + elementSize(field) + elementSize(val)
	}
	return n
}

func elementSize(e listpack.Element) uint64 {
	if e.IsInt {
		return 0 // the head has room for it
	}
	return uint64(len(e.Bytes()))
}

// timeout reads a timeout in ms and returns the deadline. A deadline of 0 means none.
func timeout(arg []byte, nowMs int64) (deadlineMs int64, err error) {
	n, err := command.Int(arg)
	switch {
	case err != nil:
		return 0, errTimeout
	case n < 0:
		return 0, errTimeoutSign
	case n > math.MaxInt64-nowMs:
		return 0, errTimeoutRange
	case n == 0:
		return 0, nil
	}
	return nowMs + n, nil
}

// read is XREAD [COUNT count] [MAXCOUNT count] [MAXSIZE bytes] [BLOCK ms] STREAMS key [key …] id [id …].
//
// Replies: a map (RESP2: an array of pairs) from each stream that has entries after its ID to these entries. It replies
// null if there are none, or after the timeout.
// Errors: those of the options, ErrWrongType.
func (h *commands) read(c *command.Context) error { return h.serve(c, &reading{}) }

// readGroup is
//
//	XREADGROUP GROUP group consumer [COUNT count] [MAXCOUNT count] [MAXSIZE bytes] [BLOCK ms] [CLAIM min-idle-time]
//	  [NOACK] STREAMS key [key …] id [id …]
//
// Replies: as read. With an ID other than ">" it replies the consumer's pending entries after that ID. For deleted
// entries it replies the ID and null. With CLAIM and ">" it first replies the pending entries that were idle for at
// least that long, the longest idle first. Each entry then also has its idle time in ms and its number of deliveries,
// which are 0 for new entries.
// Errors: those of read, NOGROUP.
// Propagates: XCLAIM of each delivered entry, XGROUP SETID of each group that moved. With NOACK it propagates XGROUP
// CREATECONSUMER.
func (h *commands) readGroup(c *command.Context) error { return h.serve(c, &reading{grouped: true}) }

func (h *commands) serve(c *command.Context, r *reading) error {
	if err := r.parse(c); err != nil {
		return err
	}
	c.PropagateNothing()
	done, err := h.try(c, r, nil)
	switch {
	case done || err != nil:
		return err
	case !r.blocks || c.Client.Is(client.DenyBlocking):
		c.Reply.NullArray()
	default:
		h.block(c, r)
	}
	return nil
}

// block parks the client until one of the streams has an entry for it.
func (h *commands) block(c *command.Context, r *reading) {
	since := append([]streams.ID(nil), h.ids...) // "$" stays the end at this time
	grouped := r.grouped
	c.Core.Block(c, command.Wait{
		Keys: r.keys, Type: value.Stream, DeadlineMs: r.deadlineMs, Gone: grouped,
		Retry: func(c *command.Context) error {
			again := reading{grouped: grouped}
			if err := again.parse(c); err != nil {
				return err // the clock may have moved so far that the timeout is out of range
			}
			c.PropagateNothing()
			_, err := h.try(c, &again, since)
			return err
		},
		Again:   h.again(r.claims),
		Timeout: func(c *command.Context) { c.Reply.NullArray() },
	})
}

// again returns the time at which a waiting XREADGROUP with CLAIM looks for idle entries again.
func (h *commands) again(claims bool) func(*command.Context) int64 {
	if !claims {
		return nil
	}
	return func(c *command.Context) int64 {
		r := reading{grouped: true}
		if r.parse(c) != nil {
			return 0
		}
		soonest := int64(math.MaxInt64)
		for _, key := range r.keys {
			v := c.DB.Peek(key)
			if !v.Exists() || v.Type() != value.Stream {
				continue
			}
			if g := streams.Of(v).Group(r.group); g != nil {
				soonest = min(soonest, min(g.Oldest(), c.Now)) // an entry may be delivered to another consumer now
			}
		}
		if soonest > math.MaxInt64-r.idleMs {
			return 0
		}
		return max(soonest+r.idleMs-1, c.Now) // the retry comes a millisecond after it
	}
}

// try replies the available entries. done is false if there are none. since is empty, or holds the IDs that "$" stands
// for.
func (h *commands) try(c *command.Context, r *reading, since []streams.ID) (done bool, err error) {
	h.ids = h.ids[:0]
	for i, key := range r.keys {
		id, err := r.after(c, key, r.from[i])
		if err != nil {
			return false, err
		}
		if since != nil && is(r.from[i], "$") {
			id = since[i]
		}
		h.ids = append(h.ids, id)
	}
	if !r.grouped {
		return h.readEntries(c, *r)
	}
	mark, n := c.Reply.Mark(), 0
	r.began, r.given = mark, 0
	for i, key := range r.keys {
		if r.maxCount > 0 && r.given >= r.maxCount {
			break
		}
		if h.deliver(c, r, key, h.ids[i]) {
			n++
		}
	}
	return n > 0, replyStreams(c.Reply, mark, n)
}

// replyStreams puts the head of XREAD's reply at mark: a map of n streams. It changes nothing if n is 0.
func replyStreams(reply *protocol.Reply, mark protocol.Mark, n int) error {
	switch {
	case n == 0:
	case reply.RESP3:
		reply.MapAt(mark, n)
	default:
		reply.ArrayAt(mark, n)
	}
	return nil
}

// A source is a stream with entries for XREAD.
type source struct {
	stream streams.Stream
	after  streams.ID // the entries follow this ID
	key    int        // index of the stream's key in the arguments
}

// readEntries replies the entries after h.ids. done is false if there are none.
func (h *commands) readEntries(c *command.Context, r reading) (done bool, err error) {
	h.sources = h.sources[:0]
	n := uint64(0)
	for i, key := range r.keys {
		v, _ := lookup(c, key)
		if !v.Exists() {
			continue
		}
		s, after := streams.Of(v), h.ids[i]
		if s.Len() == 0 || !after.Less(s.LastValid()) {
			continue
		}
		from, _ := after.Next()
		has := s.AtMost(from, streams.MaxID)
		if r.count > 0 {
			has = min(has, r.count)
		}
		n += has
		h.sources = append(h.sources, source{s, after, r.firstKey + i})
	}
	if len(h.sources) == 0 {
		return false, nil
	}
	if r.maxCount > 0 {
		n = min(n, r.maxCount)
	}
	if r.maxSize > 0 {
		n = min(n, r.maxSize/leastSize+1)
	}
	if c.IsLong(int(n)) {
		own, sources := r, slices.Clone(h.sources) // own, because a captured r would be on the heap in each call
		return true, c.ReadBeside(func(at *command.Reading) error { return own.answer(at, sources) })
	}
	return true, r.answer(c.Inline(), h.sources)
}

// answer replies the entries of sources.
func (r reading) answer(at *command.Reading, sources []source) error {
	mark, n := at.Reply.Mark(), 0
	r.began = mark
	for _, s := range sources {
		if r.maxCount > 0 && r.given >= r.maxCount {
			break
		}
		if r.one(at, s) {
			n++
		}
	}
	return replyStreams(at.Reply, mark, n)
}

// after returns the ID after which to read the stream at key. It is MaxID for ">". For "+" it is the ID just before the
// last entry.
//
// Errors: ErrWrongType, NOGROUP, errID, and for IDs that need a group or forbid one.
func (r *reading) after(c *command.Context, key, from []byte) (id streams.ID, err error) {
	v, err := lookup(c, key)
	if err != nil {
		return id, err
	}
	if r.grouped && (!v.Exists() || streams.Of(v).Group(r.group) == nil) {
		return id, errNoReadGroup(key, r.group)
	}
	switch {
	case is(from, "$") && r.grouped:
		return id, errDollar
	case is(from, "+") && r.grouped:
		return id, errPlus
	case is(from, ">") && !r.grouped:
		return id, errGreater
	case is(from, ">"):
		return streams.MaxID, nil
	case is(from, "$"):
		return lastOf(v), nil
	case !is(from, "+"):
		return parseID(from, 0)
	case v.Exists() && streams.Of(v).Len() > 0:
		id, _ = streams.Of(v).LastValid().Prev() // an entry's ID is greater than 0-0
	}
	return id, nil
}

func lastOf(v value.Value) streams.ID {
	if !v.Exists() {
		return streams.ID{}
	}
	return streams.Of(v).LastID()
}

// begin opens the reply of one stream.
func begin(reply *protocol.Reply, key []byte) {
	if !reply.RESP3 {
		reply.Array(2)
	}
	reply.Bulk(key)
}

// one replies the entries of a source. It returns false if the limits of the reply left no room for the first one.
func (r *reading) one(at *command.Reading, s source) bool {
	reply := at.Reply
	start := reply.Mark()
	begin(reply, at.Args[s.key])
	from, _ := s.after.Next()
	var it streams.Iterator
	mark, n := reply.Mark(), uint64(0)
	for s.stream.Range(&it, from, streams.MaxID, false); (r.count == 0 || n < r.count) && it.Next() &&
		r.allows(reply, &it); n++ {
		at.Steps(1 + it.Pairs)
		replyEntry(reply, &it)
		r.given++
	}
	if n == 0 {
		reply.Rollback(start)
		return false
	}
	reply.ArrayAt(mark, int(n))
	return true
}
