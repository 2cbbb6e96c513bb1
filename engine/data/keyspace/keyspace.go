package keyspace

import (
	"math/rand/v2"
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// A Keyspace is all databases of a server.
type Keyspace struct {
	Hooks    Hooks
	Stats    Stats
	Watching int  // the number of keys under WATCH and of tracking clients; above 0, Hooks.Touched is called
	Lapsing  bool // the key passed to Hooks.Touched has expired or is evicted: no command has changed it
	Blocking int  // the number of keys that blocked clients wait for; above 0, Hooks.Ready, Gone and Whole are called
	Replica  bool // expired keys are hidden, not removed: the primary removes them
	Trusting bool // expired keys count as valid: while loading, and for commands from the primary
	Hiding   bool // expired keys are hidden, not removed, for another reason (CLIENT PAUSE)
	NoTouch  bool // lookups leave the clock alone (CLIENT NO-TOUCH)

	Policy       Policy // maxmemory-policy
	Samples      int    // maxmemory-samples
	LFULogFactor int    // lfu-log-factor
	LFUDecayTime int    // lfu-decay-time, minutes

	// ExpireFields removes up to budget fields of the hash e that are past their deadline. It calls gone before it
	// removes each. It returns the least deadline that is left and the number of fields removed. The deadline is 0 if
	// none is left, and Emptied if no field is left. It leaves an emptied hash in place. register sets it.
	ExpireFields func(e *value.Edit, now int64, budget int, gone func(field []byte)) (next int64, n int)
	// Forget removes up to budget message names of producers that the stream e has remembered for long enough. It
	// returns when the next one is due (Unix ms, 0 if none is left) and the number removed.
	Forget func(e *value.Edit, now int64, budget int) (next int64, n int)

	heap   *memory.Heap
	bySlot bool         // Options.Slots
	slots  []slotCounts // of each database in cluster mode
	hidden table.Hidden // slots whose move to this node is not finished (slots.go)
	store  value.Store
	now    int64
	dbs    []DB // the databases that clients see
	all    []DB // dbs, then as many hidden ones, for a data set that will replace them (Hidden)
	rng    rand.PCG
	lag    lagCounts
	pool   pool

	held func() // panics unless the caller holds the turn (keyspace.H1); may be nil

	emptied int64 // bytes of the database that Flush is removing

	own map[ownKey]struct{} // see own.go

	expireFrom int       // the database that ExpireDue begins with
	due        table.Due // the buckets that ExpireDue is working on

	names Names // of fields that expireFields is removing

	big    bigKeys
	handed *value.Edit   // the last Edit that a command got
	edits  [4]value.Edit // commands get these one after the other (value.Edit, keyspace.K1)
	editAt uint

	ahead  [prefetchAhead]prefetch
	aheadN uint     // calls of Prefetch since Prefetched
	last   lastEdit // see Again
}

// Options are the options of a keyspace. The zero value is valid.
type Options struct {
	Databases int    // default 16
	StartMs   int64  // Unix ms of tick 0 of deadlines; default setBackMs ago. ExpireDue finds no earlier deadline on time
	Seed      uint64 // the seed of random choices; default from the clock
	BigKeys   bool   // keep track of the largest keys
	Slots     bool   // cluster mode: a hash slot's keys lie together and are counted
}

// setBackMs is how far the system's clock may be set back while ExpireDue still finds keys on time.
const setBackMs = 30 * 24 * 3600 * 1000

// Hooks are the events that the core receives. The key is lent to the hook for the duration of the call. A hook must
// not write to a database.
type Hooks struct {
	Expired func(db int, key []byte) // before a key past its deadline is removed
	Evicted func(db int, key []byte) // before a key is evicted
	Touched func(db int, key []byte) // when a key is changed, removed, expired or evicted, only while Watching > 0

	// Ready is called when a list, sorted set or stream appears under key, and by Signal. It is only called while
	// Blocking > 0.
	Ready func(db int, key []byte)
	Gone  func(db int, key []byte) // when a stream leaves its key, only while Blocking > 0
	// Whole is called when the whole content of the database changes (SWAPDB, FLUSHDB). It is only called while
	// Blocking > 0.
	Whole func(db int)

	// FieldExpired is called before a field past its deadline is removed from a hash. If it returns true, FieldsExpired
	// receives the field's name.
	FieldExpired func(db int, key, field []byte) (wanted bool)
	// FieldsExpired is called after fields of a hash were removed. fields are the names that FieldExpired asked for.
	// emptied means that key is removed too.
	FieldsExpired func(db int, key []byte, fields [][]byte, emptied bool)

	Sought func(db int, key []byte) // at each search for a key, in builds that check (TestFinder of engine/catalogue)
}

// Stats are counters for INFO. The core may set any of them to 0 (CONFIG RESETSTAT).
type Stats struct {
	Hits, Misses   int64 // keyspace_hits, keyspace_misses
	Expired        int64 // expired_keys
	ExpiredFields  int64 // expired_subkeys
	Evicted        int64 // evicted_keys
	TimeCapReached int64 // expired_time_cap_reached_count
	KeysByCycle    int64 // expired_keys_active: the part of Expired that ExpireDue removed
	FieldsByCycle  int64 // expired_subkeys_active
}

// New makes the empty databases in h. The Options.Databases of h must be at least o.Databases.
func New(h *memory.Heap, o Options) *Keyspace {
	if o.Databases <= 0 {
		o.Databases = 16
	}
	if o.StartMs == 0 {
		o.StartMs = time.Now().UnixMilli() - setBackMs
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	k := &Keyspace{
		heap: h, bySlot: o.Slots, now: o.StartMs, all: make([]DB, 2*o.Databases),
		Samples: 5, LFULogFactor: 10, LFUDecayTime: 1,
	}
	k.rng.Seed(o.Seed, 0)
	k.big.on = o.BigKeys
	k.store.Init(h)
	k.store.Rand, k.store.Base = &k.rng, o.StartMs
	h.Register(value.KindDatabase, table.Destroy(k.store.DestroyEntry))
	h.Measure(value.KindDatabase, func(memory.Ref) int64 { return k.emptied })
	h.Register(value.KindDue, table.DestroyDue)
	h.Register(value.KindFields, destroyFields)
	h.Register(value.KindTree, tree.Destroy)
	k.register()
	k.dbs = k.all[:o.Databases:o.Databases]
	if o.Slots {
		k.slots = make([]slotCounts, o.Databases)
	}
	for i := range k.dbs {
		k.begin(i)
	}
	return k
}

// HeldBy sets the function with which turn-only methods first assert that the turn is held, in builds that check
// (keyspace.H1).
func (k *Keyspace) HeldBy(assert func()) { k.held = assert }

// assertHeld panics unless the caller holds the turn, in builds that check.
//
// If the call would keep a function from being inlined in ordinary builds, that function tests invariant.Enabled
// itself.
func (k *Keyspace) assertHeld() {
	if invariant.Enabled && k.held != nil {
		k.held()
	}
}

// begin creates database i, empty.
func (k *Keyspace) begin(i int) {
	d := new(data)
	d.t.Init(&k.store, i)
	if k.bySlot {
		d.t.CountSlots(&k.hidden)
	}
	for _, t := range []*table.Table{&d.fields, &d.sent} {
		t.Init(k.heap, table.Entry, i)
		t.SetBase(k.store.Base) // ticks of all tables of a database are compared
	}
	k.all[i] = DB{k: k, d: d, index: i}
	k.noteSlots(i)
}

// Hidden returns the number of the first of Len hidden databases, in which a new data set is built. Swap then exchanges
// DB(Hidden()+i) with DB(i). No view includes hidden databases, and no key in them expires or is evicted. They need a
// heap with twice as many databases.
func (k *Keyspace) Hidden() int {
	k.assertHeld()
	for i := len(k.dbs); i < len(k.all); i++ {
		if k.all[i].d == nil {
			k.begin(i)
		}
	}
	return len(k.dbs)
}

// Store returns the store of what values keep outside their entries. The packages of the value types use it, and
// loaders that build roots.
func (k *Keyspace) Store() *value.Store { return &k.store }

// Rand returns the source of random choices.
func (k *Keyspace) Rand() *rand.PCG { k.assertHeld(); return &k.rng }

// Heap returns the memory of the databases.
func (k *Keyspace) Heap() *memory.Heap { return k.heap }

// Len returns the number of databases.
func (k *Keyspace) Len() int { return len(k.dbs) }

// DB returns database i, 0 <= i < Len, or a hidden one (Hidden).
func (k *Keyspace) DB(i int) *DB { return &k.all[i] }

// SetNow sets the time, in Unix ms. The core calls it once per batch. It also takes back the blocks that readers have
// unpinned.
func (k *Keyspace) SetNow(ms int64) {
	if invariant.Enabled {
		k.assertHeld()
	}
	k.now = ms
	k.store.Unpin()
}

// Now returns the time of the last SetNow.
func (k *Keyspace) Now() int64 { k.assertHeld(); return k.now }

// Swap exchanges the contents of databases i and j (SWAPDB, Hidden).
func (k *Keyspace) Swap(i, j int) {
	k.assertHeld()
	k.all[i].d, k.all[j].d = k.all[j].d, k.all[i].d
	k.noteSlots(i)
	k.noteSlots(j)
	k.all[i].whole()
	k.all[j].whole()
}

const prefetchAhead = 8

type prefetch struct {
	t    *table.Table
	hash uint64
}

// Prefetch starts the cache misses of a later Lookup of key. Call it for all keys of a batch, then Prefetched, then
// Lookup in the same order. It fetches the key's bucket at once. It fetches the key's block after eight more calls, or
// in Prefetched.
func (db *DB) Prefetch(key []byte) {
	db.k.assertHeld()
	k, t := db.k, &db.d.t
	hash := t.HashOf(key)
	t.Touch(hash)
	at := &k.ahead[k.aheadN%prefetchAhead]
	if k.aheadN >= prefetchAhead {
		at.t.TouchBlock(at.hash)
	}
	*at = prefetch{&t.Table, hash}
	k.aheadN++
}

// Prefetched ends a batch of Prefetch calls.
func (k *Keyspace) Prefetched() {
	k.assertHeld()
	for i := k.aheadN - min(k.aheadN, prefetchAhead); i < k.aheadN; i++ {
		at := &k.ahead[i%prefetchAhead]
		at.t.TouchBlock(at.hash)
	}
	k.aheadN = 0
}

// seek calls Hooks.Sought at each search for a key, in builds that check invariants.
func (db *DB) seek(key []byte) {
	if invariant.Enabled && db.k.Hooks.Sought != nil {
		db.k.Hooks.Sought(db.index, key)
	}
}

// find returns the value at key, even past its deadline.
func (db *DB) find(key []byte) value.Value {
	db.k.assertHeld()
	db.seek(key)
	if db.k.last.named(key) {
		return db.keptEdit(key).Value()
	}
	t := &db.d.t
	_, ref := t.Find(t.HashOf(key), key)
	return value.At(ref)
}

// at returns key's entry, even past its deadline, for a caller that will write to it. The entry is valid until the next
// call of at in any database.
func (db *DB) at(key []byte) *value.Entry {
	db.k.assertHeld()
	db.seek(key)
	if db.k.last.named(key) {
		return db.keptEdit(key).Entry()
	}
	e := &db.d.at
	e.Find(&db.d.t, key)
	return e
}
