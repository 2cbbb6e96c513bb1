// Package cluster makes this server a node of Redis Cluster. It drives the node's state with real sockets, clocks and
// files.
//
// Owner: its own goroutine (run), which the core cannot delay; commands.go runs in the turn.
// Elsewhere: the core reads the published slot map. Both the core and run take mu for short accesses to the state.
// Never: waits for a turn, a disk or name resolution while it holds mu.
// Start here; link.go has the sockets, errands.go the requests to the core, save.go nodes.conf, commands.go CLUSTER.
package cluster

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"spindle/cluster/bus"
	"spindle/cluster/state"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/internal/clock"
	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/slots"
	"spindle/protocol"
)

// Parts are the functions of the server that a Cluster needs.
type Parts struct {
	Settings *Settings
	Current  *slots.Current
	Keys     slots.Keys
	Messages slots.Messages
	Disk     disk.System
	Log      *logging.Logger

	// Between runs f when no unit is open (R6): at once, or in the turn that ends the open unit. Turn only. DoBetween
	// takes a turn and does the same. ran is false if the process is about to end. AtUnitEnd runs f at the end of the
	// turn or of the open unit. Turn returns the number of the current turn. Wake resumes a client that waits; turn
	// only.
	Between   func(f func())
	DoBetween func(f func()) (ran bool)
	AtUnitEnd func(f func())
	Turn      func() uint64
	Wake      func(cl *client.Client)
	// Gate delays messages that clients publish until they are durable. If Gate is nil, there is no delay.
	Gate *protocol.Gate
	// Role changes this server's role in replication. Turn only.
	Role Role
	// Leads is called in the turn in which a promoted replica begins to use the map in which it is a primary.
	Leads func()
	// SlotMigrating tells clients that a slot of this node is about to move. SlotMigrated tells them that it has moved
	// from one address to another. Turn only. If they are nil, no client is told.
	SlotMigrating func(slot int)
	SlotMigrated  func(from, to string, slot int)
	// Offset returns the replication offset. HeardMs returns when a replica last heard from its primary, by
	// clock.Steady. Any goroutine may call both.
	Offset  func() int64
	HeardMs func() int64
	// Loaded returns what the state's Outside says. Any goroutine, after the load.
	Loaded func() (offset int64, isLog, whole bool)
	// Confirm has a replica acknowledge to its primary, or not. It holds at once. Any goroutine.
	Confirm func(on bool)
	// MinAcks is min-replicas-to-ack.
	MinAcks func() int64
	// BeatMs returns when the core last ran its periodic work, by clock.Steady. Any goroutine.
	BeatMs func() int64

	// SlotStat returns the figures of a slot for SLOT-STATS. on is false while nothing is counted. Turn only.
	SlotStat func(slot uint16) (s engine.SlotStat, on bool)

	Ports           func() (port, tlsPort int) // 0: none
	Bind            func() []string
	Source          func() string // bind-source-addr
	Zone            func() string // availability-zone
	ReplicationPing func() int64  // ms
	TLSReplication  func() bool
	TLSCluster      func() bool
	// TLS returns the configurations for both ends of a link, or nil if links are not encrypted.
	TLS func() (server, client *tls.Config)
	// Fatal ends the process, because nodes.conf cannot be written although a change in it was promised.
	Fatal func(why string)
}

// Role is replication as the cluster controls it. Turn only.
type Role interface {
	// Follow makes the server a replica. same means that the server followed before has another address now.
	Follow(host string, port int, same bool)
	Promote()
	// Withhold has the server refuse replicas until Lead. Lead continues the stream at an offset, if that is not 0.
	Withhold()
	Lead(offset int64)
	Empty() // removes all data
	// Pause pauses writes for a failover. It returns false if it cannot: slots are about to have another owner.
	Pause(untilMs int64) (paused bool)
	Unpause()
}

// A Cluster is this node.
type Cluster struct {
	parts    Parts
	settings *Settings
	log      *logging.Logger

	mu      sync.Mutex // guards the state and its unfinished decisions
	state   *state.State
	renewed bool // settings have changed
	saves   *state.Save
	saveNo  uint64 // number of the last save
	outs    []outgoing
	asked   []errand // for the core, after the slot map is published
	after   []func() // run after them
	mapped  *slots.Map

	errands errands
	saver   saver
	locked  int           // the descriptor that has the lock on nodes.conf; 0: none. Guarded by saver.writing
	durable atomic.Uint64 // how much of the state's critical count is on disk

	held    []outgoing // messages that wait for the disk; only run uses it
	events  chan event
	wake    chan struct{}
	stop    chan struct{}
	stopped sync.WaitGroup

	listeners []closer
	accepted  acceptedLinks
	memory    atomic.Int64 // of all links
	peers     atomic.Int64 // other nodes
	shard     atomic.Int64 // other nodes of this primary's shard
	hushing   sync.Mutex   // held around a call of parts.Confirm; guards hushed
	hushed    bool         // this replica is to confirm nothing
	sent      traffic
	received  traffic

	published publications
}

