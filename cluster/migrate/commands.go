package migrate

import (
	"time"

	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
	"spindle/engine/part"
	"spindle/internal/info"
	"spindle/protocol"
)

// Parts connect a Migrator to its server.
type Parts struct {
	Core    *engine.Core
	Dumper  func() *bgsave.Dumper // makes a Dumper; turn only
	Dial    Dial
	Cluster bool   // the target is asked to accept keys of slots that it imports
	Begun   func() // called when a call leaves its turn, and when it ends; nil: nothing
}

// A Migrator runs MIGRATE.
type Migrator struct {
	parts Parts
	pool  pool
	under int // calls outside the turn
	after int // ticks for which InFlight stays true after the last call
}

// New returns a Migrator with these parts.
func New(p Parts) *Migrator {
	m := &Migrator{parts: p, pool: pool{dial: p.Dial}}
	p.Core.Subscribe(part.Listeners{Order: part.Later, Tick: func(int64) { m.tick(time.Now()) }})
	return m
}

// tick runs ten times a second.
func (m *Migrator) tick(now time.Time) {
	m.after = max(0, m.after-1)
	m.pool.tick(now)
}

// Family returns MIGRATE's row.
func (m *Migrator) Family() command.Family {
	const flags = command.KeyRW | command.KeyAccess | command.KeyDelete
	return command.Family{Name: "generic", ACL: command.ACLKeyspace, Rows: []command.Spec{
		{Name: "migrate", Arity: -6, Traits: command.MovesKeys, Flags: command.Write, ACL: command.ACLDangerous,
			Tips: []string{"nondeterministic_output"},
			Keys: []command.KeySpec{
				{Flags: flags, Index: 3, Step: 1},
				{Flags: flags | command.KeyIncomplete, Keyword: "KEYS", KeywordFrom: -2, LastKey: -1, Step: 1},
			}, GetKeys: keyPositions, Run: m.migrate},
	}}
}

// Section returns the Migrator's fields of INFO.
func (m *Migrator) Section() info.Section {
	return info.Section{Name: "Stats", Fields: []info.Field{
		info.Int("migrate_cached_sockets", func() int64 { return int64(m.pool.count()) }),
	}}
}

// InFlight reports whether a call runs outside the turn, or ran a short time ago. A slot's keys come in many calls, and
// switching between them would cost more than a call. Turn only.
func (m *Migrator) InFlight() bool { return m.under > 0 || m.after > 0 }

// lately is the value of after when a call ends: two seconds.
const lately = 20

const (
	encodeOne = 64 << 10  // a larger value is sent from a view
	encodeAll = 256 << 10 // the most payload bytes of one call that its turn encodes
	samples   = 5         // elements sampled to estimate a value's size

	packedAtMost = 90 // bytes never set are compressed in a payload to at least one in so many (rdb.Writer.Sparse)
)

// migrate is MIGRATE.
// Replies: OK; NOKEY if no key exists.
// Errors: IOERR, and errors of the target.
// Propagates: DEL of the keys that the target has confirmed, unless COPY was given.
//
// The client waits while a goroutine sends. Inside MULTI and scripts no client can wait, so the turn is blocked.
func (m *Migrator) migrate(c *command.Context) error {
	call, names, err := parse(c.Args)
	for _, i := range call.secrets { // before Block copies the arguments for the slow log
		c.Redact(i)
	}
	if err != nil {
		return err
	}
	d, restore := m.parts.Dumper(), "RESTORE"
	m.gather(c, call, names, d)
	if len(call.keys) == 0 {
		c.Reply.Simple("NOKEY")
		return nil
	}
	if m.parts.Cluster {
		restore = "RESTORE-ASKING"
	}
	if c.Client.Is(client.DenyBlocking | client.Multi | client.Fake) {
		call.run(&m.pool, d, restore)
		call.closeView()
		return m.finish(c, call)
	}
	held := make([][]byte, len(call.keys))
	for i := range call.keys {
		held[i] = call.keys[i].key
	}
	release, waits, wrote := m.parts.Core.Latch(held), true, !c.Space.Replica
	cl, space := c.Client, c.Space
	c.Core.Block(c, command.Wait{
		Busy:  true,
		Retry: func(c *command.Context) error { return m.finish(c, call) },
		Left:  func() { waits = false },
	})
	m.note(1)
	go func() {
		call.run(&m.pool, d, restore)
		call.closeView()
		m.parts.Core.DoWhenWritable(func() {
			m.note(-1)
			switch {
			case wrote && space.Replica: // its keys belong to the primary now
				call.acked, call.failed = nil, protocol.ErrReadOnly
			case m.parts.Core.Loading(): // the loaded file brings its keys again
				call.acked, call.failed = nil, protocol.ErrLoading
			default:
				m.keepLeaving(call)
			}
			if waits {
				m.parts.Core.Wake(cl)
			} else {
				m.finishAlone(space.DB(call.from), call)
			}
			release()
		})
	}()
	return nil
}

