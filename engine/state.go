package engine

import (
	"context"
	"sync/atomic"
	"time"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/diagnose"
	"spindle/engine/part"
	"spindle/engine/reading"
	"spindle/internal/clock"
	"spindle/internal/slots"
	"spindle/lazyfree"
	"spindle/protocol"
)

// Core owns the data and runs the commands. Each method says from where it may be called. The fields need the turn.
type Core struct {
	turn
	space     *keyspace.Keyspace
	catalogue *command.Catalogue
	clients   *client.Registry
	settings  *Settings
	common    *command.Settings
	whole     *command.Whole
	users     acl.Users
	hooks     part.Events
	lazy      *lazyfree.Queue
	takeJob   func() lazyfree.Job

	clock     func() time.Time
	started   time.Time // the origin of nanos
	steady    int64     // clock.Steady at started
	wall      clock.Wall
	nanos     int64  // monotonic, at the last reading of the clock in this turn
	nowMs     int64  // Unix ms: of the command that runs, and of all commands inside one
	stack     *stack // of the command that runs: one of stacks
	stacks    [2]stack
	lent      *lent                        // the command that has lent the turn, if one has
	specs     [prefetchAhead]*command.Spec // rows of the next requests
	meter     meter
	sampler   sampler
	stalls    stallWatch
	running   running
	large     largeness
	batch     *protocol.Batch // batch that records which commands have run; nil means none
	sinks     []hearer
	barriers  []*part.Barrier
	raised    int // barriers that are up
	pause     pause
	throttle  throttle
	latches   latches
	slots     *slots.Current // the node of each slot; nil outside cluster mode
	replicas  func() int     // how many get the stream; nil outside cluster mode
	slotStats *slotStats     // nil if slots are not counted
	waiting   waiting
	reads     reading.Queue
	monitors  client.Audience
	watchers  map[*client.Client]*client.Seat // the clients under MONITOR, and their places in monitors
	pushes    pushes
	channel   []byte // Notify's
	message   []byte // NotifySubkeys's
	duties    duties
	later     []func()   // at the end of this turn
	between   []awaiting // the end of the open unit: Between
	gate      *protocol.Gate
	gated     bool // the gate knows of the open unit
	acks      acks
	eviction  eviction
	defrag    defrag
	loading   *part.Barrier
	shortage  *part.Barrier

	streamBytes, streamExcess int64 // NoteStream

	halted       chan struct{} // closed by Halt
	anyInScripts bool          // DEBUG SET-DISABLE-DENY-SCRIPTS
	replaying    bool          // a command of a log runs: no sink gets its effects
	replayed     replayed

	waitsWithin atomic.Bool // DoWithin has a function that has not run

	nudge  chan struct{}     // wakes RunDuties
	labels []context.Context // by command.Spec.ID, during a profile
}

// prefetchAhead is the number of requests of a batch whose keys' cache misses are under way at once. With more than
// some ten, the processor has no more line-fill buffers, and the first lines fall out of L1 again.
const prefetchAhead = 12

// Parts are the parts that a Core is built from.
type Parts struct {
	Space     *keyspace.Keyspace
	Catalogue *command.Catalogue
	Clients   *client.Registry
	Settings  *Settings
	Common    *command.Settings
	Lazy      *lazyfree.Queue
	Whole     *command.Whole
	Gate      *protocol.Gate   // holds back pushes; nil means that nothing is held back
	Clock     func() time.Time // if nil, the machine's; any goroutine may call it
}

// A push goes to a client that has not requested it: a message of pub/sub, an invalidation.
//
// engine.O1. A client gets replies and pushes in the order in which they were made.
// engine.O2. A command's pushes to its own client come right after that command's reply. In a transaction they come
// after EXEC's reply, in a script after the script's. A command that was parked or has lent the turn replies later, and
// so its pushes come later.
// engine.O3. CLIENT REPLY OFF and SKIP do not suppress pushes.
// engine.O4. The stream of a replica goes by mail, even while the replica's own batch runs.
// engine.O5. Pushes of a transaction or a script are put into their receivers' outputs at once, and count there. The
// gate holds the outputs back until the unit has ended. Where clients wait for the disk, it also waits until the unit's
// effects are on disk.
// engine.O6. No turn leaves pending pushes: they would reach the client of a later turn. Duties, functions of Later and
// admission may push to a silenced client, and no command of its batch may follow.
//
// Nearly all pushes go by mail. The client whose batch runs is the exception: mail would come after the whole batch.
type pushes struct {
	here     *client.Client // whose batch is run; nil means none
	pending  []byte         // for here, until the reply of the command that runs is complete
	parked   bool           // a parked client is getting its reply, and pushes wait for it
	deferred []push         // those pushes
}

