// Package bloom is the commands on Bloom filters: BF.ADD and its kin, as the module RedisBloom 2.8 answers them.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, or knows another family.
// Start here: a row a command. add.go makes filters and adds to them, read.go queries them, chunk.go dumps and loads
// them.
//
// As commands of a module they publish no keyspace events of their type. An addition is propagated as written, even if
// the item was there.
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

// Clients match these texts. They are worded as in RedisBloom, with the blank at one end; not all begin with ERR.
var (
	errNotFound      = &protocol.Error{Code: "ERR", Text: "not found"}
	errExists        = &protocol.Error{Code: "ERR", Text: "item exists"}
	errRate          = &protocol.Error{Code: "ERR", Text: "bad error rate"}
	errRateRange     = &protocol.Error{Code: "ERR", Text: "(0 < error rate range < 1) "}
	errCapacity      = &protocol.Error{Code: "ERR", Text: "bad capacity"}
	errCapacityRange = &protocol.Error{Code: "ERR", Text: "(capacity should be larger than 0)"}
	errNoGrowth      = &protocol.Error{Code: "ERR", Text: "no expansion"}
	errGrowth        = &protocol.Error{Code: "ERR", Text: "bad expansion"}
	errGrowthRange   = &protocol.Error{Code: "ERR", Text: "expansion should be greater or equal to 1"}
	errFixedGrowth   = &protocol.Error{Code: "Nonscaling", Text: "filters cannot expand"}
	errTooBig        = &protocol.Error{Code: "ERR", Text: "Insufficient memory to create filter"}
	errBound         = &protocol.Error{Code: "ERR", Text: "the filter would be larger than bf-max-size or maxmemory"}
	errWork          = &protocol.Error{Code: "ERR", Text: "the filter has too many hashes for so many items in one call"}
	errCannotCreate  = &protocol.Error{Code: "ERR", Text: "could not create filter"}
	errFull          = &protocol.Error{Code: "ERR", Text: "non scaling filter is full"}
	errCannotAdd     = &protocol.Error{Code: "ERR", Text: "problem inserting into filter"}
	errFieldName     = &protocol.Error{Code: "Invalid", Text: "information value"}
	errScanNumber    = &protocol.Error{Code: "Second", Text: "argument must be numeric"}
	errLoadNumber    = &protocol.Error{Code: "ERR", Text: "Second argument must be numeric"}
	errData          = &protocol.Error{Code: "ERR", Text: "received bad data"}
	errOutside       = &protocol.Error{Code: "ERR", Text: "invalid offset - no link found"}
	errAcross        = &protocol.Error{Code: "ERR", Text: "invalid chunk - Too big for current filter"}
	errInsertRate    = &protocol.Error{Code: "Bad", Text: "error rate"}
	errInsertGrowth  = &protocol.Error{Code: "Bad", Text: "expansion"}
	errInsertCap     = &protocol.Error{Code: "Bad", Text: "capacity"}
	errInsertValue   = &protocol.Error{Code: "Bad", Text: "argument received"}
	errInsertOption  = &protocol.Error{Code: "Unknown", Text: "argument received"}
)

// lookup finds the filter at key for reading and publishes a miss.
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

// bound limits what a call with this many items may use. A chain that grew by adding stays far below the mean allowed
// here. An item tests two or three bits of each link, and all its bits of one link.
//
// A command of the primary has no bound: the primary sends only what it has done.
func bound(c *command.Context, items int) bloom.Bound {
	if c.Obeys() {
		return bloom.Bound{Bytes: math.MaxUint64, Probes: math.MaxInt}
	}
	return bloom.Bound{Bytes: c.MaxFilter(), Probes: 1<<20 + items<<12}
}

// propagated notes a change of key and propagates the call as written.
func propagated(c *command.Context, key []byte) {
	c.DB.Touched(key)
	c.Changed(1)
}
