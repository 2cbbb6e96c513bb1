package tracking

import (
	"strconv"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/tracked"
)

// Core is what the Tracker asks of the core. engine.Core implements it.
type Core interface {
	// Push sends p to cl in the order in which it was decided.
	Push(cl *client.Client, p []byte)
	// PushEach is Push to each of them; the list is lent.
	PushEach(to []*client.Client, p []byte)
	// Current is the client whose command runs, or nil.
	Current() *client.Client
	// AtUnitEnd runs f at the end of the turn, or of the script or transaction that is open then.
	AtUnitEnd(f func())
}

// A Tracker knows who caches what it reads, and tells it what has changed.
//
//	read     ─▶ table[key]: ids           a change of the key takes it out, and tells whom the ids name
//	BCAST    ─▶ prefixes[text]: clients   changes are collected; the turn's end tells of them
//
// tracking.C1. A client is in clients exactly while it has client.Tracking. Each counts once in space.Watching.
// tracking.C2. A client that caches a key that it has read is in the key's ids, or was told since that it changed. Ids
// of clients that have left, or track no more, stay until the key changes or nobody tracks.
// tracking.C3. Keys are known by name alone, whatever database they are in.
// tracking.C4. A client is in a prefix's clients exactly if its own prefixes have the text. No prefix has no clients.
//
// Turn only.
type Tracker struct {
	core     Core
	registry *client.Registry
	space    *keyspace.Keyspace
	settings *Settings
	table    *tracked.Table
	short    func() bool // memory is about to run out
	clients  map[*client.Client]*own

	prefixes map[string]*prefix
	lengths  []length // of the prefixes there are, ascending
	changes  changes

	keys  []command.KeyPosition // of one call
	ids   []int64               // of one key
	to    []*client.Client      // of one message
	to2   []*client.Client      // those of them that speak RESP2
	names [][]byte              // of one message
}

// own is what one client tracks beside what it reads: its prefixes, in order.
type own struct{ prefixes []string }

// New makes a Tracker without clients. Touched, Read, Invalidate (Renewing) and Forget (Gone) are its listeners.
func New(core Core, registry *client.Registry, space *keyspace.Keyspace, settings *Settings) *Tracker {
	return &Tracker{
		core: core, registry: registry, space: space, settings: settings, table: tracked.New(space.Heap()),
		short:   space.Heap().Short,
		clients: map[*client.Client]*own{}, prefixes: map[string]*prefix{},
	}
}

// Read is for a command of cl's, or of a script or a transaction of cl's, that has run: the keys it has read may be in
// cl's cache from now on.
func (t *Tracker) Read(cl *client.Client, call *command.Spec, args [][]byte) {
	isScript := call.Means != nil // it does not read: its commands do
	if call.Flags&command.ReadOnly == 0 || isScript || cl.Is(client.TrackingBcast) {
		return
	}
	if given := cl.Is(client.Caching); cl.Is(client.TrackingOptIn) && !given || cl.Is(client.TrackingOptOut) && given {
		return
	}
	var err error
	if t.keys, err = call.AppendKeys(t.keys[:0], args, 0); err != nil {
		return
	}
	if t.short() { // nothing more can be kept: it must not cache them
		for _, k := range t.keys {
			t.names = append(t.names[:0], args[k.Index])
			t.deliver(append(t.to[:0], cl), t.names)
		}
		return
	}
	for _, k := range t.keys {
		t.table.Add(args[k.Index], cl.ID)
	}
	if limit := t.settings.MaxKeys.Get(); limit > 0 && int64(t.table.Len()) > limit {
		t.trim(2 * len(t.keys))
	}
	if cap(t.keys) > keptKeys {
		t.keys = nil
	}
}

// keptKeys is how much room for keys one call, or one message, leaves to the next.
const keptKeys = 4096

// Touched says that key has changed or is gone.
func (t *Tracker) Touched(_ int, key []byte) {
	if len(t.clients) == 0 {
		return
	}
	by := t.core.Current()
	if t.space.Lapsing {
		by = nil
	}
	if len(t.prefixes) > 0 {
		t.collect(key, by)
	}
	if t.table.Len() > 0 {
		t.invalidate(key, by)
	}
}

