package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A Policy is a maxmemory-policy.
type Policy uint8

const (
	NoEviction Policy = iota
	VolatileLRU
	VolatileLFU
	VolatileRandom
	VolatileTTL
	VolatileLRM // least recently modified
	AllKeysLRU
	AllKeysLFU
	AllKeysRandom
	AllKeysLRM
)

// Sets of policies, one bit per policy.
const (
	countUses   = 1<<VolatileLFU | 1<<AllKeysLFU
	timeChanges = 1<<VolatileLRM | 1<<AllKeysLRM
)

// in reports whether p is in the set of policies set.
func (p Policy) in(set uint32) bool { return 1<<p&set != 0 }

// LFU reports whether the policy counts how often keys are used. Then the clock is a counter.
func (p Policy) LFU() bool { return p.in(countUses) }

// LRM reports whether the clock is the time of the last change. Reads do not change it.
func (p Policy) LRM() bool { return p.in(timeChanges) }

// volatileOnly reports whether the policy evicts only keys with a deadline.
func (p Policy) volatileOnly() bool { return p >= VolatileLRU && p <= VolatileLRM }

func (p Policy) random() bool { return p == VolatileRandom || p == AllKeysRandom }

// A pool holds the best candidates for eviction among the keys sampled so far, the best last.
//
// A candidate is named by its hash, because a copy of the key would cost memory just when memory is short. The key may
// have been removed or used since. So EvictOne looks the hash up again and evicts the key that it finds.
type pool struct {
	n    int
	at   [poolSize]candidate
	refs []memory.Ref // the blocks of one sample
	next int          // the database from which a random policy evicted last
}

type candidate struct {
	score uint64 // higher means less worth keeping
	hash  uint64
	d     *data
}

const poolSize = 16

// EvictOne evicts one key by Policy. It returns false if the policy finds no key to evict. freed is the number of bytes
// that the key held. A reclaimer frees a big value a little later.
func (k *Keyspace) EvictOne() (freed int64, ok bool) {
	k.assertHeld()
	if k.Policy == NoEviction {
		return 0, false
	}
	if k.Policy.random() {
		return k.evictRandom()
	}
	for range 64 { // candidates may have been removed; each round samples again
		keys := 0
		for i := range k.dbs {
			keys += k.gather(&k.dbs[i])
		}
		if keys == 0 {
			return 0, false
		}
		for k.pool.n > 0 {
			k.pool.n--
			c := k.pool.at[k.pool.n]
			if db := k.holder(c.d); db != nil {
				p, ref := c.d.t.FindHash(c.hash)
				if ref != 0 && !c.d.t.ConcealsHash(c.hash) && (!k.Policy.volatileOnly() || p.Volatile()) {
					return k.evict(db, &p, ref), true
				}
			}
		}
	}
	return k.evictRandom() // the samples met only hidden keys: few of the keys are shown
}

// holder returns the database whose content is now d, or nil.
func (k *Keyspace) holder(d *data) *DB {
	for i := range k.dbs {
		if k.dbs[i].d == d {
			return &k.dbs[i]
		}
	}
	return nil
}

// gather samples a database into the pool. It returns the number of keys in the database that the policy may evict.
func (k *Keyspace) gather(db *DB) int {
	t := &db.d.t
	n := t.Shown()
	if k.Policy.volatileOnly() {
		n = t.ShownVolatile()
	}
	if n == 0 {
		return 0
	}
	k.pool.refs = t.Sample(&k.rng, max(k.Samples, 1), k.Policy.volatileOnly(), k.pool.refs[:0])
	for _, ref := range k.pool.refs {
		if t.Conceals(ref) {
			continue
		}
		v := value.At(ref)
		k.pool.offer(k.score(v), v, db.d)
	}
	return n
}

// score returns a higher number the less v is worth keeping.
func (k *Keyspace) score(v value.Value) uint64 {
	switch k.Policy {
	case VolatileLFU, AllKeysLFU:
		return uint64(255 - k.Frequency(v))
	case VolatileTTL:
		return ^uint64(0) - uint64(v.Deadline())
	default:
		return uint64(k.IdleMs(v))
	}
}

// offer inserts a candidate by its score. If the pool is full, the candidate must be better than the worst in the pool.
func (p *pool) offer(score uint64, v value.Value, d *data) {
	at := 0
	for at < p.n && p.at[at].score < score {
		at++
	}
	if p.n == poolSize && at == 0 {
		return
	}
	hash := d.t.HashOf(v.Key())
	for i := range p.n {
		if p.at[i].hash == hash && p.at[i].d == d { // the pool has the key, with an older score
			copy(p.at[i:], p.at[i+1:p.n])
			p.n--
			if i < at {
				at--
			}
			break
		}
	}
	if p.n == poolSize { // the worst is dropped
		copy(p.at[:at-1], p.at[1:at])
		at--
	} else {
		copy(p.at[at+1:p.n+1], p.at[at:p.n])
		p.n++
	}
	p.at[at] = candidate{score, hash, d}
}

// evictRandom evicts a random key that the policy may evict. Each call takes the next database that has one.
func (k *Keyspace) evictRandom() (freed int64, ok bool) {
	for range k.dbs {
		k.pool.next = (k.pool.next + 1) % len(k.dbs)
		db := &k.dbs[k.pool.next]
		t := &db.d.t
		var ref memory.Ref
		if k.Policy.volatileOnly() {
			ref = t.RandomVolatile(&k.rng)
		} else {
			ref = t.Random(&k.rng)
		}
		if ref != 0 {
			key := value.At(ref).Key()
			p, _ := t.Find(t.HashOf(key), key)
			return k.evict(db, &p, ref), true
		}
	}
	return 0, false
}

// evictSamples is the number of elements that are sampled to estimate the size of an evicted collection.
const evictSamples = 5

// evict removes the key at p.
func (k *Keyspace) evict(db *DB, p *table.Place, ref memory.Ref) (freed int64) {
	v := value.At(ref)
	key := v.Key()
	freed = int64(k.store.MemoryUsage(v, evictSamples))
	k.Stats.Evicted++
	if k.Hooks.Evicted != nil {
		k.Hooks.Evicted(db.index, key)
	}
	db.lapsed(key)
	db.remove(p, ref)
	return freed
}
