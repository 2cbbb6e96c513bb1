// Package cluster makes this server a node of Redis Cluster: it runs the node's state beside the core, over real
// sockets, clocks and files.
//
// Owner: a goroutine of its own (run), which nothing of the core can hold up; commands.go runs in the turn.
// Elsewhere: the core reads the slot map that is published. Both sides take mu for the state, for moments.
// Never: waits for a turn, a disk or a name while it holds mu.
// Start here; link.go is the sockets, errands.go what the core is asked for, save.go nodes.conf, commands.go CLUSTER.
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
	"spindle/engine/client"
	"spindle/internal/clock"
	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/slots"
	"spindle/protocol"
)

// Parts are what a Cluster asks of the rest of the server.
type Parts struct {
	Settings *Settings
	Current  *slots.Current
	Keys     slots.Keys
	Messages slots.Messages
	Disk     disk.System
	Log      *logging.Logger

	// Between runs f while no unit is open (R6): at once, or in the turn that ends the open one. Turn only. DoBetween
	// takes a turn for that, and says whether f has run: not if the process is about to end. AtUnitEnd runs f at the end
	// of the turn or of the open unit. Turn is the number of the running turn. Wake has the client of a command that
	// waits go on, in a turn.
	Between   func(f func())
	DoBetween func(f func()) (ran bool)
	AtUnitEnd func(f func())
	Turn      func() uint64
	Wake      func(cl *client.Client)
	// Gate holds back what clients have published until it is durable; nil: nothing is held back.
	Gate *protocol.Gate
	// Role changes this server's part in replication. Turn only.
	Role Role
	// Offset is the replication offset, and HeardMs when, by clock.Steady, a replica last heard of its primary. Any
	// goroutine.
	Offset  func() int64
	HeardMs func() int64
	// BeatMs is when, by clock.Steady, the core last did its duties. Any goroutine.
	BeatMs func() int64

	Ports           func() (port, tlsPort int) // 0: none
	Bind            func() []string
	Source          func() string // bind-source-addr
	ReplicationPing func() int64  // ms
	TLSReplication  func() bool
	TLSCluster      func() bool
	// TLS gives the configurations of both ends of a link; nil if links are in the clear.
	TLS func() (server, client *tls.Config)
	// Fatal ends the process: nodes.conf cannot be written, and what it should hold was promised.
	Fatal func(why string)
}

// Role is replication as the cluster drives it. Turn only.
type Role interface {
	Follow(host string, port int)
	Promote()
	Empty()              // removes all data
	Pause(untilMs int64) // holds writes back for a failover
	Unpause()
}

// A Cluster is this node.
type Cluster struct {
	parts    Parts
	settings *Settings
	log      *logging.Logger

	mu      sync.Mutex // the state, and what it has decided and nobody has carried out
	state   *state.State
	renewed bool // settings have changed
	saves   *state.Save
	saveNo  uint64 // of saves
	outs    []outgoing
	asked   []errand // for the core, once the slot map is published
	after   []func() // then
	mapped  *slots.Map

	errands errands
	saver   saver
	durable atomic.Uint64 // what of the state's critical counts is on disk

	held    []outgoing // messages that wait for the disk; run's
	events  chan event
	wake    chan struct{}
	stop    chan struct{}
	stopped sync.WaitGroup

	listeners []closer
	accepted  acceptedLinks
	memory    atomic.Int64 // of all links
	peers     atomic.Int64 // nodes beside this one

	published publications
}

type closer interface{ Close() error }

// An outgoing message, and what must be on disk before it leaves.
type outgoing struct {
	to      *wire
	message []byte
	needs   uint64
}

// An event is what a link's goroutine tells.
type event struct {
	wire    *wire
	message *bus.Message // nil: the link stands, or one of the others
	refused *bus.Type    // of a message that is not what it says
	err     error
}

// eventsKept is how many messages wait to be processed before links are read no further.
const eventsKept = 256

// New makes the node, without reading a file or opening a socket yet.
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

// nowMs is the node's clock. It begins as Unix time, and setting the wall clock does not move it.
func nowMs() int64 { return clock.Steady() }

