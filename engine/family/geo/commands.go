// Package geo is the commands on points of a map, which are members of sorted sets.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, or knows another family.
// Start here: a row a command. add.go makes scores of points, position.go answers for single members, search.go reads
// what to look for and collect.go finds it, result.go puts it in order (order.go) and answers or stores it; number.go
// is numbers and units as clients write and see them. cell.go, area.go, distance.go and trig.go are the arithmetic,
// which knows no command.
package geo

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/protocol"
)

const (
	write  = command.Write | command.DenyOOM
	access = command.KeyRO | command.KeyAccess
	stored = command.KeyOW | command.KeyUpdate
)

// commands is what the handlers share: room to work in, kept from call to call.
//
// Owner: the turn; a call leaves nothing in it for the next.
type commands struct {
	found  []found
	digits []byte // texts of members that are integers
	packed []byte // a listpack being made
	args   [][]byte
}

// Family is every command on points.
func Family() command.Family {
	g := &commands{}
	key := command.FirstArg(access)
	return command.Family{Name: "geo", ACL: command.ACLGeo, Rows: []command.Spec{
		{Name: "geoadd", Arity: -5, Flags: write, Keys: command.FirstArg(command.KeyRW | command.KeyUpdate), Run: g.add},
		{Name: "geodist", Arity: -4, Flags: command.ReadOnly, Keys: key, Run: dist},
		{Name: "geohash", Arity: -2, Flags: command.ReadOnly, Keys: key, Run: hash},
		{Name: "geopos", Arity: -2, Flags: command.ReadOnly, Keys: key, Run: pos},
		{Name: "georadius", Arity: -6, Flags: write, Keys: storing(6), GetKeys: radiusKeys, Run: g.radius},
		{Name: "georadius_ro", Arity: -6, Flags: command.ReadOnly, Keys: key, Run: g.radiusRead},
		{Name: "georadiusbymember", Arity: -5, Flags: write, Keys: storing(5), GetKeys: radiusKeys, Run: g.radiusByMember},
		{Name: "georadiusbymember_ro", Arity: -5, Flags: command.ReadOnly, Keys: key, Run: g.radiusByMemberRead},
		{Name: "geosearch", Arity: -7, Flags: command.ReadOnly, Keys: key, Run: g.search},
		{Name: "geosearchstore", Arity: -8, Flags: write,
			Keys: []command.KeySpec{{Flags: stored, Index: 1, Step: 1}, {Flags: access, Index: 2, Step: 1}},
			Run:  g.searchStore},
	}}
}

// storing is the keys of a command that takes STORE and STOREDIST from the argument at index at on.
func storing(at int) []command.KeySpec {
	return []command.KeySpec{
		{Flags: access, Index: 1, Step: 1},
		{Flags: stored, Keyword: "STORE", KeywordFrom: at, Step: 1},
		{Flags: stored, Keyword: "STOREDIST", KeywordFrom: at, Step: 1},
	}
}

// radiusKeys finds the keys of GEORADIUS and GEORADIUSBYMEMBER.
func radiusKeys(into []command.KeyPosition, args [][]byte) ([]command.KeyPosition, error) {
	into = append(into, command.KeyPosition{Index: 1, Flags: access})
	if at := destination(args); at > 0 {
		into = append(into, command.KeyPosition{Index: at, Flags: stored})
	}
	return into, nil
}

// destination is where the key of the last STORE or STOREDIST stands in a call of GEORADIUS or GEORADIUSBYMEMBER. It is
// the one that counts. 0 means that there is none.
func destination(args [][]byte) (at int) {
	for i := 5; i+1 < len(args); i++ {
		switch {
		case command.Is(args[i], "COUNT"):
			i++
		case command.Is(args[i], "STORE"), command.Is(args[i], "STOREDIST"):
			i++
			at = i
		}
	}
	return at
}

// lookup finds the sorted set at key for reading and tells of a miss; the zero Value is no error.
//
// Errors: ErrWrongType.
func lookup(c *command.Context, key []byte) (value.Value, error) {
	v := c.DB.Lookup(key)
	switch {
	case !v.Exists():
		c.Notify(command.EventKeyMiss, "keymiss", key)
	case v.Type() != value.ZSet:
		return v, protocol.ErrWrongType
	}
	return v, nil
}

// locate is where a member is; false if it is not there, or there is no key.
func locate(v value.Value, member []byte) (p point, ok bool) {
	if !v.Exists() {
		return p, false
	}
	score, ok := zset.Score(v, member)
	if !ok {
		return p, false
	}
	return pointOf(score), true
}

// limits are up to where what is stored is a listpack.
func limits(c *command.Context) zset.Limits { return c.Settings.ZSets.Limits() }
