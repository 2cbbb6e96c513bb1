package stream

import (
	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

// lookupInfo finds the stream of an XINFO call.
//
// Errors: ErrNoSuchKey, ErrWrongType.
func lookupInfo(c *command.Context) (s streams.Stream, err error) {
	v, err := lookup(c, c.Args[2])
	if err != nil {
		return s, err
	}
	if !v.Exists() {
		return s, protocol.ErrNoSuchKey
	}
	return streams.Of(v), nil
}

// infoConsumers is XINFO CONSUMERS key group.
//
// Replies: an array of maps with name, pending, idle and inactive. idle is the time in ms since the consumer's last
// call. inactive is the time in ms since it last got an entry, or -1 if it never did.
// Errors: ErrNoSuchKey, ErrWrongType, NOGROUP.
func infoConsumers(c *command.Context) error {
	s, err := lookupInfo(c)
	if err != nil {
		return err
	}
	g := s.Group(c.Args[3])
	if g == nil {
		return errNoSuchGroup(c.Args[3], c.Args[2])
	}
	return answerConsumers(c, g)
}

// lineReads is the number of elements that cost as much to read as the line of a consumer or group in XINFO.
const lineReads = 4

func answerConsumers(c *command.Context, g *streams.Group) error {
	if c.IsLong(lineReads * int(g.Consumers())) {
		return c.ReadBeside(func(r *command.Reading) error {
			replyConsumers(r, g)
			return nil
		})
	}
	replyConsumers(c.Inline(), g)
	return nil
}

func replyConsumers(at *command.Reading, g *streams.Group) {
	r := at.Reply
	mark, n := r.Mark(), 0
	for owner := range g.All {
		at.Steps(lineReads)
		if owner.Hidden() {
			continue
		}
		n++
		inactive := owner.Active()
		if inactive != -1 {
			inactive = at.Now - inactive
		}
		r.Map(4)
		r.BulkString("name")
		r.Bulk(owner.Name())
		r.BulkString("pending")
		r.Int(int64(owner.Pending()))
		r.BulkString("idle")
		r.Int(max(at.Now-owner.Seen(), 0))
		r.BulkString("inactive")
		r.Int(inactive)
	}
	r.ArrayAt(mark, n)
}

// infoGroups is XINFO GROUPS key. Replies: an array of maps: name, consumers, pending, last-delivered-id, entries-read,
// lag. The last two are null if unknown. Errors: ErrNoSuchKey, ErrWrongType.
func infoGroups(c *command.Context) error {
	s, err := lookupInfo(c)
	if err != nil {
		return err
	}
	return answerGroups(c, s)
}

func answerGroups(c *command.Context, s streams.Stream) error {
	if c.IsLong(lineReads * int(s.GroupCount())) {
		return c.ReadBeside(func(r *command.Reading) error {
			replyGroups(r, s)
			return nil
		})
	}
	replyGroups(c.Inline(), s)
	return nil
}

func replyGroups(at *command.Reading, s streams.Stream) {
	r := at.Reply
	r.Array(int(s.GroupCount()))
	for g := range s.Groups {
		at.Steps(lineReads)
		r.Map(6)
		r.BulkString("name")
		r.Bulk(g.Name())
		r.BulkString("consumers")
		r.Int(int64(g.Shown()))
		r.BulkString("pending")
		r.Int(int64(g.Pending()))
		replyProgress(r, s, g)
	}
}

// replyProgress replies three pairs of a map: the group's last ID, entries read, and lag.
func replyProgress(r *protocol.Reply, s streams.Stream, g *streams.Group) {
	r.BulkString("last-delivered-id")
	replyID(r, g.LastID())
	r.BulkString("entries-read")
	replyKnown(r, g.EntriesRead(), g.EntriesRead() != streams.ReadUnknown)
	r.BulkString("lag")
	lag, ok := s.Lag(g)
	replyKnown(r, lag, ok)
}

func replyKnown(r *protocol.Reply, n int64, known bool) {
	if known {
		r.Int(n)
	} else {
		r.Null()
	}
}

// infoStream is XINFO STREAM key [FULL [COUNT count]].
//
// Replies: a map about the stream, with its first and last entry. FULL adds entries, groups, consumers and pending
// entries, at most count of each; 0 means all.
// Errors: ErrNoSuchKey, ErrWrongType, those of the subcommand's syntax, ErrNotInteger.
func infoStream(c *command.Context) error {
	s, err := lookupInfo(c)
	if err != nil {
		return err
	}
	if len(c.Args) == 3 {
		return answerStream(c, s)
	}
	count := int64(10)
	switch n := len(c.Args); {
	case n != 4 && n != 6 || !command.Is(c.Args[3], "FULL") || n == 6 && !command.Is(c.Args[4], "COUNT"):
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	case n == 6:
		if count, err = command.Int(c.Args[5]); err != nil {
			return err
		}
		if count < 0 {
			count = 10
		}
	}
	return answerFull(c, s, uint64(count))
}

func answerStream(c *command.Context, s streams.Stream) error {
	if c.IsLong(s.Nodes()) { // replyShape walks them
		return c.ReadBeside(func(r *command.Reading) error {
			replyStream(r.Reply, s)
			return nil
		})
	}
	replyStream(c.Reply, s)
	return nil
}

func replyStream(r *protocol.Reply, s streams.Stream) {
	r.Map(10 + recalledPairs(s))
	replyShape(r, s)
	r.BulkString("groups")
	r.Int(int64(s.GroupCount()))
	r.BulkString("first-entry")
	replyOutermost(r, s, false)
	r.BulkString("last-entry")
	replyOutermost(r, s, true)
}

func answerFull(c *command.Context, s streams.Stream, count uint64) error {
	if isLongFull(c, s, count) {
		return c.ReadBeside(func(r *command.Reading) error {
			replyFull(r, s, count)
			return nil
		})
	}
	replyFull(c.Inline(), s, count)
	return nil
}

// isLongFull reports whether XINFO STREAM FULL with this count is a long read. It stops counting when it knows.
func isLongFull(c *command.Context, s streams.Stream, count uint64) bool {
	n := atMost(s.Len(), count) + uint64(s.Nodes())
	for g := range s.Groups {
		if c.IsLong(int(n)) {
			return true
		}
		shown := 2 * g.Pending() // once of the group, once of its consumers
		if count > 0 {
			shown = min(shown, count*(1+g.Consumers()))
		}
		n += lineReads*(1+g.Consumers()) + shown
	}
	return c.IsLong(int(n))
}

// atMost returns n, but at most count unless count is 0.
func atMost(n, count uint64) uint64 {
	if count > 0 {
		n = min(n, count)
	}
	return n
}

func replyFull(at *command.Reading, s streams.Stream, count uint64) {
	r := at.Reply
	r.Map(9 + recalledPairs(s))
	replyShape(r, s)
	r.BulkString("entries")
	var it streams.Iterator
	s.All(&it)
	replyRange(at, &it, count)
	r.BulkString("groups")
	r.Array(int(s.GroupCount()))
	for g := range s.Groups {
		replyGroup(at, s, g, count)
	}
}

// replyShape replies the first pairs of both forms of XINFO STREAM: seven pairs, and those of replyRecalled.
func replyShape(r *protocol.Reply, s streams.Stream) {
	r.BulkString("length")
	r.Int(int64(s.Len()))
	keys, nodes := s.Radix()
	r.BulkString("radix-tree-keys")
	r.Int(int64(keys))
	r.BulkString("radix-tree-nodes")
	r.Int(int64(nodes))
	r.BulkString("last-generated-id")
	replyID(r, s.LastID())
	r.BulkString("max-deleted-entry-id")
	replyID(r, s.MaxDeleted())
	r.BulkString("entries-added")
	r.Int(int64(s.Added()))
	r.BulkString("recorded-first-entry-id")
	replyID(r, s.FirstID())
	replyRecalled(r, s)
}

// recalledPairs returns the number of pairs that replyRecalled replies.
func recalledPairs(s streams.Stream) int {
	if s.Recalls() {
		return 6
	}
	return 0
}

// replyRecalled replies figures about the messages that the stream remembers. Servers before Redis 8.6 do not have
// these fields, and some clients refuse fields that they do not know. So a stream that remembers no messages does not
// show them.
func replyRecalled(r *protocol.Reply, s streams.Stream) {
	if !s.Recalls() {
		return
	}
	x := s.Recalled()
	for _, f := range [...]struct {
		name string
		n    uint64
	}{{"idmp-duration", uint64(x.Seconds)}, {"idmp-maxsize", uint64(x.Most)}, {"pids-tracked", x.Producers},
		{"iids-tracked", x.Messages}, {"iids-added", x.Added}, {"iids-duplicates", x.Duplicates}} {
		r.BulkString(f.name)
		r.Uint(f.n)
	}
}

// replyOutermost replies the first entry, or the last entry if reverse is true. For an empty stream it replies null.
func replyOutermost(r *protocol.Reply, s streams.Stream, reverse bool) {
	var it streams.Iterator
	s.Range(&it, streams.ID{}, streams.MaxID, reverse)
	if it.Next() {
		replyEntry(r, &it)
	} else {
		r.Null()
	}
}

func replyGroup(at *command.Reading, s streams.Stream, g *streams.Group, count uint64) {
	r := at.Reply
	at.Steps(lineReads)
	given := g.GivenBack()
	if given == 0 {
		r.Map(7)
	} else {
		r.Map(8)
	}
	r.BulkString("name")
	r.Bulk(g.Name())
	replyProgress(r, s, g)
	r.BulkString("pel-count")
	r.Int(int64(g.Pending()))
	r.BulkString("pending")
	var cur streams.PendingCursor
	g.From(&cur, streams.ID{})
	replyPending(at, &cur, atMost(g.Pending(), count), true)
	if given > 0 { // servers before Redis 8.8 do not have the field
		r.BulkString("nacked-count")
		r.Int(int64(given))
	}
	r.BulkString("consumers")
	mark, n := r.Mark(), 0
	for owner := range g.All {
		if owner.Hidden() {
			continue
		}
		n++
		at.Steps(lineReads)
		r.Map(5)
		r.BulkString("name")
		r.Bulk(owner.Name())
		r.BulkString("seen-time")
		r.Int(owner.Seen())
		r.BulkString("active-time")
		r.Int(owner.Active())
		r.BulkString("pel-count")
		r.Int(int64(owner.Pending()))
		r.BulkString("pending")
		g.FromOf(&cur, owner, streams.ID{})
		replyPending(at, &cur, atMost(owner.Pending(), count), false)
	}
	r.ArrayAt(mark, n)
}

// replyPending replies n pending entries: ID, consumer if named, time of delivery, number of deliveries.
func replyPending(at *command.Reading, cur *streams.PendingCursor, n uint64, named bool) {
	r := at.Reply
	r.Array(int(n))
	var p streams.Pending
	for range n {
		at.Step()
		cur.Next(&p)
		if named {
			r.Array(4)
		} else {
			r.Array(3)
		}
		replyID(r, p.ID)
		if named {
			r.Bulk(p.Consumer())
		}
		r.Int(p.Time)
		r.Uint(p.Count)
	}
}

func infoHelp(c *command.Context) error {
	command.Help(c,
		"CONSUMERS <key> <groupname>",
		"    Show consumers of <groupname>.",
		"GROUPS <key>",
		"    Show the stream consumer groups.",
		"STREAM <key> [FULL [COUNT <count>]",
		"    Show information about the stream.",
	)
	return nil
}
