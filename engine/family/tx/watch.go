package tx

import (
	"slices"
	"unsafe"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/internal/invariant"
)

// Watches holds the watched keys and their clients.
//
//	dbs[1]["k"] ──▶ [{client 7, 0}, {client 9, 3}]        client 7.Watched = [{1, "k", At 0}, {1, "other", …}]
//
// tx.W1. A client is in dbs[d][k] exactly if its Watched names d and k, and each at most once.
// tx.W2. A list is never empty: the key is removed with its last client.
// tx.W3. space.Watching includes the number of entries of all Watched.
// tx.W4. A dirty client watches nothing, because one change is enough.
// tx.W5. An entry of Watched holds the client's index in the key's list. The list holds the entry's index in Watched.
// So removing a client or a key needs no search.
//
// Owner: the core, inside a turn.
type Watches struct {
	space   *keyspace.Keyspace
	dbs     []map[string][]watcher // nil until a key of the database is watched
	clients int
}

// A watcher is a client in the list of a key. at is the key's index in the client's Watched (tx.W5).
type watcher struct {
	cl *client.Client
	at int
}

// watched returns the client's entry for the key, valid until the client watches another key.
func (w watcher) watched() *client.WatchedKey { return &w.cl.Watched[w.at] }

// NewWatches returns watches over the keys of space. Its listeners are Touched, Emptying, Swapping and Forget (for
// Gone).
func NewWatches(space *keyspace.Keyspace) *Watches { return &Watches{space: space} }

// Clients returns the number of clients that watch a key (INFO watching_clients).
func (w *Watches) Clients() int { return w.clients }

// Keys returns the number of watched keys (INFO total_watched_keys).
func (w *Watches) Keys() (n int) {
	for _, keys := range w.dbs {
		n += len(keys)
	}
	return n
}

// watch is WATCH key [key …]. Replies: OK. Errors: "WATCH inside MULTI is not allowed", which does not abort the
// transaction.
func (w *Watches) watch(c *command.Context) error {
	if c.Client.Is(client.Multi) {
		return errWatchInside
	}
	if !c.Client.Is(client.DirtyCAS) { // if it is dirty, EXEC replies null anyway
		for _, key := range c.Args[1:] {
			w.add(c.Client, c.DB, key)
		}
	}
	c.Reply.OK()
	return nil
}

func (w *Watches) unwatch(c *command.Context) error {
	w.Forget(c.Client)
	c.Client.Flags &^= client.DirtyCAS
	c.Reply.OK()
	return nil
}

// add makes cl watch key. It copies key (R2).
func (w *Watches) add(cl *client.Client, db *keyspace.DB, key []byte) {
	n := db.Index()
	for len(w.dbs) <= n {
		w.dbs = append(w.dbs, nil)
	}
	if w.dbs[n] == nil {
		w.dbs[n] = map[string][]watcher{}
	}
	list := w.dbs[n][string(key)]
	if w.watches(cl, n, key, list) {
		return
	}
	if len(cl.Watched) == 0 {
		w.clients++
	}
	watched := client.WatchedKey{DB: n, Key: string(key), At: len(list)}
	if v := db.Peek(key); v.Exists() {
		watched.Existed, watched.Ends = true, v.Deadline()
	} else {
		watched.Past = db.Stored(key).Exists()
	}
	cl.Watched = append(cl.Watched, watched)
	cl.FamilyBytes += watchCost(key)
	w.dbs[n][watched.Key] = append(list, watcher{cl, len(cl.Watched) - 1})
	w.space.Watching++
}

// watches reports whether cl is in list, the watchers of key. It searches the shorter of list and cl.Watched.
func (w *Watches) watches(cl *client.Client, db int, key []byte, list []watcher) bool {
	if len(list) < len(cl.Watched) {
		return slices.ContainsFunc(list, func(other watcher) bool { return other.cl == cl })
	}
	return slices.ContainsFunc(cl.Watched, func(w client.WatchedKey) bool { return w.DB == db && w.Key == string(key) })
}

// watchCost returns the memory that a watched key costs its client: the entry, the key, and the watcher.
func watchCost[T []byte | string](key T) int {
	return int(unsafe.Sizeof(client.WatchedKey{})+unsafe.Sizeof(watcher{})) + len(key)
}

// Forget ends cl's watches. If cl was dirty, it stays dirty.
func (w *Watches) Forget(cl *client.Client) {
	if len(cl.Watched) == 0 {
		return
	}
	for i, watched := range cl.Watched {
		cl.FamilyBytes -= watchCost(watched.Key)
		list := w.dbs[watched.DB][watched.Key]
		last := len(list) - 1
		invariant.That(list[watched.At] == watcher{cl, i}, "tx.W5: %q, place %d", watched.Key, watched.At)
		moved := list[last]
		list[watched.At], moved.watched().At = moved, watched.At
		list[last] = watcher{}
		if last == 0 {
			delete(w.dbs[watched.DB], watched.Key)
		} else {
			w.dbs[watched.DB][watched.Key] = list[:last]
		}
		w.space.Watching--
	}
	cl.Watched = nil
	w.clients--
}

// Touched reports that key of database db was changed, removed or expired. Its watchers become dirty.
//
// If the key's deadline had passed before the WATCH, its removal is no change.
func (w *Watches) Touched(db int, key []byte) {
	if db >= len(w.dbs) {
		return
	}
	list := w.dbs[db][string(key)]
	if len(list) == 0 {
		return
	}
	gone := !w.space.DB(db).Peek(key).Exists()
	for i := len(list) - 1; i >= 0; i-- { // Forget moves the last watcher, already visited, to i
		if gone && list[i].watched().Past {
			continue
		}
		cl := list[i].cl
		cl.Flags |= client.DirtyCAS
		w.Forget(cl)
	}
}

// Emptying reports that every key of database db is about to be removed.
func (w *Watches) Emptying(db int) {
	if db >= len(w.dbs) {
		return
	}
	for key := range w.dbs[db] {
		w.spoil(db, key, false)
	}
}

// Swapping reports that databases a and b are about to be swapped. Clients continue to watch by number and name.
func (w *Watches) Swapping(a, b int) {
	for _, pair := range [2][2]int{{a, b}, {b, a}} {
		if pair[0] >= len(w.dbs) {
			continue
		}
		other := w.space.DB(pair[1])
		for key := range w.dbs[pair[0]] {
			w.spoil(pair[0], key, other.Peek([]byte(key)).Exists())
		}
	}
}

// spoil makes the watchers of a key dirty if the key existed at the WATCH or exists now.
func (w *Watches) spoil(db int, key string, existsNow bool) {
	list := w.dbs[db][key]
	for i := len(list) - 1; i >= 0; i-- { // Forget moves the last watcher, already visited, to i
		if cl := list[i].cl; existsNow || list[i].watched().Existed {
			cl.Flags |= client.DirtyCAS
			w.Forget(cl)
		}
	}
}

// expiredSince reports whether a key that cl watches has passed its deadline since the WATCH. A changed deadline would
// have touched the key.
func expiredSince(cl *client.Client, now int64) bool {
	for i := range cl.Watched {
		if w := &cl.Watched[i]; w.Existed && w.Ends != 0 && now > w.Ends {
			return true
		}
	}
	return false
}
