// Package stream implements the stream commands: adding, reading and trimming entries, consumer groups and pending
// entries.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes except in a client's wait, or knows another family.
// Start here: each row is a command. engine/data/value/stream stores a stream. read.go and deliver.go are XREAD and
// XREADGROUP, which may wait. propagate.go has the commands that groups propagate in place of the client's.
package stream

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	streams "spindle/engine/data/value/stream"
	"spindle/internal/setting"
	"spindle/protocol"
)

// Settings limit the size of a stream's node.
type Settings struct {
	NodeBytes   setting.Int // stream-node-max-bytes; 0 means no limit
	NodeEntries setting.Int // stream-node-max-entries; 0 means no limit

	// These limit how long, and how many messages of each producer, a stream remembers. XCFGSET overrides them for a
	// stream.
	RecallSeconds setting.Int // stream-idmp-duration
	RecallMost    setting.Int // stream-idmp-maxsize
}

const (
	defaultNodeBytes   = 4096
	defaultNodeEntries = 100
	maxLong            = 1<<63 - 1

	defaultRecall = 100
)

func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewMemory("stream-node-max-bytes", &s.NodeBytes, defaultNodeBytes, setting.Between(0, maxLong)),
		setting.NewInt("stream-node-max-entries", &s.NodeEntries, defaultNodeEntries, setting.Between(0, maxLong)),
		setting.NewInt("stream-idmp-duration", &s.RecallSeconds, defaultRecall, setting.Between(1, streams.MaxRecallSeconds)),
		setting.NewInt("stream-idmp-maxsize", &s.RecallMost, defaultRecall, setting.Between(1, streams.MaxRecall)),
	}
}

// usualRecall are the limits that replicas and the log assume. A primary with other limits propagates them.
var usualRecall = streams.Recall{Seconds: defaultRecall, Most: defaultRecall}

// recall returns the limits of a stream for which XCFGSET has set none.
func (h *commands) recall(c *command.Context) streams.Recall {
	if c.Obeys() {
		return usualRecall
	}
	return streams.Recall{Seconds: uint32(h.settings.RecallSeconds.Get()), Most: uint32(h.settings.RecallMost.Get())}
}

func (s *Settings) Limits() streams.Limits {
	return streams.Limits{NodeBytes: s.NodeBytes.Get(), NodeEntries: s.NodeEntries.Get()}
}

// commands holds the settings and buffers that all handlers share.
//
// Owner: the turn; each call empties the buffers.
type commands struct {
	settings *Settings
	args     [][]byte          // a request rewritten for the sinks
	ids      []streams.ID      // a request's IDs
	sources  []source          // the streams that XREAD replies
	steps    []step            // XAUTOCLAIM's plan
	idle     []streams.Pending // what CLAIM finds
	acked    ackList           // entries that stopped being pending
	deleted  []streams.ID      // entries that were deleted
}

// run wraps the handler f. It releases the shared buffers after the call.
func (h *commands) run(f func(*command.Context) error) func(*command.Context) error {
	return func(c *command.Context) error {
		err := f(c)
		h.args, h.ids, h.steps = command.Release(h.args), command.Release(h.ids), command.Release(h.steps)
		h.sources = command.Release(h.sources)
		h.acked, h.deleted, h.idle = command.Release(h.acked), command.Release(h.deleted), command.Release(h.idle)
		return err
	}
}

const (
	write  = command.Write | command.DenyOOM
	fast   = command.Write | command.Fast
	access = command.KeyRO | command.KeyAccess
	update = command.KeyRW | command.KeyUpdate
	insert = command.KeyRW | command.KeyInsert
	remove = command.KeyRW | command.KeyDelete
)

var anyOutput = []string{"nondeterministic_output"}

func Family(s *Settings) command.Family { return (&commands{settings: s}).family() }

