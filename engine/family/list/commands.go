// Package list implements the commands on lists, including the blocking ones.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, or knows another family.
// Start here: each row is a command. push.go and pop.go work at the ends, read.go reads, edit.go changes the middle.
// move.go moves an element to another list, wait.go blocks.
package list

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
	"spindle/protocol"
)

const (
	write = command.Write | command.DenyOOM
	fast  = command.Fast
	read  = command.ReadOnly
	block = command.Blocking

	access = command.KeyRO | command.KeyAccess
	take   = command.KeyRW | command.KeyAccess | command.KeyDelete
	insert = command.KeyRW | command.KeyInsert
	remove = command.KeyRW | command.KeyDelete
)

var Family = command.Family{Name: "list", ACL: command.ACLList, Rows: []command.Spec{
	{Name: "blmove", Arity: 6, Flags: write | block, Keys: fromTo, Run: blMove},
	{Name: "blmovem", Arity: -6, Flags: write | block, Keys: fromTo, Run: blMoveM},
	{Name: "blmpop", Arity: -5, Flags: command.Write | block, Keys: counted(2), Run: blMPop},
	{Name: "blpop", Arity: -3, Flags: command.Write | block, Keys: allButLast, Run: blPop},
	{Name: "brpop", Arity: -3, Flags: command.Write | block, Keys: allButLast, Run: brPop},
	{Name: "brpoplpush", Arity: 4, Flags: write | block, Keys: fromTo, Run: brPopLPush},
	{Name: "lindex", Arity: 3, Flags: read, Keys: command.FirstArg(access), Run: lIndex},
	{Name: "linsert", Arity: 5, Flags: write, Keys: command.FirstArg(insert), Run: lInsert},
	{Name: "llen", Arity: 2, Flags: read | fast, Keys: command.FirstArg(command.KeyRO), Run: lLen},
	{Name: "lmove", Arity: 5, Flags: write | command.Brief, Keys: fromTo, Run: lMove},
	{Name: "lmovem", Arity: -5, Flags: write, Keys: fromTo, Run: lMoveM},
	{Name: "lmpop", Arity: -4, Flags: command.Write, Keys: counted(1), Run: lMPop},
	{Name: "lpop", Arity: -2, Flags: command.Write | fast, Keys: command.FirstArg(take), Run: lPop},
	{Name: "lpos", Arity: -3, Flags: read, Keys: command.FirstArg(access),
		Reads: command.ReadsNext("MAXLEN", 3, 0, "a small MAXLEN"), Run: lPos},
	{Name: "lpush", Arity: -3, Flags: write | fast, Keys: command.FirstArg(insert), Run: lPush},
	{Name: "lpushx", Arity: -3, Flags: write | fast, Keys: command.FirstArg(insert), Run: lPushX},
	{Name: "lrange", Arity: 4, Flags: read, Keys: command.FirstArg(access), Reads: command.ReadsSpan, Run: lRange},
	{Name: "lrem", Arity: 4, Flags: command.Write, Keys: command.FirstArg(remove), Run: lRem},
	{Name: "lset", Arity: 4, Flags: write, Keys: command.FirstArg(command.KeyRW | command.KeyUpdate), Run: lSet},
	{Name: "ltrim", Arity: 4, Flags: command.Write, Keys: command.FirstArg(remove), Run: lTrim},
	{Name: "rpop", Arity: -2, Flags: command.Write | fast, Keys: command.FirstArg(take), Run: rPop},
	{Name: "rpoplpush", Arity: 3, Flags: write | command.Brief, Keys: fromTo, Run: rPopLPush},
	{Name: "rpush", Arity: -3, Flags: write | fast, Keys: command.FirstArg(insert), Run: rPush},
	{Name: "rpushx", Arity: -3, Flags: write | fast, Keys: command.FirstArg(insert), Run: rPushX},
}}

var (
	fromTo     = []command.KeySpec{{Flags: take, Index: 1, Step: 1}, {Flags: insert, Index: 2, Step: 1}}
	allButLast = []command.KeySpec{{Flags: take, Index: 1, LastKey: -2, Step: 1}}
)

// counted returns the spec of keys whose number is argument at. The keys follow that argument.
func counted(at int) []command.KeySpec {
	return []command.KeySpec{{Flags: take, Index: at, KeyNum: true, FirstKey: 1, KeyStep: 1}}
}

func find(c *command.Context, key []byte) (value.Value, error) { return c.Find(key, value.List) }

func edit(c *command.Context, key []byte) (*value.Edit, error) { return c.FindEdit(key, value.List) }

// push adds elements to e, the list at key. If e is nil, it creates the list.
func push(c *command.Context, e *value.Edit, key []byte, end list.End, elements [][]byte) *value.Edit {
	l := c.Settings.Lists.Limits()
	if e == nil {
		n, packed := list.PackedBytes(l, elements)
		if packed {
			e = c.DB.Create(key, value.List, value.Listpack, n)
			list.Write(e.Packed(), end, elements)
			c.Notify(command.EventNew, "new", key)
			return e
		}
		e = c.DB.CreateRoot(key, value.List, value.Quicklist, list.New(c.Space.Store(), l))
		c.Notify(command.EventNew, "new", key)
	}
	list.Push(e, l, end, elements)
	return e
}

// removed publishes event after n elements were removed from the list at key. If no element is left, it removes the
// key.
func removed(c *command.Context, e *value.Edit, key []byte, event string, n int) {
	c.Notify(command.EventList, event, key)
	if list.Len(e.Value()) == 0 {
		c.DB.Remove(e)
		c.Notify(command.EventGeneric, "del", key)
	} else {
		list.Shrink(e, c.Settings.Lists.Limits())
		c.DB.Touched(key)
	}
	c.Changed(n)
}

func pushed(end list.End) string {
	if end == list.Head {
		return "lpush"
	}
	return "rpush"
}

func popped(end list.End) string {
	if end == list.Head {
		return "lpop"
	}
	return "rpop"
}

func wordPop(end list.End) []byte {
	if end == list.Head {
		return wordLPop
	}
	return wordRPop
}

var (
	wordLPop      = []byte("LPOP")
	wordRPop      = []byte("RPOP")
	wordLMove     = []byte("LMOVE")
	wordRPopLPush = []byte("RPOPLPUSH")
)

func endOf(arg []byte) (list.End, error) {
	switch {
	case command.Is(arg, "LEFT"):
		return list.Head, nil
	case command.Is(arg, "RIGHT"):
		return list.Tail, nil
	}
	return list.Head, protocol.ErrSyntax
}
