package keyspace

import (
	"math/bits"
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// expires reports whether this server may remove keys past their deadline now.
func (db *DB) expires() bool {
	k := db.k
	return !k.Trusting && !k.Replica && !k.Hiding
}

// pastDue handles key, whose deadline has passed. It reports whether key counts as absent: it is removed, or hidden on
// a replica. With Trusting, key stays valid and pastDue returns false.
func (db *DB) pastDue(key []byte) bool {
	if db.expires() {
		db.expire(db.at(key))
		return true
	}
	return !db.k.Trusting
}

// expire removes a key that is past its deadline.
func (db *DB) expire(e *value.Entry) {
	db.expired(e.Value())
	e.Remove()
}

// expired counts v as expired and calls the hooks. The caller removes v afterwards.
func (db *DB) expired(v value.Value) {
	k, key := db.k, v.Key()
	k.lag.note(k.now - v.Deadline())
	k.Stats.Expired++
	if k.Hooks.Expired != nil {
		k.Hooks.Expired(db.index, key)
	}
	db.lapsed(key)
	if t := v.Type(); t != value.String {
		db.leaving(key, t)
	}
}

// drop removes a key from the database and frees its value.
func (db *DB) drop(e *value.Entry) {
	v := e.Value()
	if t := v.Type(); t != value.String {
		db.leaving(v.Key(), t)
	}
	e.Remove()
}

// remove is drop for the key at p.
func (db *DB) remove(p *table.Place, ref memory.Ref) {
	e := &db.d.at
	e.Stand(&db.d.t, *p, ref)
	db.drop(e)
}

// ExpireDue removes keys and fields of hashes whose deadline has passed, earliest first, for at most limit. more means
// that the time ran out. After that, the next call begins with another database. While Trusting or Hiding is set it
// does nothing. On a replica it removes only keys whose deadline was set there.
func (k *Keyspace) ExpireDue(limit time.Duration) (expired int, more bool) {
	k.assertHeld()
	if k.Trusting || k.Hiding {
		return 0, false
	}
	if k.Replica {
		return k.expireOwn(limit)
	}
	var stop time.Time
	for i := range k.dbs {
		db := &k.dbs[(i+k.expireFrom)%len(k.dbs)]
		now := db.d.t.TickNow(k.now)
		keys, fields := db.d.t.Least() <= now, db.d.fields.Least() <= now
		if !keys && !fields {
			continue
		}
		if stop.IsZero() {
			stop = time.Now().Add(limit)
		}
		n, out := 0, false
		if keys {
			n, out = db.expireDue(stop)
			expired += n
		}
		if fields && !out {
			n, out = db.expireFieldsDue(stop)
			expired += n
		}
		if out {
			k.expireFrom = (i + k.expireFrom + 1) % len(k.dbs)
			k.Stats.TimeCapReached++
			return expired, true
		}
	}
	return expired, false
}

// expireDue reads the time after each batch of due buckets and adapts the size of the next batch. A key costs 0.2 µs.
// Memory not used for a minute can cost 20 to 300 µs a page, because a virtual machine's host must find it again. So a
// slice begins with one bucket, and takes more at once while they are quick.
const (
	quickBuckets = 20 * time.Microsecond
	slowBuckets  = 50 * time.Microsecond
	mostBuckets  = 8
	bucketKeys   = 7
)

// nextBuckets returns how many buckets to take next, when the last n buckets took this long.
func nextBuckets(n int, took time.Duration) int {
	switch {
	case took > slowBuckets:
		return 1
	case took < quickBuckets:
		return min(2*n, mostBuckets)
	}
	return n
}

// expireDue removes due keys, some buckets of a segment at a time, until the time stop. While it takes one bucket at a
// time, it checks the time after each key. out means that time ran out while keys were due.
func (db *DB) expireDue(stop time.Time) (expired int, out bool) {
	k, t := db.k, &db.d.t
	now := t.TickNow(k.now)
	d, seen := &k.due, 0
	d.Most = 1
	for last := time.Now(); t.NextDue(now, d); {
		least := t.Least()
		for i := range d.N {
			if out {
				d.Stays(i, least) // the best bound without reading the block
				continue
			}
			if db.expireOne(d, i) {
				expired++
				// Check only after a removal. A bucket left without progress would come first again.
				out = d.Most == 1 && time.Now().After(stop)
			}
		}
		t.EndDue(d)
		if out {
			return expired, t.Least() <= now
		}
		if seen += max(d.N, 1); seen < d.Most*bucketKeys {
			continue
		}
		at := time.Now()
		if at.After(stop) {
			return expired, t.Least() <= now
		}
		d.Most = nextBuckets(d.Most, at.Sub(last))
		seen, last = 0, at
	}
	return expired, false
}

// expireOne removes the i-th key of d. If the key is not to be removed now, it records when the key is due and returns
// false.
func (db *DB) expireOne(d *table.Due, i int) bool {
	v := value.At(d.Refs[i])
	if deadline := v.Deadline(); deadline >= db.k.now {
		d.Stays(i, db.d.t.Tick(deadline))
		return false
	}
	if db.k.conceals(v.Key()) { // the node that the slot comes from removes it
		d.Stays(i, db.d.t.Tick(db.k.now+hiddenFor))
		return false
	}
	db.k.Stats.KeysByCycle++
	db.expired(v)
	p := d.Place(i)
	if db.k.heap.Holding() {
		p.SetHash(db.d.t.HashOf(v.Key()))
	}
	e := &db.d.at
	e.Stand(&db.d.t, p, d.Refs[i])
	e.Drop(d, i)
	return true
}

// NextDeadline returns when ExpireDue may next have something to do, in Unix ms. That is shortly after the
// nearest deadline (table.D4). It returns 0 if there is no deadline.
func (k *Keyspace) NextDeadline() int64 {
	if invariant.Enabled {
		k.assertHeld()
	}
	next := int64(0)
	for i := range k.dbs {
		d := k.dbs[i].d
		least := min(d.t.Least(), d.fields.Least())
		if least == table.Never {
			continue
		}
		if at := d.t.TickTime(least); next == 0 || at < next {
			next = at
		}
	}
	return next
}

// Lag is a summary of lags in ms.
type Lag struct {
	Count         int64
	P50, P99, Max int64
}

// lagCounts counts lags. Below 32 ms it counts each value; above that it has sixteen steps to a doubling.
type lagCounts struct {
	n, max int64
	counts [lagBuckets]int64
}

const (
	lagExact   = 32
	lagSteps   = 16
	lagBuckets = lagExact + 40*lagSteps
)

func lagBucket(ms int64) int {
	if ms < lagExact {
		return int(max(ms, 0))
	}
	top := bits.Len64(uint64(ms)) - 5 // ms>>top is 16..31
	return min(lagExact+(top-1)*lagSteps+int(ms>>top)-lagSteps, lagBuckets-1)
}

// lagOf returns the greatest lag that bucket b counts.
func lagOf(b int) int64 {
	if b < lagExact {
		return int64(b)
	}
	b -= lagExact
	top := b/lagSteps + 1
	return (int64(b%lagSteps)+lagSteps+1)<<top - 1
}

func (l *lagCounts) note(ms int64) {
	l.n++
	l.max = max(l.max, ms)
	l.counts[lagBucket(ms)]++
}

func (l *lagCounts) quantile(q float64) int64 {
	left := int64(q * float64(l.n))
	for b, n := range l.counts {
		if left -= n; left < 0 {
			return min(lagOf(b), l.max)
		}
	}
	return l.max
}

// Lag returns how late keys were removed after their deadline, by ExpireDue or a lookup, since ResetStats.
func (k *Keyspace) Lag() Lag {
	k.assertHeld()
	l := &k.lag
	return Lag{Count: l.n, P50: l.quantile(0.50), P99: l.quantile(0.99), Max: l.max}
}

// ResetStats sets Stats and the measured lags to 0.
func (k *Keyspace) ResetStats() {
	k.assertHeld()
	k.Stats, k.lag = Stats{}, lagCounts{}
}
