package keyspace

import (
	"cmp"
	"slices"

	"spindle/engine/data/value"
	"spindle/engine/data/value/hash"
	"spindle/engine/data/value/list"
	"spindle/engine/data/value/set"
	"spindle/engine/data/value/stream"
	"spindle/engine/data/value/zset"
)

// The largest keys of each type are known without a scan. Every key past a bound is listed in the order of its type, a
// heap.
//
//	a key was written ── at or past the bound? ──▶ pending: 64 keys ── displaced, or asked ──▶ order of its type: a heap
//
// keyspace.G1. The size that the order has for a key is at least the key's real size. A write that grows a key calls
// written, and the key's size is measured again before the order is read.
// keyspace.G2. The order may list keys that have shrunk or no longer exist, because its reader measures the first key
// again. So code that shrinks or removes a key need not update the order.
// keyspace.G3. For each key that enters an order, two others are measured again. So at most about half of the order is
// stale.
// keyspace.G4. The order names a key by its hash alone, in memory without pointers: 32 bytes for each key past the
// bound.

// The bounds: bigBytes for a string or a filter, bigElements for any other type.
const (
	bigBytes    = 64 << 10
	bigElements = 1000
)

// bigLeast is the least number of bytes in which a packed collection can hold bigElements elements.
const bigLeast = 2 * bigElements

// sizeOf returns the size by which keys of v's type are ordered, and whether it is past the bound.
func (k *Keyspace) sizeOf(v value.Value) (size int64, big bool) {
	if !v.Exists() {
		return 0, false
	}
	t, bound := v.Type(), int64(bigElements)
	switch t {
	case value.String:
		size, bound = int64(v.Len()), bigBytes
	case value.Module:
		size, bound = int64(k.store.MemoryUsage(v, 0)), bigBytes
	default:
		size = elements(v)
	}
	return size, size >= bound
}

// elements returns how many elements a collection has.
func elements(v value.Value) int64 {
	switch v.Type() {
	case value.List:
		return int64(list.Len(v))
	case value.Set:
		r := set.Read(v)
		return int64(r.Len())
	case value.ZSet:
		return int64(zset.Len(v))
	case value.Hash:
		return int64(hash.Len(v))
	case value.Stream:
		return int64(stream.At(v.Root()).Len())
	}
	return 1
}

// Elements returns how many elements the value of key has: 1 for a string, 0 for no value. It changes nothing. Turn
// only.
func (db *DB) Elements(key []byte) int64 {
	v := db.Peek(key)
	if !v.Exists() {
		return 0
	}
	return elements(v)
}

// mayBeBig reports whether v may be past the bound. It reads only the entry.
func mayBeBig(v value.Value) bool { return v.Rooted() || v.PayloadSize() >= bigLeast }

// A bigOrder lists the keys of one type in one database that are past the bound. It is a heap with the largest first.
type bigOrder struct {
	heap []bigItem
	at   map[uint64]int32 // index in heap, by hash
	next int              // index in heap of the key that sweep measures next (keyspace.G3)
}

type bigItem struct {
	hash uint64
	size int64
}

// A bigPending is a key that was written and must be measured again.
type bigPending struct {
	d    *data
	hash uint64
}

// bigKeys is the part of this state that all databases share.
type bigKeys struct {
	on      bool
	pending [64]bigPending
}

// written records that v was written. hash is that of its key.
func (k *Keyspace) written(d *data, hash uint64, v value.Value) {
	if !k.big.on || !v.Exists() || !mayBeBig(v) {
		return
	}
	p := &k.big.pending[hash%uint64(len(k.big.pending))]
	if p.hash == hash && p.d == d {
		return
	}
	if _, big := k.sizeOf(v); big {
		k.weighPending(p)
		*p = bigPending{d, hash}
	}
}

// writtenEdit records that the value at key was changed in place, through the last Edit that was returned or otherwise.
func (db *DB) writtenEdit(key []byte) {
	k, keys := db.k, &db.d.t
	if e := k.handed; e != nil && e.Holds(keys) && string(e.Key()) == string(key) {
		v := e.Value()
		db.resize(v)
		if mayBeBig(v) {
			k.written(db.d, e.Hash(), v)
		}
		return
	}
	hash := keys.HashOf(key)
	_, ref := keys.Find(hash, key)
	if v := value.At(ref); v.Exists() {
		db.resize(v)
		k.written(db.d, hash, v)
	}
}

// weighPending measures a pending key and updates the order of its type.
func (k *Keyspace) weighPending(p *bigPending) {
	d := p.d
	if d == nil {
		return
	}
	p.d = nil
	v := d.byHash(p.hash)
	size, big := k.sizeOf(v)
	if !big {
		return
	}
	t := v.Type() & 7
	if d.big[t] == nil {
		d.big[t] = &bigOrder{at: map[uint64]int32{}}
	}
	if o := d.big[t]; o.put(p.hash, size) {
		for range 2 {
			k.sweep(d, o, t)
		}
	}
}