func (h *commands) family() command.Family {
	return command.Family{Name: "stream", ACL: command.ACLStream, Rows: []command.Spec{
		{Name: "xack", Arity: -4, Flags: fast, Keys: command.FirstArg(update), Run: h.run(h.ack)},
		{Name: "xackdel", Arity: -6, Flags: fast, Keys: command.FirstArg(remove), Run: h.run(h.ackDel)},
		{Name: "xadd", Arity: -5, Flags: write | command.Fast, Keys: addKey, Tips: anyOutput, Run: h.run(h.add)},
		{Name: "xautoclaim", Arity: -6, Flags: fast, Keys: command.FirstArg(remove), Tips: anyOutput,
			Run: h.run(h.autoClaim)},
		{Name: "xcfgset", Arity: -2, Flags: fast, Keys: command.FirstArg(update), Run: h.run(h.setRecall)},
		{Name: "xclaim", Arity: -6, Flags: fast, Keys: command.FirstArg(update), Tips: anyOutput, Run: h.run(h.claim),
			GetKeys: claimKeys},
		{Name: "xdel", Arity: -3, Flags: fast, Keys: command.FirstArg(remove), Run: h.run(h.del)},
		{Name: "xdelex", Arity: -5, Flags: fast, Keys: command.FirstArg(remove), Run: h.run(h.delEx)},
		{Name: "xgroup", Arity: -2, Subs: []command.Spec{
			{Name: "create", Arity: -5, Flags: write, Keys: second(insert), Run: groupCreate},
			{Name: "createconsumer", Arity: 5, Flags: write, Keys: second(insert), Run: groupCreateConsumer},
			{Name: "delconsumer", Arity: 5, Flags: command.Write, Keys: second(remove), Run: groupDelConsumer},
			{Name: "destroy", Arity: 4, Flags: command.Write, Keys: second(remove), Run: groupDestroy},
			{Name: "help", Arity: 2, Flags: command.Loading | command.Stale, Run: groupHelp},
			{Name: "setid", Arity: -5, Flags: command.Write, Keys: second(update), Run: groupSetID},
		}},
		{Name: "xidmprecord", Arity: 5, Flags: write | command.Fast, Keys: command.FirstArg(update), Run: h.run(h.record)},
		{Name: "xinfo", Arity: -2, Subs: []command.Spec{
			{Name: "consumers", Arity: 4, Flags: command.ReadOnly, Keys: second(access), Tips: anyOutput, Run: infoConsumers},
			{Name: "groups", Arity: 3, Flags: command.ReadOnly, Keys: second(access), Run: infoGroups},
			{Name: "help", Arity: 2, Flags: command.Loading | command.Stale, Run: infoHelp},
			{Name: "stream", Arity: -3, Flags: command.ReadOnly, Keys: second(access),
				Reads: command.ReadsNext("COUNT", 4, 10, "a small COUNT"), Run: infoStream},
		}},
		{Name: "xlen", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.FirstArg(command.KeyRO), Run: length},
		{Name: "xnack", Arity: -7, Flags: fast, Keys: command.FirstArg(update), Run: h.run(h.nack)},
		{Name: "xpending", Arity: -3, Flags: command.ReadOnly, Keys: command.FirstArg(access), Tips: anyOutput, Run: pending},
		{Name: "xrange", Arity: -4, Flags: command.ReadOnly, Keys: command.FirstArg(access),
			Reads: command.ReadsNext("COUNT", 4, 0, "a small COUNT"), Run: xrange},
		{Name: "xread", Arity: -4, Flags: command.Blocking | command.ReadOnly, Keys: readKeys(1),
			Reads: command.ReadsNext("COUNT", 1, 0, "a small COUNT"), Run: h.run(h.read),
			GetKeys: findKeys},
		{Name: "xreadgroup", Arity: -7, Flags: command.Blocking | command.Write, Keys: readKeys(4), Run: h.run(h.readGroup),
			GetKeys: findKeys},
		{Name: "xrevrange", Arity: -4, Flags: command.ReadOnly, Keys: command.FirstArg(access),
			Reads: command.ReadsNext("COUNT", 4, 0, "a small COUNT"), Run: revRange},
		{Name: "xsetid", Arity: -3, Flags: write | command.Fast, Keys: command.FirstArg(update), Run: setID},
		{Name: "xtrim", Arity: -4, Flags: command.Write, Keys: command.FirstArg(remove), Tips: anyOutput, Run: h.run(h.trim)},
	}}
}

var addKey = []command.KeySpec{{
	Flags: update, Index: 1, Step: 1, Notes: "UPDATE instead of INSERT because of the optional trimming feature",
}}

// second returns the key spec of a subcommand with one key, which follows the subcommand's name.
func second(f command.KeyFlags) []command.KeySpec {
	return []command.KeySpec{{Flags: f, Index: 2, Step: 1}}
}

