package stream

import (
	"math"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

// A reading is the parsed arguments of XREAD or XREADGROUP.
type reading struct {
	grouped         bool
	named           bool // group and consumer were given; either may be empty
	group, consumer []byte
	noAck           bool
	count           uint64 // 0: all
	blocks          bool
	deadlineMs      int64 // 0: none
	keys, from      [][]byte
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
		case more > 0 && command.Is(arg, "STREAMS"):
			if more%2 != 0 {
				return errUnbalanced(c, r.grouped)
			}
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
	}
	return nil
}

// timeout reads a timeout in ms and returns the deadline, 0 for none.
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

// read is XREAD [COUNT count] [BLOCK ms] STREAMS key [key …] id [id …].
//
// Replies: a map (RESP2: an array of pairs) from each stream with entries after its ID to those entries. Null if there
// are none, or after the timeout.
// Errors: of the options, ErrWrongType.
func (h *commands) read(c *command.Context) error { return h.serve(c, &reading{}) }

// readGroup is XREADGROUP GROUP group consumer [COUNT count] [BLOCK ms] [NOACK] STREAMS key [key …] id [id …].
//
// Replies: as read. With an ID other than ">": the consumer's pending entries after it; for deleted ones the ID and
// null.
// Errors: as read, NOGROUP.
// Propagates: XCLAIM of each delivered entry, XGROUP SETID of each group that moved, with NOACK XGROUP CREATECONSUMER.
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
		Timeout: func(c *command.Context) { c.Reply.NullArray() },
	})
}

// try replies the available entries; false if there are none. since, unless empty, holds the IDs that "$" stands for.
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
	mark, n := c.Reply.Mark(), 0
	for i, key := range r.keys {
		answered := false
		if r.grouped {
			answered = h.deliver(c, r, key, h.ids[i])
		} else {
			answered = readOne(c, key, h.ids[i], r.count)
		}
		if answered {
			n++
		}
	}
	if n == 0 {
		return false, nil
	}
	if c.Reply.RESP3 {
		c.Reply.MapAt(mark, n)
	} else {
		c.Reply.ArrayAt(mark, n)
	}
	return true, nil
}

// after is the ID after which the stream at key is to be read. It is MaxID for ">". For "+" it is the ID just before
// the last entry.
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
func begin(c *command.Context, key []byte) {
	if !c.Reply.RESP3 {
		c.Reply.Array(2)
	}
	c.Reply.Bulk(key)
}

// readOne replies the entries of the stream at key after an ID; false if there are none.
func readOne(c *command.Context, key []byte, after streams.ID, count uint64) bool {
	v, _ := lookup(c, key)
	if !v.Exists() {
		return false
	}
	s := streams.Of(v)
	if s.Len() == 0 || !after.Less(s.LastValid()) {
		return false
	}
	begin(c, key)
	from, _ := after.Next()
	var it streams.Iterator
	s.Range(&it, from, streams.MaxID, false)
	replyRange(c.Reply, &it, count)
	return true
}
