// Package bloom implements the commands on Bloom filters, BF.ADD and its kin. The replies are those of the module
// RedisBloom 2.8.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, or knows another family.
// Start here: each row is a command. add.go makes filters and adds to them, read.go queries them, chunk.go dumps and
// loads them.
//
// Like all commands of a module, they publish no keyspace events of their type. An addition is propagated as written,
// even if the filter had the item.
package bloom

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
	"spindle/protocol"
)

// Name is the name of the family and of the module.
const Name = "bf"

func Family(d *Defaults) command.Family {
	return command.Family{Name: Name, Rows: []command.Spec{
		{Name: "bf.add", Arity: 3, Flags: write | command.Brief, Keys: changed, Run: d.add},
		{Name: "bf.card", Arity: 2, Flags: read, Keys: asked, Run: card},
		{Name: "bf.debug", Arity: 2, Flags: read, Keys: asked, Run: debug},
		{Name: "bf.exists", Arity: 3, Flags: read, Keys: asked, Run: exists},
		{Name: "bf.info", Arity: -2, Flags: read, Keys: asked, Run: info},
		{Name: "bf.insert", Arity: -4, Flags: write, Keys: changed, Run: d.insert},
		{Name: "bf.loadchunk", Arity: 4, Flags: write, Keys: changed, Run: loadChunk},
		{Name: "bf.madd", Arity: -3, Flags: write, Keys: changed, Run: d.addEach},
		{Name: "bf.mexists", Arity: -3, Flags: read, Keys: asked, Run: existEach},
		{Name: "bf.reserve", Arity: -4, Flags: write, Keys: changed, Run: reserve},
		{Name: "bf.scandump", Arity: 3, Flags: read, Keys: asked, Run: scanDump},
	}}
}

const (
	write = command.Write | command.DenyOOM | command.Module
	read  = command.ReadOnly | command.Fast | command.Module
)

var (
	changed = command.FirstArg(command.KeyRW | command.KeyAccess | command.KeyUpdate)
	asked   = command.FirstArg(command.KeyRO | command.KeyAccess)
)

// lookup finds the filter at key for reading. If there is none, it publishes a miss.
//
// Errors: ErrWrongType, errNotFound.
func lookup(c *command.Context, key []byte) (bloom.Reader, error) {
	v := c.DB.Lookup(key)
	if !v.Exists() {
		c.Notify(command.EventKeyMiss, "keymiss", key)
		return bloom.Reader{}, errNotFound
	}
	if !bloom.IsFilter(v) {
		return bloom.Reader{}, protocol.ErrWrongType
	}
	return bloom.Read(v), nil
}

// edit finds the filter at key for changing it. It returns nil and no error for a missing key.
//
// Errors: ErrWrongType.
func edit(c *command.Context, key []byte) (*value.Edit, error) {
	e := c.DB.Edit(key)
	if e != nil && !bloom.IsFilter(e.Value()) {
		return nil, protocol.ErrWrongType
	}
	return e, nil
}

// bound returns the limits of a call with this many items. A chain that grew by additions stays far below the mean
// number of probes that is allowed here. An item tests two or three bits of each link, and all its bits of one link.
//
// A command of the primary has no limit, because the primary sends only what it has done.
func bound(c *command.Context, items int) bloom.Bound {
	if c.Obeys() {
		return bloom.Bound{Bytes: math.MaxUint64, Probes: math.MaxInt}
	}
	return bloom.Bound{Bytes: c.MaxFilter(), Probes: 1<<20 + items<<12}
}

// propagated marks key as changed, so that the call is propagated as written.
func propagated(c *command.Context, key []byte) {
	c.DB.Touched(key)
	c.Changed(1)
}