// readKeys returns the key spec of XREAD and XREADGROUP: the first half of the arguments after STREAMS.
func readKeys(from int) []command.KeySpec {
	return []command.KeySpec{{Flags: access, Keyword: "STREAMS", KeywordFrom: from, LastKey: -1, Step: 1, Limit: 2}}
}

// claimKeys reports that XCLAIM also reads its key, because it replies entries. Redis's key spec does not say so.
func claimKeys(into []command.KeyPosition, _ [][]byte) ([]command.KeyPosition, error) {
	return append(into, command.KeyPosition{Index: 1, Flags: update | command.KeyAccess}), nil
}

// findKeys finds the keys of XREAD and XREADGROUP, even if a group or key has the name STREAMS.
func findKeys(into []command.KeyPosition, args [][]byte) ([]command.KeyPosition, error) {
	for i := 1; i < len(args); i++ {
		switch {
		case command.Is(args[i], "BLOCK"), command.Is(args[i], "COUNT"), command.Is(args[i], "CLAIM"),
			command.Is(args[i], "MAXCOUNT"), command.Is(args[i], "MAXSIZE"):
			i++
		case command.Is(args[i], "GROUP"):
			i += 2
		case command.Is(args[i], "NOACK"):
		case command.Is(args[i], "STREAMS"):
			n := len(args) - i - 1
			if n == 0 || n%2 != 0 {
				return into, command.ErrInvalidKeyArguments
			}
			for j := range n / 2 {
				into = append(into, command.KeyPosition{Index: i + 1 + j, Flags: access})
			}
			return into, nil
		default:
			return into, command.ErrInvalidKeyArguments
		}
	}
	return into, command.ErrInvalidKeyArguments
}

func lookup(c *command.Context, key []byte) (value.Value, error) { return c.Find(key, value.Stream) }

func edit(c *command.Context, key []byte) (*value.Edit, error) { return c.FindEdit(key, value.Stream) }

// editCounted is edit for commands that change pending entries, but count as reads of the key.
//
// Errors: ErrWrongType.
func editCounted(c *command.Context, key []byte) (*value.Edit, error) {
	e := c.DB.Edit(key)
	if e == nil {
		c.Space.Stats.Misses++
		c.Notify(command.EventKeyMiss, "keymiss", key)
		return nil, nil
	}
	c.Space.Stats.Hits++
	if e.Value().Type() != value.Stream {
		return nil, protocol.ErrWrongType
	}
	return e, nil
}

// create makes an empty stream at key, which does not exist.
func create(c *command.Context, key []byte) *value.Edit {
	e := c.DB.CreateRoot(key, value.Stream, value.StreamTree, streams.New(c.Space.Store()))
	c.Notify(command.EventNew, "new", key)
	return e
}

func replyID(r *protocol.Reply, id streams.ID) { id.Append(r.BulkRoom(id.TextLen())[:0]) }

func replyElement(r *protocol.Reply, e listpack.Element) {
	if e.IsInt {
		r.BulkInt(e.Int)
	} else {
		r.Bulk(e.Bytes())
	}
}

// replyEntry replies the iterator's entry: its ID, and an array of alternating fields and values.
func replyEntry(r *protocol.Reply, it *streams.Iterator) {
	r.Array(2)
	replyBody(r, it)
}

func replyBody(r *protocol.Reply, it *streams.Iterator) {
	replyID(r, it.ID)
	r.Array(2 * it.Pairs)
	for range it.Pairs {
		field, val := it.Pair()
		replyElement(r, field)
		replyElement(r, val)
	}
}

// replyOne replies the entry with this ID. It returns false if the entry does not exist.
func replyOne(r *protocol.Reply, s streams.Stream, id streams.ID) bool {
	var it streams.Iterator
	s.Range(&it, id, id, false)
	if !it.Next() {
		return false
	}
	replyEntry(r, &it)
	return true
}

// replyRange replies an array of the iterator's entries, at most count unless count is 0.
func replyRange(r *command.Reading, it *streams.Iterator, count uint64) {
	reply := r.Reply
	mark, n := reply.Mark(), uint64(0)
	for it.Next() {
		r.Steps(1 + it.Pairs)
		replyEntry(reply, it)
		if n++; n == count {
			break
		}
	}
	reply.ArrayAt(mark, int(n))
}