// A push is a push that waits to be sent, to one client or to an audience.
type push struct {
	to           *client.Client
	all          *client.Audience
	mine         bool
	resp2, resp3 []byte
}

// Latches hold back only the commands that name a key which is on its way to another server. All keys of a slot may be
// on their way.
//
// engine.K1. While a key has a latch, no client's command that names it runs, in any database. While a pause holds
// writes back, commands that read the key run, unless its slot has the latch.
// engine.K2. A script that has not declared such a key may read it, but not write to it.
// engine.K3. A client that is blocked on another key is not served if its command names a key with a latch.
type latches struct {
	held   int                  // Latch calls that are not released
	keys   map[string]int       // number of latches of each key
	slots  *[slots.Count]uint16 // number of latches of each slot; nil means none
	passed bool                 // engine.K3 kept a client from being served
	found  []command.KeyPosition
	dbs    []int // that a call names
}

// Replies that wait for replicas: the core knows how many replicas each client's replies wait for, and which batches
// show data. The gate holds the bytes of the replies (protocol.Gate), and replication releases them.
//
// engine.Q1. The level of a client in the registry comes from CLIENT ACK, else from its user's rule, else from
// min-replicas-to-ack. Its flag client.Acks is set if the level is not 0.
// engine.Q2. A batch has the highest level at which one of its commands has shown data. Posts have their receiver's
// level.
type acks struct {
	common  uint8
	clients [protocol.AckLevels + 1]int // in the registry, by level
	changed func()                      // Levels may have changed; nil if no feature needs it
	inner   bool                        // the transaction that runs has run a command
}

// eviction is the state of evicting keys and clients. Nanos count from the core's start.
type eviction struct {
	barrier       *part.Barrier // up while maxmemory is set
	exceededSince int64         // data exceed maxmemory, and eviction has not caught up; 0 if it has
	exceededNanos int64         // total time for which they exceeded it, before that
	short         bool          // there was no room for the last command checked
	ignored       bool          // a primary evicts for this server
	stuckAt       int64         // when the log last said that no client may be evicted, Unix ms
}

// Active defragmentation: when much of the slabs in use is free, the emptiest slabs are evacuated, in slices of turns.
// The heap chooses them (memory/evacuate.go), and a walk of the databases moves the blocks in them. The settings are
// Redis's.
//
// engine.D1. Nothing moves while a view is open, a command has lent the turn, or a data set is loaded. A new view ends
// the evacuation. The walk resumes from its place with the next evacuation.
// engine.D2. A slice is defragSlice long, and slices take the share of the time that the settings allow.
type defrag struct {
	walk    keyspace.Defrag
	next    int64 // nanos of the next slice
	share   int64 // of the time, in percent; 0 if nothing is moved
	began   int64 // nanos, of the run under way
	spent   int64 // nanos, by all slices
	settled int64 // free bytes of slabs at the end of the last run; another run needs a change of it
	rest    int   // ticks until another run may begin even so
}

// A stallWatch is the core's state for the stall log.
type stallWatch struct {
	log     *diagnose.Stalls
	limit   int64   // nanos; MaxInt64: off
	covered int64   // nanos already logged inside the running part (engine.G1)
	noted   int64   // nanos logged since the last tick
	cpu     int64   // the process's, at the last tick
	at      int64   // nanos at which the running duty began
	job     uintptr // the code of the function that the turn of Do is for

	processCPU func() int64 // clock.ProcessCPU
}

// A largeness holds the limits of requests and replies in bytes. MaxInt is never reached.
type largeness struct {
	request, reply int
	noted          int // the least size that sent records
	sent           int // bytes of the running request, or 0 if it is smaller than noted
}

// A SlotStat is the cost of the calls on the keys of a slot.
type SlotStat struct {
	Nanos   int64
	In, Out uint64 // Out: bytes of replies, of the replication stream, and of shard messages
}

// slotStats are the statistics of all slots, for CLUSTER SLOT-STATS.
type slotStats struct {
	of    [slots.Count]SlotStat
	under *slots.Map // the Map at the last count
}

// tickEvery is the time between ticks, in nanoseconds, like that of Redis's serverCron at hz 10.
const tickEvery = int64(100 * time.Millisecond)

