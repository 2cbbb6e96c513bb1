// Package geo implements the commands on points of a map, which are members of sorted sets.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, or knows another family.
// Start here: each row is a command. add.go makes scores of points; position.go replies for single members. search.go
// parses a search, collect.go runs it, order.go sorts, result.go replies or stores. number.go parses and prints numbers
// and units. cell.go, area.go, polygon.go, distance.go and trig.go are the arithmetic, which depends on no command.
package geo

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
)

const (
	write  = command.Write | command.DenyOOM
	access = command.KeyRO | command.KeyAccess
	stored = command.KeyOW | command.KeyUpdate
)

// commands holds buffers that all handlers share.
//
// Owner: the turn; each call empties them.
type commands struct {
	found  []found
	digits []byte // the texts of members that are integers
	packed []byte // a listpack under construction
	args   [][]byte
	area   polygon
}

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

// storing returns the key specs of a command that takes STORE and STOREDIST. The search for them begins at argument at.
func storing(at int) []command.KeySpec {
	return []command.KeySpec{
		{Flags: access, Index: 1, Step: 1},
		{Flags: stored, Keyword: "STORE", KeywordFrom: at, Step: 1},
		{Flags: stored, Keyword: "STOREDIST", KeywordFrom: at, Step: 1},
	}
}

func radiusKeys(into []command.KeyPosition, args [][]byte) ([]command.KeyPosition, error) {
	into = append(into, command.KeyPosition{Index: 1, Flags: access})
	if at := destination(args); at > 0 {
		into = append(into, command.KeyPosition{Index: at, Flags: stored})
	}
	return into, nil
}

// destination returns the index of the destination key in a call of GEORADIUS or GEORADIUSBYMEMBER. It is the key of
// the last STORE or STOREDIST. 0 means that there is none.
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

func lookup(c *command.Context, key []byte) (value.Value, error) { return c.Find(key, value.ZSet) }

// locate returns the position of member. ok is false if the key or the member does not exist.
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

// limits returns the largest sizes at which a sorted set stays a listpack.
func limits(c *command.Context) zset.Limits { return c.Settings.ZSets.Limits() }
