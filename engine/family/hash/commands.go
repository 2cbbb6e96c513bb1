// Package hash implements the hash commands: fields, counters in them, and their deadlines.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, or knows another family.
// Start here: each row is a command. engine/data/value/hash stores a hash; lapse.go handles fields past their deadline.
package hash

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
	"spindle/internal/setting"
	"spindle/protocol"
)

// Settings are the largest sizes at which a hash stays a listpack.
type Settings struct {
	Entries setting.Int // hash-max-listpack-entries
	Value   setting.Int // hash-max-listpack-value, bytes of a field or a value
}

const (
	defaultEntries = 512
	defaultValue   = 64
	maxLong        = 1<<63 - 1
)

func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("hash-max-listpack-entries", &s.Entries, defaultEntries, setting.Between(0, maxLong),
			setting.Also("hash-max-ziplist-entries")),
		setting.NewMemory("hash-max-listpack-value", &s.Value, defaultValue, setting.Between(0, maxLong),
			setting.Also("hash-max-ziplist-value")),
	}
}

func (s *Settings) Limits() hashes.Limits {
	return hashes.Limits{Entries: int(s.Entries.Get()), Value: int(s.Value.Get())}
}

// commands holds the settings and buffers that all handlers share.
//
// Owner: the turn; each call empties the buffers.
type commands struct {
	settings *Settings
	found    []listpack.Element // the elements of HSCAN's reply
	pair     [2][]byte          // a field and its value, for create
	text     [128]byte          // a number as text
}

const (
	write = command.Write | command.DenyOOM | command.Fast
	read  = command.ReadOnly | command.Fast
	slow  = command.ReadOnly

	look   = command.KeyRO
	access = command.KeyRO | command.KeyAccess
	update = command.KeyRW | command.KeyUpdate
	add    = command.KeyRW | command.KeyAccess | command.KeyUpdate
)

var (
	anyOrder  = []string{"nondeterministic_output_order"}
	anyOutput = []string{"nondeterministic_output"}
)

// reDated returns the key spec of HGETEX, with a note for COMMAND INFO.
func reDated() []command.KeySpec {
	k := command.FirstArg(add)
	k[0].Notes = "RW and UPDATE because it changes the TTL"
	return k
}

func Family(s *Settings) command.Family { return (&commands{settings: s}).family() }

func (h *commands) family() command.Family {
	return command.Family{Name: "hash", ACL: command.ACLHash, Rows: []command.Spec{
		{Name: "hdel", Arity: -3, Flags: command.Write | command.Fast,
			Keys: command.FirstArg(command.KeyRW | command.KeyDelete), Run: del},
		{Name: "hexists", Arity: 3, Flags: read, Keys: command.FirstArg(look), Run: exists},
		{Name: "hexpire", Arity: -6, Flags: write, Keys: command.FirstArg(update), Run: expire},
		{Name: "hexpireat", Arity: -6, Flags: write, Keys: command.FirstArg(update), Run: expireAt},
		{Name: "hexpiretime", Arity: -5, Flags: read, Keys: command.FirstArg(access), Run: expireTime},
		{Name: "hget", Arity: 3, Flags: read, Keys: command.FirstArg(access), Run: get},
		{Name: "hgetall", Arity: 2, Flags: slow, Keys: command.FirstArg(access), Tips: anyOrder,
			Reads: command.ReadsAll("HSCAN"), Run: getAll},
		{Name: "hgetdel", Arity: -5, Flags: command.Write | command.Fast,
			Keys: command.FirstArg(command.KeyRW | command.KeyAccess | command.KeyDelete), Run: getDel},
		{Name: "hgetex", Arity: -5, Flags: command.Write | command.Fast, Keys: reDated(), Run: getEx},
		{Name: "hincrby", Arity: 4, Flags: write, Keys: command.FirstArg(add), Run: h.incrBy},
		{Name: "hincrbyfloat", Arity: 4, Flags: write, Keys: command.FirstArg(add), Run: h.incrByFloat},
		{Name: "hkeys", Arity: 2, Flags: slow, Keys: command.FirstArg(access), Tips: anyOrder,
			Reads: command.ReadsAll("HSCAN"), Run: keys},
		{Name: "hlen", Arity: 2, Flags: read, Keys: command.FirstArg(look), Run: length},
		{Name: "hmget", Arity: -3, Flags: read, Keys: command.FirstArg(access), Run: mget},
		{Name: "hmset", Arity: -4, Flags: write, Keys: command.FirstArg(update), Run: h.mset},
		{Name: "hpersist", Arity: -5, Flags: command.Write | command.Fast, Keys: command.FirstArg(update), Run: persist},
		{Name: "hpexpire", Arity: -6, Flags: write, Keys: command.FirstArg(update), Run: pexpire},
		{Name: "hpexpireat", Arity: -6, Flags: write, Keys: command.FirstArg(update), Run: pexpireAt},
		{Name: "hpexpiretime", Arity: -5, Flags: read, Keys: command.FirstArg(access), Run: pexpireTime},
		{Name: "hpttl", Arity: -5, Flags: read, Keys: command.FirstArg(access), Run: pttl},
		{Name: "hrandfield", Arity: -2, Flags: slow, Keys: command.FirstArg(access), Tips: anyOutput,
			Reads: command.ReadsPicked, Run: randField},
		{Name: "hscan", Arity: -3, Flags: slow, Keys: command.FirstArg(access), Tips: anyOutput,
			Reads: command.ReadsScan(3), Run: h.scan},
		{Name: "hset", Arity: -4, Flags: write, Keys: command.FirstArg(update), Run: h.set},
		{Name: "hsetex", Arity: -6, Flags: write, Keys: command.FirstArg(update), Run: h.setEx},
		{Name: "hsetnx", Arity: 4, Flags: write, Keys: command.FirstArg(command.KeyRW | command.KeyInsert), Run: h.setNX},
		{Name: "hstrlen", Arity: 3, Flags: read, Keys: command.FirstArg(look), Run: strlen},
		{Name: "httl", Arity: -5, Flags: read, Keys: command.FirstArg(access), Run: ttl},
		{Name: "hvals", Arity: 2, Flags: slow, Keys: command.FirstArg(access), Tips: anyOrder,
			Reads: command.ReadsAll("HSCAN"), Run: vals},
	}}
}

// lookup finds the hash at the first argument for reading. A missing key gives the zero Value and no error.
//
// Errors: ErrWrongType.
func lookup(c *command.Context) (value.Value, error) { return c.Find(c.Args[1], value.Hash) }

// edit finds the hash at key for changing it. It returns nil and no error for a missing key.
//
// Errors: ErrWrongType.
func edit(c *command.Context, key []byte) (*value.Edit, error) { return c.FindEdit(key, value.Hash) }

func bulk(c *command.Context, e listpack.Element) { answer(c.Reply, e) }

func answer(r *protocol.Reply, e listpack.Element) {
	if e.IsInt {
		r.BulkInt(e.Int)
	} else {
		r.Bulk(e.Bytes())
	}
}
