package keyspace

import "time"

// On a replica keys stay past their deadline until the primary removes them. Those that got their deadline here, from
// a client of a writable replica, the primary may not even know: this server remembers them, and removes them itself.

// An ownKey is one of them.
type ownKey struct {
	db  int
	key string
}

// ownLooks is how many are looked at between two looks at the clock.
const ownLooks = 16

// noteOwn remembers key, which has got a deadline, if that came from this server's own client.
func (db *DB) noteOwn(key []byte) {
	k := db.k
	if k.Trusting {
		return
	}
	if k.own == nil {
		k.own = map[ownKey]struct{}{}
	}
	k.own[ownKey{db.index, string(key)}] = struct{}{}
}

// OwnKeys is how many keys have deadlines of their own on this replica.
func (k *Keyspace) OwnKeys() int {
	k.assertHeld()
	return len(k.own)
}

// ForgetOwn is for a replica that is promoted, or takes another data set.
func (k *Keyspace) ForgetOwn() {
	k.assertHeld()
	k.own = nil
}

// expireOwn is ExpireDue of a replica.
func (k *Keyspace) expireOwn(limit time.Duration) (expired int, more bool) {
	stop, looks := time.Now().Add(limit), 0
	for name := range k.own {
		if looks++; looks%ownLooks == 0 && time.Now().After(stop) {
			return expired, true
		}
		db := &k.dbs[name.db]
		v := db.find([]byte(name.key))
		switch {
		case !v.Exists() || !v.Volatile():
		case v.Deadline() < k.now:
			db.expire(db.at([]byte(name.key)))
			expired++
		default:
			continue
		}
		delete(k.own, name)
	}
	return expired, false
}
