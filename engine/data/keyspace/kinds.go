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

// register registers the structures of collections, one line for each type's package. Each structure has functions that
// destroy, copy and measure it.
func (k *Keyspace) register() {
	k.store.Register(value.KindSet, set.Structure)
	k.store.Register(value.KindZSet, zset.Structure)
	k.store.Register(value.KindStream, stream.Structure)
	k.store.Register(value.KindHash, hash.Structure)
	k.store.Register(value.KindList, list.Structure)
	k.store.Register(value.KindBloom, bloom.Structure)
	k.ExpireFields, k.Forget = hash.ExpireDue, stream.Forget
}

var _ [0]struct{} = [Emptied - hash.Emptied]struct{}{}
