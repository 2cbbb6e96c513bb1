package keyspace

import (
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
	"spindle/engine/data/value/hash"
	"spindle/engine/data/value/list"
	"spindle/engine/data/value/set"
	"spindle/engine/data/value/stream"
	"spindle/engine/data/value/zset"
)

// register is the list of structures that collections are kept in, a line for each type's package: what to call when
// one is let go, copied or measured.
func (k *Keyspace) register() {
	k.store.Register(value.KindSet, set.Structure)
	k.store.Register(value.KindZSet, zset.Structure)
	k.store.Register(value.KindStream, stream.Structure)
	k.store.Register(value.KindHash, hash.Structure)
	k.store.Register(value.KindList, list.Structure)
	k.store.Register(value.KindBloom, bloom.Structure)
	k.ExpireFields = hash.ExpireDue
}

var _ [0]struct{} = [Emptied - hash.Emptied]struct{}{}
