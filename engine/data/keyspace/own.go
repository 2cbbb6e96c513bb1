package keyspace

import "time"

// On a replica, keys past their deadline stay until the primary removes them. But on a writable replica, a client may
// set a deadline that the primary does not know. This server remembers those keys, and removes them itself.

type ownKey struct {
	db  int
	key string
}

// ownLooks is how many keys are checked between two reads of the time.
const ownLooks = 16

// noteOwn remembers key, which got a deadline, unless the deadline came from the primary.
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

// OwnKeys returns the number of keys whose deadline was set on this replica.
func (k *Keyspace) OwnKeys() int {
	k.assertHeld()
	return len(k.own)
}

// ForgetOwn forgets the keys whose deadline was set here. It is called when a replica is promoted or gets another data
// set.
func (k *Keyspace) ForgetOwn() {
	k.assertHeld()
	k.own = nil
}

// expireOwn is ExpireDue on a replica.
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
			k.Stats.KeysByCycle++
			db.expire(db.at([]byte(name.key)))
			expired++
		default:
			continue
		}
		delete(k.own, name)
	}
	return expired, false
}
