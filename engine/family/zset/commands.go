// Package zset implements the commands on sorted sets.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, or knows another family.
// Start here: each row is a command. add.go and remove.go change members; read.go reads one, range.go many (bounds.go
// parses ranges). pop.go pops at the ends, wait.go blocks. combine.go joins several sets, which gather.go finds.
// random.go draws random members.
package zset

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/protocol"
)

const (
	write = command.Write | command.DenyOOM
	read  = command.ReadOnly
	fast  = command.Fast

	access = command.KeyRO | command.KeyAccess
	take   = command.KeyRW | command.KeyAccess | command.KeyDelete
	remove = command.KeyRW | command.KeyDelete
)

// commands holds buffers that all handlers share.
//
// Owner: the turn; each call empties them.
type commands struct {
	sources []source
	packed  []byte // a listpack under construction
	found   []found
	text    []byte
}

func Family() command.Family {
	z := &commands{}
	random := []string{"nondeterministic_output"}
	limited := command.ReadsNext("LIMIT", 4, 0, "a small LIMIT")
	return command.Family{Name: "sorted-set", ACL: command.ACLSortedSet, Rows: []command.Spec{
		{Name: "bzmpop", Arity: -5, Flags: command.Write | command.Blocking, Keys: numbered(2, take), Run: bzMPop},
		{Name: "bzpopmax", Arity: -3, Flags: command.Write | command.Blocking | fast, Keys: butLast, Run: bzPopMax},
		{Name: "bzpopmin", Arity: -3, Flags: command.Write | command.Blocking | fast, Keys: butLast, Run: bzPopMin},
		{Name: "zadd", Arity: -4, Flags: write | fast, Keys: command.FirstArg(command.KeyRW | command.KeyUpdate), Run: add},
		{Name: "zcard", Arity: 2, Flags: read | fast, Keys: command.FirstArg(command.KeyRO), Run: card},
		{Name: "zcount", Arity: 4, Flags: read | fast, Keys: command.FirstArg(access), Run: count},
		{Name: "zdiff", Arity: -3, Flags: read, Keys: numbered(1, access),
			Reads: command.ReadsAll("ZSCAN"), Run: z.diff},
		{Name: "zdiffstore", Arity: -4, Flags: write, Keys: stored, Run: z.diffStore},
		{Name: "zincrby", Arity: 4, Flags: write | fast,
			Keys: command.FirstArg(command.KeyRW | command.KeyAccess | command.KeyUpdate), Run: incrBy},
		{Name: "zinter", Arity: -3, Flags: read, Keys: numbered(1, access),
			Reads: command.ReadsAll("ZSCAN"), Run: z.inter},
		{Name: "zintercard", Arity: -3, Flags: read, Keys: numbered(1, access),
			Reads: command.ReadsAll("ZSCAN"), Run: z.interCard},
		{Name: "zinterstore", Arity: -4, Flags: write, Keys: stored, Run: z.interStore},
		{Name: "zlexcount", Arity: 4, Flags: read | fast, Keys: command.FirstArg(access), Run: lexCount},
		{Name: "zmpop", Arity: -4, Flags: command.Write, Keys: numbered(1, take), Run: mPop},
		{Name: "zmscore", Arity: -3, Flags: read | fast, Keys: command.FirstArg(access), Run: mScore},
		{Name: "zpopmax", Arity: -2, Flags: command.Write | fast, Keys: command.FirstArg(take), Run: popMax},
		{Name: "zpopmin", Arity: -2, Flags: command.Write | fast, Keys: command.FirstArg(take), Run: popMin},
		{Name: "zrandmember", Arity: -2, Flags: read, Keys: command.FirstArg(access), Tips: random,
			Reads: command.ReadsPicked, Run: z.randMember},
		{Name: "zrange", Arity: -4, Flags: read, Keys: command.FirstArg(access),
			Reads: command.ReadsZRange, Run: zrange},
		{Name: "zrangebylex", Arity: -4, Flags: read, Keys: command.FirstArg(access), Reads: limited, Run: rangeByLex},
		{Name: "zrangebyscore", Arity: -4, Flags: read, Keys: command.FirstArg(access),
			Reads: limited, Run: rangeByScore},
		{Name: "zrangestore", Arity: -5, Flags: write, Keys: rangeStored, Run: z.rangeStore},
		{Name: "zrank", Arity: -3, Flags: read | fast, Keys: command.FirstArg(access), Run: rank},
		{Name: "zrem", Arity: -3, Flags: command.Write | fast, Keys: command.FirstArg(remove), Run: rem},
		{Name: "zremrangebylex", Arity: 4, Flags: command.Write, Keys: command.FirstArg(remove), Run: removeByLex},
		{Name: "zremrangebyrank", Arity: 4, Flags: command.Write, Keys: command.FirstArg(remove), Run: removeByRank},
		{Name: "zremrangebyscore", Arity: 4, Flags: command.Write, Keys: command.FirstArg(remove), Run: removeByScore},
		{Name: "zrevrange", Arity: -4, Flags: read, Keys: command.FirstArg(access),
			Reads: command.ReadsSpan, Run: revRange},
		{Name: "zrevrangebylex", Arity: -4, Flags: read, Keys: command.FirstArg(access),
			Reads: limited, Run: revRangeByLex},
		{Name: "zrevrangebyscore", Arity: -4, Flags: read, Keys: command.FirstArg(access),
			Reads: limited, Run: revRangeByScore},
		{Name: "zrevrank", Arity: -3, Flags: read | fast, Keys: command.FirstArg(access), Run: revRank},
		{Name: "zscan", Arity: -3, Flags: read, Keys: command.FirstArg(access), Tips: random,
			Reads: command.ReadsScan(3), Run: z.scan},
		{Name: "zscore", Arity: 3, Flags: read | fast, Keys: command.FirstArg(access), Run: score},
		{Name: "zunion", Arity: -3, Flags: read, Keys: numbered(1, access),
			Reads: command.ReadsAll("ZSCAN"), Run: z.union},
		{Name: "zunionstore", Arity: -4, Flags: write, Keys: stored, Run: z.unionStore},
	}}
}

var (
	destination = command.KeySpec{Flags: command.KeyOW | command.KeyUpdate, Index: 1, Step: 1}
	rangeStored = []command.KeySpec{destination, {Flags: access, Index: 2, Step: 1}}
	stored      = append([]command.KeySpec{destination}, numbered(2, access)...)
	butLast     = []command.KeySpec{{Flags: take, Index: 1, LastKey: -2, Step: 1}}
)

// numbered returns the key spec of a count at index and of that many keys after it.
func numbered(index int, f command.KeyFlags) []command.KeySpec {
	return []command.KeySpec{{Flags: f, Index: index, KeyNum: true, FirstKey: 1, KeyStep: 1}}
}

// lookup finds the sorted set at key for reading. If there is none, it publishes a miss, and returns the zero Value and
// no error.
//
// Errors: ErrWrongType.
func lookup(c *command.Context, key []byte) (value.Value, error) { return c.Find(key, value.ZSet) }

// edit finds the sorted set at key for changing it. It returns nil and no error for a missing key.
//
// Errors: ErrWrongType.
func edit(c *command.Context, key []byte) (*value.Edit, error) { return c.FindEdit(key, value.ZSet) }

func limits(c *command.Context) zset.Limits { return c.Settings.ZSets.Limits() }

func answer(r *protocol.Reply, member listpack.Element) {
	if member.IsInt {
		r.BulkInt(member.Int)
	} else {
		r.Bulk(member.Bytes())
	}
}