// keepLeaving has a call remove no key whose slot goes to another node as a whole: the new owner would not hear of it.
// So both targets get the key, and the client an error.
func (m *Migrator) keepLeaving(call *call) {
	if call.copy {
		return
	}
	kept := call.acked[:0]
	for _, i := range call.acked {
		if err := m.parts.Core.SlotLeaves(call.keys[i].key); err != nil {
			call.failed = err
			continue
		}
		kept = append(kept, i)
	}
	call.acked = kept
}

// note adds n to the calls outside the turn.
func (m *Migrator) note(n int) {
	m.after = lately
	if m.under += n; m.parts.Begun != nil {
		m.parts.Begun()
	}
}

// gather looks up the keys. It encodes small values and takes a view for the others.
func (m *Migrator) gather(c *command.Context, call *call, names [][]byte, d *bgsave.Dumper) {
	call.from = c.Client.DB
	encoded, later := 0, false
	for _, name := range names {
		v := c.DB.Lookup(name)
		if !v.Exists() {
			continue
		}
		it := item{key: clone(name)}
		if v.Volatile() {
			it.deadline = v.Deadline()
		}
		if encoded < encodeAll && size(c, v) <= encodeOne {
			it.payload = d.Append(nil, v)
			encoded += len(it.payload)
		} else {
			later = true
		}
		call.keys = append(call.keys, it)
	}
	if !later {
		return
	}
	call.view = m.parts.Core.FreezeWithin()
	call.view.Keep()
	for i := range call.keys {
		if it := &call.keys[i]; it.payload == nil {
			it.value = call.view.Get(call.from, it.key)
		}
	}
}

// size estimates a value's bytes in memory or as a payload, whichever are more. Bits of a filter that were never set
// only take bytes in a payload.
func size(c *command.Context, v value.Value) int {
	if v.Type() == value.String {
		return v.Len()
	}
	if !v.Rooted() {
		return 0
	}
	n := c.Space.MemoryUsage(v, samples)
	if bloom.IsFilter(v) {
		r := bloom.Read(v)
		for i := range r.Links() {
			n += int(r.Link(i).Bytes) / packedAtMost
		}
	}
	return n
}

func (m *call) closeView() {
	if m.view != nil {
		m.view.Close()
	}
}

// finish deletes the confirmed keys, and replies.
func (m *Migrator) finish(c *command.Context, call *call) error {
	if !call.copy && len(call.acked) > 0 {
		gone := m.remove(c.DB, call)
		c.Changed(len(gone))
		if len(gone) > 0 {
			c.Propagate(append([][]byte{[]byte("DEL")}, gone...)...)
		} else {
			c.PropagateNothing()
		}
	} else {
		c.PropagateNothing()
	}
	if call.failed != nil {
		return call.failed
	}
	c.Reply.OK()
	return nil
}

// finishAlone is finish for a client that has left.
func (m *Migrator) finishAlone(db *keyspace.DB, call *call) {
	if call.copy {
		return
	}
	if gone := m.remove(db, call); len(gone) > 0 {
		m.parts.Core.Changed(len(gone))
		m.parts.Core.Effect(call.from, append([][]byte{[]byte("DEL")}, gone...)...)
	}
}

// remove deletes the keys that the target has confirmed, and returns those that still existed.
func (m *Migrator) remove(db *keyspace.DB, call *call) (gone [][]byte) {
	for _, i := range call.acked {
		key := call.keys[i].key
		if db.Delete(key) {
			m.parts.Core.Notify(command.EventGeneric, "del", call.from, key)
			gone = append(gone, key)
		}
	}
	return gone
}
