package keyspace

import (
	"math/rand/v2"
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A Keyspace is all databases of a server.
type Keyspace struct {
	Hooks    Hooks
	Stats    Stats
	Watching int  // keys under WATCH or tracking: Hooks.Touched is called only when it is above 0
	Replica  bool // expired keys are hidden, not removed: the primary removes them
	Trusting bool // expired keys count as valid: while loading, and for commands from the primary
	Hiding   bool // expired keys are hidden, not removed, for another reason (CLIENT PAUSE)
	NoTouch  bool // lookups leave the clock alone (CLIENT NO-TOUCH)

	Policy       Policy // maxmemory-policy
	Samples      int    // maxmemory-samples
	LFULogFactor int    // lfu-log-factor
	LFUDecayTime int    // lfu-decay-time, minutes

	heap  *memory.Heap
	store value.Store
	now   int64
	dbs   []DB
	rng   rand.PCG
	lag   lagCounts
	pool  pool

	expireFrom int       // the database that ExpireDue begins with
	due        table.Due // what ExpireDue is at

	ahead  [prefetchAhead]prefetch
	aheadN uint
}

// Options shape a keyspace; the zero value is good.
type Options struct {
	Databases int    // default 16
	StartMs   int64  // when deadlines' ticks begin, Unix ms; default now. No deadline much below it is expected
	Seed      uint64 // of the choices at random; default from the clock
}

// Hooks is what the core wants to hear of. The key is lent for the call; a hook must not write to a database.
type Hooks struct {
	Expired func(db int, key []byte) // before a key past its deadline is removed
	Evicted func(db int, key []byte) // before a key is evicted
	Touched func(db int, key []byte) // when a key is changed, removed, expired or evicted, only while Watching > 0
}

// Stats counts what INFO tells. The core may set any of them to 0 (CONFIG RESETSTAT).
type Stats struct {
	Hits, Misses   int64 // keyspace_hits, keyspace_misses
	Expired        int64 // expired_keys
	Evicted        int64 // evicted_keys
	TimeCapReached int64 // expired_time_cap_reached_count
}

// What memory is told hangs off a retired root.
const (
	kindTable memory.Kind = 1 + iota
	kindDue
	kindLong
)

// New makes the empty databases in h, whose Options.Databases is at least o.Databases.
func New(h *memory.Heap, o Options) *Keyspace {
	if o.Databases <= 0 {
		o.Databases = 16
	}
	if o.StartMs == 0 {
		o.StartMs = time.Now().UnixMilli()
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	k := &Keyspace{
		heap: h, now: o.StartMs, dbs: make([]DB, o.Databases),
		Samples: 5, LFULogFactor: 10, LFUDecayTime: 1,
	}
	k.rng.Seed(o.Seed, 0)
	k.store.Init(h, kindLong)
	h.Register(kindTable, table.Destroy(value.DestroyEntry))
	h.Register(kindDue, table.DestroyDue)
	for i := range k.dbs {
		d := new(data)
		d.t.Init(h, table.Entry, i)
		d.t.SetBase(o.StartMs)
		k.dbs[i] = DB{k: k, d: d, index: i}
	}
	return k
}

// Heap is the memory the databases live in.
func (k *Keyspace) Heap() *memory.Heap { return k.heap }

// Len is the number of databases.
func (k *Keyspace) Len() int { return len(k.dbs) }

// DB is database i, 0 <= i < Len.
func (k *Keyspace) DB(i int) *DB { return &k.dbs[i] }

// SetNow tells the time, in Unix ms: once per batch, by the core. It also takes back what readers have unpinned.
func (k *Keyspace) SetNow(ms int64) {
	k.now = ms
	k.store.Unpin()
}

// Now is what SetNow was told.
func (k *Keyspace) Now() int64 { return k.now }

// Swap exchanges the contents of databases i and j (SWAPDB).
func (k *Keyspace) Swap(i, j int) { k.dbs[i].d, k.dbs[j].d = k.dbs[j].d, k.dbs[i].d }

const prefetchAhead = 8

type prefetch struct {
	t    *table.Table
	hash uint64
}

// Prefetch starts the cache misses of a later Lookup of key. Call it for all keys of a batch, then Prefetched, then Lookup them in
// the same order: the bucket is fetched at once, the block when eight more keys have come or Prefetched is called.
func (db *DB) Prefetch(key []byte) {
	k, t := db.k, &db.d.t
	hash := table.Hash(key)
	t.Touch(hash)
	at := &k.ahead[k.aheadN%prefetchAhead]
	k.aheadN++
	if at.t != nil {
		at.t.TouchBlock(at.hash)
	}
	*at = prefetch{t, hash}
}

// Prefetched ends a batch of Prefetch calls.
func (k *Keyspace) Prefetched() {
	for range prefetchAhead {
		at := &k.ahead[k.aheadN%prefetchAhead]
		k.aheadN++
		if at.t != nil {
			at.t.TouchBlock(at.hash)
			at.t = nil
		}
	}
}