// invalidate tells whoever may have cached key, but for by if it does not want to hear of what it does.
func (t *Tracker) invalidate(key []byte, by *client.Client) {
	t.ids = t.table.Take(key, t.ids[:0])
	if len(t.ids) == 0 {
		return
	}
	to := t.to[:0]
	for _, id := range t.ids {
		cl := t.registry.Get(id)
		if cl == nil || cl.Flags&(client.Tracking|client.TrackingBcast) != client.Tracking ||
			cl == by && cl.Is(client.TrackingNoLoop) {
			continue
		}
		to = append(to, cl)
	}
	t.names = append(t.names[:0], key)
	t.deliver(to, t.names)
	if cap(t.ids) > keptKeys {
		t.ids = nil
	}
}

// Invalidate tells all that whatever they have cached may have changed.
func (t *Tracker) Invalidate() {
	if len(t.clients) == 0 {
		return
	}
	to := t.to[:0]
	for cl := range t.clients {
		to = append(to, cl)
	}
	t.deliver(to, nil)
	t.table.Clear()
}

// deliver tells the clients that keys have changed, or all keys if there are none. Who has chosen another client for
// that hears by way of it. It uses t.to up.
//
// Lifetime: all is lent.
func (t *Tracker) deliver(to []*client.Client, keys [][]byte) {
	n := 0
	t.to2 = t.to2[:0]
	for _, cl := range to {
		receiver := cl
		if cl.Redirect != 0 {
			if receiver = t.registry.Get(cl.Redirect); receiver == nil {
				t.lost(cl)
				continue
			}
		}
		switch {
		case receiver.Protocol == 3:
			to[n] = receiver
			n++
		case receiver.Is(client.PubSub) && cl.Redirect != 0:
			t.to2 = append(t.to2, receiver)
		}
	}
	if n > 0 {
		t.core.PushEach(to[:n], message(">2\r\n$10\r\ninvalidate\r\n", "_\r\n", keys))
	}
	if len(t.to2) > 0 {
		t.core.PushEach(t.to2, message("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n", "$-1\r\n", keys))
	}
	t.to = keep(to)
	t.to2 = keep(t.to2)
}

// keep is the list without its clients, for the next message.
func keep(list []*client.Client) []*client.Client {
	if cap(list) > keptKeys {
		return nil
	}
	clear(list)
	return list[:0]
}

// lost tells cl that who its invalidations are redirected to is no more.
func (t *Tracker) lost(cl *client.Client) {
	cl.Flags |= client.TrackingBroken
	if cl.Protocol == 3 {
		t.core.Push(cl, append(strconv.AppendInt([]byte(">2\r\n$21\r\ntracking-redir-broken\r\n:"), cl.Redirect, 10),
			"\r\n"...))
	}
}

// message is head and the array of the keys, or null if there are none.
func message(head, null string, keys [][]byte) []byte {
	if keys == nil {
		return append(append(make([]byte, 0, len(head)+len(null)), head...), null...)
	}
	n := len(head) + 16
	for _, key := range keys {
		n += len(key) + 16
	}
	p := append(strconv.AppendInt(append(append(make([]byte, 0, n), head...), '*'), int64(len(keys)), 10), "\r\n"...)
	for _, key := range keys {
		p = append(strconv.AppendInt(append(p, '$'), int64(len(key)), 10), "\r\n"...)
		p = append(append(p, key...), "\r\n"...)
	}
	return p
}

// trim takes keys at random out of a table that is past its limit, at most budget of them, and tells those who may have
// cached them.
func (t *Tracker) trim(budget int) {
	limit := t.settings.MaxKeys.Get()
	var name []byte
	for ; budget > 0 && limit > 0 && int64(t.table.Len()) > limit; budget-- {
		name = append(name[:0], t.table.Random(t.space.Rand())...)
		t.invalidate(name, nil)
	}
}

// trimAtOnce is how many keys go at most in one turn when the limit was lowered: some hundred microseconds.
const trimAtOnce = 512

// Trim brings the table down to its limit, step by step: after CONFIG SET, and ten times a second.
func (t *Tracker) Trim() { t.trim(trimAtOnce) }

// Forget ends the tracking of cl: it has left, or was reset, or does not want it any more.
func (t *Tracker) Forget(cl *client.Client) {
	if !cl.Is(client.Tracking) {
		return
	}
	for _, text := range t.clients[cl].prefixes {
		t.leave(cl, text)
	}
	cl.Flags &^= client.AllTracking
	cl.Redirect = 0
	delete(t.clients, cl)
	t.space.Watching--
	if len(t.clients) == 0 {
		t.table.Clear() // nobody is left to tell
	}
}