// duties is the state that slices of duties share.
type duties struct {
	at         int64 // nanos at which the next slice is due, for busy servers
	lastTick   int64
	nextVisit  int64 // client id to resume from
	nextNote   int64
	activeOff  bool // DEBUG SET-ACTIVE-EXPIRE 0
	cronPaused bool // DEBUG PAUSE-CRON 1
	loading    bool
	reloading  bool // and is one unit: BeginReload
	behind     bool // more keys were past their deadline than the last slice could remove
	// draining means that reclaimers have freed more than the last slice took back. It also means that they are
	// touching memory or returning it to the system.
	draining   bool
	laden      bool // the state at the last call of Hooks.Laden
	forgetting bool // streams have message names to forget that are due
	ticks      uint64
}

// Turns returns the number of turns so far. Turn only.
func (c *Core) Turns() uint64 {
	c.assertHeld()
	return c.number
}

// TurnNumber returns the number of the turn that the caller holds.
func (c *Core) TurnNumber() uint64 {
	c.assertHeld()
	return c.number
}

// Now returns the time of the turn in Unix ms.
func (c *Core) Now() int64 {
	c.assertHeld()
	return c.nowMs
}

// SteadyMs returns the time of the turn by clock.Steady. It is for durations, which must not depend on the wall clock.
func (c *Core) SteadyMs() int64 {
	c.assertHeld()
	return c.steady + c.nanos/int64(time.Millisecond)
}

// Uptime returns the time since the core was made. Any goroutine.
func (c *Core) Uptime() time.Duration { return c.clock().Sub(c.started) }

// Clients returns the registry. Turn only.
func (c *Core) Clients() *client.Registry {
	c.assertHeld()
	return c.clients
}

// Users returns the users of this server. Turn only, except for Default and DefaultIsOpen.
func (c *Core) Users() *acl.Users { return &c.users }

// Transacting reports whether the running command is part of a transaction. Turn only.
func (c *Core) Transacting() bool {
	c.assertHeld()
	return c.stack.depth > 0 && c.stack.frames[0].Spec.Has(command.RunsQueue)
}

// Current returns the client that sent the outermost running command. It returns nil if no command runs.
func (c *Core) Current() *client.Client {
	c.assertHeld()
	if c.stack.depth == 0 {
		return nil
	}
	return c.stack.frames[0].Client
}

// Here returns the client whose pushes do not go by mail, because its batch runs or its command has lent the turn. It
// returns nil if there is none.
func (c *Core) Here() *client.Client {
	c.assertHeld()
	if c.pushes.here == nil && c.lent != nil {
		return c.lent.p.cl
	}
	return c.pushes.here
}

// Lent reports whether a command has lent the turn and has not ended. Turn only.
func (c *Core) Lent() bool {
	c.assertHeld()
	return c.lent != nil
}

// Busy returns the error for other clients while a command has lent the turn, and nil otherwise. Turn only.
func (c *Core) Busy() error {
	c.assertHeld()
	if c.lent == nil {
		return nil
	}
	return c.lent.refusal()
}

// Tardy implements command.Core.
func (c *Core) Tardy() bool { return c.lent != nil && c.lent.tardy }

// Loading reports whether the data set is being loaded, so that only a part of it is here.
func (c *Core) Loading() bool {
	c.assertHeld()
	return c.duties.loading
}

// Laden reports whether reclaimers have much to free, for listeners of Hooks.Laden. Turn only.
func (c *Core) Laden() bool {
	c.assertHeld()
	return c.duties.laden
}

// CronPaused reports whether DEBUG PAUSE-CRON has stopped the ticks.
func (c *Core) CronPaused() bool {
	c.assertHeld()
	return c.duties.cronPaused
}

// HotKeys returns the samples of keys. Turn only.
func (c *Core) HotKeys() *diagnose.HotKeys {
	c.assertHeld()
	return c.sampler.keys
}

// Nanos returns the time of the turn by the clock that HotKeys.Fade uses. Turn only.
func (c *Core) Nanos() int64 {
	c.assertHeld()
	return c.nanos
}

// Stalls returns the stall log. Turn only.
func (c *Core) Stalls() *diagnose.Stalls {
	c.assertHeld()
	return c.stalls.log
}

// other returns the stack that is not s.
func (c *Core) other(s *stack) *stack {
	if s == &c.stacks[0] {
		return &c.stacks[1]
	}
	return &c.stacks[0]
}

// addBarrier appends b to the barriers. b is down at first.
func (c *Core) addBarrier(b *part.Barrier) { c.barriers = append(c.barriers, b) }
