package tracking

import (
	"strconv"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/tracked"
)

// Core is what the Tracker needs of the core. engine.Core implements it.
type Core interface {
	// Push sends p to cl, in the order of the calls.
	Push(cl *client.Client, p []byte)
	// PushEach is Push to each client of the list. The list is lent.
	PushEach(to []*client.Client, p []byte)
	// Current returns the client whose command runs, or nil.
	Current() *client.Client
	// AtUnitEnd runs f at the end of the turn, or at the end of the script or transaction that is open then.
	AtUnitEnd(f func())
}

// A Tracker records which clients cache the keys that they read, and notifies them of changes.
//
//	read     ─▶ table[key]: ids           a change of the key removes it and notifies the clients in ids
//	BCAST    ─▶ prefixes[text]: clients   changes are collected and sent at the end of the turn
//
// tracking.C1. A client is in clients exactly while it has client.Tracking. Each counts once in space.Watching.
// tracking.C2. If a client may have cached a key that it read, the key's ids contain the client's id. A notification
// removes it. Ids of clients that left or stopped tracking stay until the key changes or no client tracks.
// tracking.C3. Keys are identified by name alone, whatever their database.
// tracking.C4. A client is in a prefix's clients exactly if its own prefixes have the text. Every prefix has at least
// one client.
//
// Turn only.
type Tracker struct {
	core     Core
	registry *client.Registry
	space    *keyspace.Keyspace
	settings *Settings
	table    *tracked.Table
	short    func() bool // memory is nearly exhausted
	clients  map[*client.Client]*own

	prefixes map[string]*prefix
	lengths  []length // of the existing prefixes, ascending
	changes  changes

	keys  []command.KeyPosition // buffer: the keys of one call
	ids   []int64               // buffer: the clients of one key
	to    []*client.Client      // buffer: the receivers of one message
	to2   []*client.Client      // buffer: those of them that use RESP2
	names [][]byte              // buffer: the keys of one message
}

// own holds the prefixes of one client, sorted.
type own struct{ prefixes []string }

// New returns a Tracker without clients. Its listeners are Touched, Read, Invalidate (for Renewing) and Forget (for
// Gone).
func New(core Core, registry *client.Registry, space *keyspace.Keyspace, settings *Settings) *Tracker {
	return &Tracker{
		core: core, registry: registry, space: space, settings: settings, table: tracked.New(space.Heap()),
		short:   space.Heap().Short,
		clients: map[*client.Client]*own{}, prefixes: map[string]*prefix{},
	}
}

// Read records that cl may have cached the keys of a command that has run. The command may be part of cl's script or
// transaction.
func (t *Tracker) Read(cl *client.Client, call *command.Spec, args [][]byte) {
	isScript := call.Means != nil // a script reads nothing itself; its commands do
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
	if t.short() { // no memory to record them: invalidate them at once
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

// keptKeys is the maximum size, in keys, of a buffer that a call or message keeps for the next one.
const keptKeys = 4096

// Touched notifies clients that key was changed or removed.
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

// invalidate notifies the clients that may have cached key. It skips the client by if by uses NOLOOP.
func (t *Tracker) invalidate(key []byte, by *client.Client) {
	t.ids = t.table.Pop(key, t.ids[:0])
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

// Invalidate notifies all tracking clients that all keys may have changed.
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

// deliver notifies the clients in to that keys have changed. If keys is nil, all keys have changed. A redirected client
// is notified through its target. deliver overwrites t.to.
//
// Lifetime: all arguments are lent.
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

// keep returns list, empty, for the next message. If list is large, it returns nil instead.
func keep(list []*client.Client) []*client.Client {
	if cap(list) > keptKeys {
		return nil
	}
	clear(list)
	return list[:0]
}

// lost notifies cl that the target of its redirection is gone.
func (t *Tracker) lost(cl *client.Client) {
	cl.Flags |= client.TrackingBroken
	if cl.Protocol == 3 {
		t.core.Push(cl, append(strconv.AppendInt([]byte(">2\r\n$21\r\ntracking-redir-broken\r\n:"), cl.Redirect, 10),
			"\r\n"...))
	}
}

// message returns head followed by the array of keys, or by null if keys is nil.
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

// trim removes random keys from a table that exceeds its limit, at most budget. It notifies the clients that may have
// cached them.
func (t *Tracker) trim(budget int) {
	limit := t.settings.MaxKeys.Get()
	var name []byte
	for ; budget > 0 && limit > 0 && int64(t.table.Len()) > limit; budget-- {
		name = append(name[:0], t.table.Random(t.space.Rand())...)
		t.invalidate(name, nil)
	}
}

// trimAtOnce is the maximum number of keys removed in one turn after the limit was lowered. They take some hundred
// microseconds.
const trimAtOnce = 512

// Trim reduces the table to its limit step by step, after CONFIG SET and ten times a second.
func (t *Tracker) Trim() { t.trim(trimAtOnce) }

// Forget ends the tracking of cl, after it left, was reset, or turned tracking off.
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
		t.table.Clear() // no client is left to notify
	}
}
