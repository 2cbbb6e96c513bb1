package command

import (
	"math/bits"

	"spindle/internal/ascii"
	"spindle/protocol"
)

// This file writes the entry of a row in COMMAND INFO. The introspect family uses it for all forms of COMMAND.

// shownFlags are the flags of a row that COMMAND INFO shows, in its order.
var shownFlags = []struct {
	flag Flags
	name string
}{
	{Write, "write"}, {ReadOnly, "readonly"}, {DenyOOM, "denyoom"}, {Module, "module"}, {Admin, "admin"},
	{PubSub, "pubsub"},
	{NoScript, "noscript"}, {Blocking, "blocking"}, {Loading, "loading"}, {Stale, "stale"},
	{SkipMonitor, "skip_monitor"}, {SkipSlowlog, "skip_slowlog"}, {Asking, "asking"}, {Fast, "fast"},
	{NoAuth, "no_auth"}, {NoMandatoryKeys, "no_mandatory_keys"}, {NoAsyncLoading, "no_async_loading"},
	{NoMulti, "no_multi"}, {MovableKeys, "movablekeys"}, {AllowBusy, "allow_busy"},
}

// categoryNames are the ACL categories' names by bit.
var categoryNames = [...]string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo",
	"stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
}

// keyFlagNames are the key spec flags' names by bit.
var keyFlagNames = [...]string{
	"RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "not_key", "incomplete", "variable_flags",
}

// Category returns the ACL category with this name, in any case.
func Category(name []byte) (ACL, bool) {
	for i, n := range categoryNames {
		if ascii.EqualFold(name, n) {
			return 1 << i, true
		}
	}
	return 0, false
}

// Names yields the names of the categories in a, in the order of categoryNames.
func (a ACL) Names(yield func(string) bool) {
	for i, n := range categoryNames {
		if a&(1<<i) != 0 && !yield(n) {
			return
		}
	}
}

// AppendCommandInfo appends one entry of COMMAND: name, arity, flags, first key, last key, step, ACL categories, tips,
// key specs, subcommands.
func AppendCommandInfo(r *protocol.Reply, s *Spec) {
	r.Array(10)
	r.BulkString(s.Full)
	r.Int(int64(s.Arity))
	appendFlags(r, s.Flags)
	first, last, step := s.firstLastStep()
	r.Int(int64(first))
	r.Int(int64(last))
	r.Int(int64(step))
	r.Set(bits.OnesCount64(uint64(s.ACL)))
	for name := range s.ACL.Names {
		r.Simple("@" + name)
	}
	r.Set(len(s.Tips))
	for _, tip := range s.Tips {
		r.BulkString(tip)
	}
	r.Set(len(s.Keys))
	for i := range s.Keys {
		appendKeySpec(r, &s.Keys[i])
	}
	if len(s.Subs) == 0 {
		r.Set(0)
		return
	}
	r.Array(len(s.Subs))
	for i := range s.Subs {
		AppendCommandInfo(r, &s.Subs[i])
	}
}

func appendFlags(r *protocol.Reply, f Flags) {
	n := 0
	for _, shown := range shownFlags {
		if f&shown.flag != 0 {
			n++
		}
	}
	r.Set(n)
	for _, shown := range shownFlags {
		if f&shown.flag != 0 {
			r.Simple(shown.name)
		}
	}
}

// AppendKeyFlags appends a key's flags as COMMAND INFO and COMMAND GETKEYSANDFLAGS show them.
func AppendKeyFlags(r *protocol.Reply, f KeyFlags) {
	r.Set(bits.OnesCount16(uint16(f)))
	for i, name := range keyFlagNames {
		if f&(1<<i) != 0 {
			r.Simple(name)
		}
	}
}

func appendKeySpec(r *protocol.Reply, k *KeySpec) {
	if k.Notes != "" {
		r.Map(4)
		r.BulkString("notes")
		r.BulkString(k.Notes)
	} else {
		r.Map(3)
	}
	r.BulkString("flags")
	AppendKeyFlags(r, k.Flags)

	r.BulkString("begin_search")
	switch {
	case k.Keyword != "":
		appendSearch(r, "keyword", 2)
		r.BulkString("keyword")
		r.BulkString(k.Keyword)
		appendNumber(r, "startfrom", k.KeywordFrom)
	case k.Unknown:
		appendSearch(r, "unknown", 0)
	default:
		appendSearch(r, "index", 1)
		appendNumber(r, "index", k.Index)
	}

	r.BulkString("find_keys")
	switch {
	case k.Unknown:
		appendSearch(r, "unknown", 0)
	case k.KeyNum:
		appendSearch(r, "keynum", 3)
		appendNumber(r, "keynumidx", k.KeyNumIndex)
		appendNumber(r, "firstkey", k.FirstKey)
		appendNumber(r, "keystep", k.KeyStep)
	default:
		appendSearch(r, "range", 3)
		appendNumber(r, "lastkey", k.LastKey)
		appendNumber(r, "keystep", k.Step)
		appendNumber(r, "limit", k.Limit)
	}
}

// appendSearch begins the reply about how a key spec searches: its type, and a map of n figures, which the caller
// appends.
func appendSearch(r *protocol.Reply, kind string, n int) {
	r.Map(2)
	r.BulkString("type")
	r.BulkString(kind)
	r.BulkString("spec")
	r.Map(n)
}

func appendNumber(r *protocol.Reply, name string, n int) {
	r.BulkString(name)
	r.Int(int64(n))
}