type closer interface{ Close() error }

// An outgoing is a message with the state's critical count that must be on disk before the message is sent.
type outgoing struct {
	to      *wire
	message []byte
	needs   uint64
}

// An event comes from a link's goroutine.
type event struct {
	wire    *wire
	message *bus.Message // nil: the link is connected, or another field is set
	refused *bus.Type    // the type of a malformed message
	err     error
}

// eventsKept is how many events may wait. While the queue is full, links are not read.
const eventsKept = 256

// New makes the node. It does not read a file or open a socket yet.
func New(parts Parts) *Cluster {
	c := &Cluster{
		parts: parts, settings: parts.Settings, log: parts.Log, events: make(chan event, eventsKept),
		wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	c.errands.init()
	c.saver.init()
	if parts.Gate != nil {
		parts.Gate.OnOpen(func() {
			if c.published.held.Load() {
				c.poke()
			}
		})
	}
	return c
}

// nowMs is the node's clock. It starts at Unix time, and changes of the wall clock do not affect it.
func nowMs() int64 { return clock.Steady() }

// CheckPort refuses a server port that leaves no valid port for the bus. It must run before Open, which would write
// that port to the first nodes.conf. It opens nothing.
//
// Errors: a line for the log; the server cannot start.
func (c *Cluster) CheckPort() error {
	if c.listenPort() > maxPort {
		return errors.New("Redis port number too high. Cluster communication port is 10,000 port numbers higher than your " +
			"Redis port. Your Redis port number must be 55535 or less.")
	}
	return nil
}

// Open locks and reads nodes.conf, or creates it, and opens the bus's sockets.
//
// Errors: a line for the log; the server cannot start.
func (c *Cluster) Open() error {
	if err := c.lock(); err != nil {
		return err
	}
	c.state = state.New(outside{c}, c.terms(), nowMs(), rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	if err := c.load(); err != nil {
		return err
	}
	return c.listen()
}

// Primary returns the address of this node's primary from nodes.conf. The address is empty if this node is a primary,
// or its primary is unknown.
func (c *Cluster) Primary() (host string, port int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Followed()
}

// Start runs the node after the data are loaded. Turn only.
func (c *Cluster) Start() {
	c.mu.Lock()
	c.state.At(nowMs())
	c.state.WallAhead = clock.WallAhead()
	c.state.Adopt()
	c.finish()
	c.mu.Unlock()
	c.errands.run()
	c.stopped.Add(3)
	go c.run()
	go c.runErrands()
	go c.runSaver()
	c.accept()
}

// Stop ends the node's goroutines and links.
func (c *Cluster) Stop() {
	close(c.stop)
	for _, l := range c.listeners {
		_ = l.Close()
	}
	c.errands.close()
	c.saver.close()
	c.stopped.Wait()
}

// Renew applies changed settings. Any goroutine.
func (c *Cluster) Renew() {
	c.mu.Lock()
	c.renewed = true
	if c.state != nil && c.mapped != nil {
		c.begin()
		c.finish()
	}
	c.mu.Unlock()
	c.poke()
}

// poke wakes run, which then looks for new work.
func (c *Cluster) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// begin must precede each use of the state, under mu.
func (c *Cluster) begin() {
	c.state.At(nowMs())
	c.state.WallAhead = clock.WallAhead()
	if c.renewed {
		c.renewed = false
		c.state.Apply(c.terms())
	}
}

// finish must follow each use of the state, under mu. It publishes the slot map, and passes on messages and saves.
func (c *Cluster) finish() {
	if save := c.state.Finish(); save != nil {
		c.saveNo++
		c.saves = save
		c.saver.offer(save, c.saveNo)
	}
	if c.state.Changed {
		c.publish(c.state.Map())
		c.peers.Store(int64(len(c.state.Nodes()) - 1))
		c.shard.Store(int64(c.state.Replicas()))
	}
	c.errands.add(c.asked...)
	c.asked = c.asked[:0]
	for _, f := range c.after {
		f()
	}
	c.after = c.after[:0]
}

// publish makes m the slot map in use. The core must never refuse a write that the map allows. So publish is called
// before the core becomes a replica. In a turn that makes the core a primary, publish is called after that.
func (c *Cluster) publish(m *slots.Map) {
	before := c.mapped
	c.mapped = m
	leads := before != nil && before.Replica && !m.Replica
	swap := func() {
		c.parts.Current.Store(m)
		c.parts.Keys.Moved(before, m)
		if leads { // a client of the next turn must see all keys of these slots
			c.parts.Leads()
		}
	}
	if leads || c.errands.hasMaps() {
		c.asked = append(c.asked, errand{run: swap, isMap: true})
		return
	}
	swap()
}

// with calls f with the state, outside the goroutine of run.
func (c *Cluster) with(f func(s *state.State)) {
	c.mu.Lock()
	c.begin()
	f(c.state)
	c.finish()
	c.mu.Unlock()
	c.poke()
}

// stuckTimeouts is the number of node timeouts after which a node in one long turn stops sending heartbeats.
const stuckTimeouts = 10

// isStuck reports whether the core has been in one turn for so long that another node should take over.
func (c *Cluster) isStuck() bool {
	beat := c.parts.BeatMs()
	return beat != 0 && nowMs()-beat > stuckTimeouts*max(c.settings.NodeTimeout.Get(), 100)
}

// run is the loop of the node's goroutine.
func (c *Cluster) run() {
	defer c.stopped.Done()
	tick := time.NewTicker(state.TickMs * time.Millisecond)
	defer tick.Stop()
	poll := time.NewTicker(time.Hour)
	defer poll.Stop()
	polling := false
	for {
		events := c.events
		if c.isStuck() {
			events = nil
		}
		select {
		case <-c.stop:
			c.closeLinks()
			return
		case e := <-events:
			c.handle(e)
		case <-tick.C:
			if events != nil {
				c.step(func(s *state.State) { s.Tick() })
			}
		case <-poll.C:
			c.step(func(s *state.State) { s.Poll() })
		case <-c.wake:
			c.step(func(s *state.State) { c.sendPublished(s) })
		}
		if wants := c.flush(); wants != polling { // a manual failover waits for an offset
			if polling = wants; polling {
				poll.Reset(pollEvery)
			} else {
				poll.Reset(time.Hour)
			}
		}
	}
}

// pollEvery is how often the offset is checked during a manual failover.
const pollEvery = 2 * time.Millisecond

// step calls f with the state, on the goroutine of run.
func (c *Cluster) step(f func(s *state.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin()
	f(c.state)
	c.finish()
}

// handle handles one event.
func (c *Cluster) handle(e event) {
	c.step(func(s *state.State) {
		w := e.wire
		switch {
		case w.link.Closed():
		case e.err != nil:
			if e.message == nil && !w.link.Inbound && w.conn == nil {
				c.log.Verbose("Connection with Node %s at %s:%d failed: %s",
					w.link.Node.ID, w.link.Node.IP, w.link.Node.BusPort, e.err)
			}
			s.Lost(w.link)
			w.close()
		case e.message != nil:
			s.Receive(w.link, e.message)
		case e.refused != nil:
			s.Refused(*e.refused)
		case !w.link.Inbound:
			s.Connected(w.link)
		}
	})
}

// flush passes messages to their links. A message waits in flush until the data that it depends on are on disk
// (state.C2). polling means that the state wants calls of Poll.
func (c *Cluster) flush() (polling bool) {
	c.mu.Lock()
	c.held = append(c.held, c.outs...)
	c.outs = c.outs[:0]
	polling = c.state.Waiting()
	c.mu.Unlock()
	durable, n := c.durable.Load(), 0
	for n < len(c.held) && c.held[n].needs <= durable {
		c.held[n].to.push(c.held[n].message)
		n++
	}
	rest := copy(c.held, c.held[n:])
	clear(c.held[rest:])
	c.held = c.held[:rest]
	return polling
}

// Sleep runs f while the whole bus stands still. DEBUG SLEEP uses it, because it stops a whole node.
func (c *Cluster) Sleep(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// outside is the Cluster as the state sees it. All its methods are called under mu.
type outside struct{ *Cluster }

func (o outside) Dial(l *state.Link) { o.dial(l) }

func (o outside) Send(l *state.Link, message []byte, needs uint64) {
	o.outs = append(o.outs, outgoing{l.Handle.(*wire), message, needs})
}

func (o outside) HangUp(l *state.Link) { l.Handle.(*wire).close() }

func (o outside) Keys(slot int) int    { return o.parts.Keys.Count(uint16(slot)) }
func (o outside) Mark(slot int)        { o.parts.Keys.Mark(uint16(slot)) }
func (o outside) Marked(slot int) bool { return o.parts.Keys.Marked(uint16(slot)) }

func (o outside) Offset() int64 { return o.parts.Offset() }

func (o outside) Loaded() (offset int64, isLog, whole bool) { return o.parts.Loaded() }

func (o outside) DataAge() int64 { return nowMs() - o.parts.HeardMs() }

// Confirm ends acknowledgements at once. They begin again after the errands so far: one may be to follow another
// primary.
func (o outside) Confirm(on bool) {
	c := o.Cluster
	c.hushing.Lock()
	defer c.hushing.Unlock()
	c.hushed = !on
	if !on {
		c.parts.Confirm(false)
		return
	}
	c.ask(errand{run: func() {
		c.hushing.Lock()
		defer c.hushing.Unlock()
		if !c.hushed {
			c.parts.Confirm(true)
		}
	}})
}

func (o outside) Log(level logging.Level, format string, args ...any) {
	o.log.At(level, format, args...)
}