// byHash returns the value of the key with this hash.
func (d *data) byHash(hash uint64) value.Value {
	_, ref := d.t.FindHash(hash)
	return value.At(ref)
}

// sweep measures one key of the order again. It removes the key from the order if it is not big any more (keyspace.G3).
func (k *Keyspace) sweep(d *data, o *bigOrder, t value.Type) {
	if o.next++; o.next >= len(o.heap) {
		o.next = 0
	}
	if len(o.heap) > 0 {
		k.weigh(d, o, t, o.next)
	}
}

// weigh measures the i-th key in the order and corrects its size. It returns false if that key no longer exists or had
// another size.
func (k *Keyspace) weigh(d *data, o *bigOrder, t value.Type, i int) bool {
	it := o.heap[i]
	v := d.byHash(it.hash)
	size, big := k.sizeOf(v)
	switch {
	case !big || v.Type() != t:
		o.remove(i)
		return false
	case size != it.size:
		o.put(it.hash, size)
		return false
	}
	return true
}

// put sets a key's size. added means that the key was not in the order before.
func (o *bigOrder) put(hash uint64, size int64) (added bool) {
	i, there := o.at[hash]
	if !there {
		i = int32(len(o.heap))
		o.heap = append(o.heap, bigItem{hash, size})
		o.at[hash] = i
	}
	o.heap[i].size = size
	o.down(o.up(int(i)))
	return !there
}

// remove removes the i-th key.
func (o *bigOrder) remove(i int) {
	last := len(o.heap) - 1
	delete(o.at, o.heap[i].hash)
	if i != last {
		o.heap[i] = o.heap[last]
		o.at[o.heap[i].hash] = int32(i)
	}
	if o.heap = o.heap[:last]; i != last {
		o.down(o.up(i))
	}
}

func (o *bigOrder) swap(i, j int) {
	o.heap[i], o.heap[j] = o.heap[j], o.heap[i]
	o.at[o.heap[i].hash], o.at[o.heap[j].hash] = int32(i), int32(j)
}

func (o *bigOrder) up(i int) int {
	for i > 0 && o.heap[i].size > o.heap[(i-1)/2].size {
		o.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (o *bigOrder) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(o.heap) {
			return
		}
		if child+1 < len(o.heap) && o.heap[child+1].size > o.heap[child].size {
			child++
		}
		if o.heap[child].size <= o.heap[i].size {
			return
		}
		o.swap(i, child)
		i = child
	}
}

// A BigKey is one of the largest keys of its type.
type BigKey struct {
	DB       int
	Type     value.Type
	TypeName string
	Key      string
	Bytes    int64 // the length of a string, otherwise about what MEMORY USAGE returns
	Elements int64 // 1 for a string or a filter
	size     int64
}

// BigKeys returns the n largest keys of each type, type by type, the largest first. It covers only keys past the bound:
// 64 KB for strings and filters, 1,000 elements for other types.
//
// Cost: O(n log m), with m keys past the bound.
func (k *Keyspace) BigKeys(n int) (largest []BigKey) {
	k.assertHeld()
	for i := range k.big.pending {
		k.weighPending(&k.big.pending[i])
	}
	for t := value.String; t <= value.Module; t++ {
		from := len(largest)
		for i := range k.dbs {
			if o := k.dbs[i].d.big[t]; o != nil {
				largest = k.largest(&k.dbs[i], o, t, n, largest)
			}
		}
		slices.SortStableFunc(largest[from:], func(a, b BigKey) int {
			return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.Key, b.Key))
		})
		largest = largest[:min(len(largest), from+n)]
	}
	return largest
}

// largest appends the n largest keys of an order. It removes them from the order while it works, and puts them back at
// the end.
func (k *Keyspace) largest(db *DB, o *bigOrder, t value.Type, n int, into []BigKey) []BigKey {
	var aside []bigItem
	for found := 0; found < n && len(o.heap) > 0; {
		if !k.weigh(db.d, o, t, 0) {
			continue
		}
		it := o.heap[0]
		aside = append(aside, it)
		o.remove(0)
		v := db.d.byHash(it.hash)
		if v.Volatile() && v.Deadline() < k.now && !k.Trusting {
			continue // the key is about to expire
		}
		if k.conceals(v.Key()) {
			continue
		}
		b := BigKey{DB: db.index, Type: t, TypeName: v.TypeName(), Key: string(v.Key()), Bytes: it.size,
			Elements: 1, size: it.size}
		if t != value.String {
			b.Bytes = int64(k.store.MemoryUsage(v, evictSamples))
		}
		if t != value.String && t != value.Module {
			b.Elements = it.size
		}
		into = append(into, b)
		found++
	}
	for _, it := range aside {
		o.put(it.hash, it.size)
	}
	return into
}