// CheckPort refuses a port of the server's above which the bus has no port. It comes before Open, else the first
// nodes.conf would name a port that cannot be. It opens nothing.
//
// Errors: a line for the log; the server cannot start.
func (c *Cluster) CheckPort() error {
	if c.listenPort() > maxPort {
		return errors.New("Redis port number too high. Cluster communication port is 10,000 port numbers higher than your " +
			"Redis port. Your Redis port number must be 55535 or less.")
	}
	return nil
}

// Open locks and reads nodes.conf, or makes one, and opens the bus' sockets.
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

// Primary is whom this node follows by nodes.conf; empty if it is a primary, or does not know.
func (c *Cluster) Primary() (host string, port int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Followed()
}

// Start runs the node, once the data are loaded. Turn only.
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

// Renew says that settings have changed. Any goroutine.
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

// poke has run look for what others have left to do.
func (c *Cluster) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// begin comes before each use of the state, under mu.
func (c *Cluster) begin() {
	c.state.At(nowMs())
	c.state.WallAhead = clock.WallAhead()
	if c.renewed {
		c.renewed = false
		c.state.Apply(c.terms())
	}
}

// finish comes after each use of the state, under mu: it publishes the map, and leaves messages and files to others.
func (c *Cluster) finish() {
	if save := c.state.Settle(); save != nil {
		c.saveNo++
		c.saves = save
		c.saver.offer(save, c.saveNo)
	}
	if c.state.Changed {
		c.publish(c.state.Map())
		c.peers.Store(int64(len(c.state.Nodes()) - 1))
	}
	c.errands.add(c.asked...)
	c.asked = c.asked[:0]
	for _, f := range c.after {
		f()
	}
	c.after = c.after[:0]
}

// publish puts a map in force, so that the core refuses no write that the map lets in. It comes before the core becomes
// a replica, and after it has become a primary: then in a turn.
func (c *Cluster) publish(m *slots.Map) {
	before := c.mapped
	c.mapped = m
	swap := func() {
		c.parts.Current.Store(m)
		c.parts.Keys.Moved(before, m)
	}
	if before != nil && before.Replica && !m.Replica || c.errands.hasMaps() {
		c.asked = append(c.asked, errand{run: swap, isMap: true})
		return
	}
	swap()
}

// with uses the state from anywhere but run.
func (c *Cluster) with(f func(s *state.State)) {
	c.mu.Lock()
	c.begin()
	f(c.state)
	c.finish()
	c.mu.Unlock()
	c.poke()
}

// stuckTimeouts is after how many node timeouts in one turn this node stops to say that it is well.
const stuckTimeouts = 10

// isStuck says that the core has been in one turn for so long that it has to be failed over.
func (c *Cluster) isStuck() bool {
	beat := c.parts.BeatMs()
	return beat != 0 && nowMs()-beat > stuckTimeouts*max(c.settings.NodeTimeout.Get(), 100)
}

// run is the node's goroutine.
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
			c.take(e)
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

// pollEvery is how often the offset is looked at during a manual failover.
const pollEvery = 2 * time.Millisecond

// step uses the state from run.
func (c *Cluster) step(f func(s *state.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin()
	f(c.state)
	c.finish()
}

// take carries out one event.
func (c *Cluster) take(e event) {
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

// flush hands messages to their links, those that wait for the disk not before it has what they need (state.C2). It
// says whether the state wants Poll.
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

// Sleep runs f, and nothing of the bus meanwhile: DEBUG SLEEP stops all of a node.
func (c *Cluster) Sleep(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// outside is the Cluster as its state sees it. All calls come under mu.
type outside struct{ *Cluster }

// Dial implements state.Outside.
func (o outside) Dial(l *state.Link) { o.dial(l) }

// Send implements state.Outside.
func (o outside) Send(l *state.Link, message []byte, needs uint64) {
	o.outs = append(o.outs, outgoing{l.Handle.(*wire), message, needs})
}

// HangUp implements state.Outside.
func (o outside) HangUp(l *state.Link) { l.Handle.(*wire).close() }

// Keys implements state.Outside.
func (o outside) Keys(slot int) int { return o.parts.Keys.Count(uint16(slot)) }

// Offset implements state.Outside.
func (o outside) Offset() int64 { return o.parts.Offset() }

// DataAge implements state.Outside.
func (o outside) DataAge() int64 { return nowMs() - o.parts.HeardMs() }

// Log implements state.Outside.
func (o outside) Log(level logging.Level, format string, args ...any) {
	o.log.At(level, format, args...)
}
