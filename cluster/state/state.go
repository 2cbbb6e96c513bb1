// Package state is a cluster node's view of the cluster, and what it does about it: the node table, gossip, failures,
// epochs, votes and failovers.
//
// Owner: whoever drives it, one call at a time: package cluster does, a simulator may.
// Never: reads a clock, opens a socket or file, or starts a goroutine. It depends on messages, times and chance that
// it is handed.
// Start here; node.go is the table, receive.go what messages do, tick.go what time does, election.go how a replica
// takes over, slots.go who owns a slot, file.go nodes.conf.
//
// state.C1. For a slot and a config epoch this node claims the slot at most once: an epoch is raised before it is used.
// state.C2. What is critical is on disk before a message leaves that depends on it: a vote, an epoch of ours, a claim.
package state

import (
	"math/rand/v2"

	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
)

// Terms are the settings of this moment. Times are milliseconds.
type Terms struct {
	NodeTimeout, PingInterval int64
	ReplicationPing           int64 // how often a primary pings its replicas
	ValidityFactor            int64
	MigrationBarrier          int64
	AllowMigration            bool
	NoFailover                bool
	FullCoverage              bool
	ReadsWhenDown             bool
	ShardsWhenDown            bool
	Endpoints                 slots.EndpointType
	LinkLimit                 uint64 // bytes queued on a link; 0: no limit
	AnnounceIP                string // "": found out from links
	Hostname, HumanName       string
	Port, TLSPort, BusPort    int // as announced
	TLS                       bool
	TLSReplication            bool
}

// Outside is what the state asks of its driver. No call may block or call back.
type Outside interface {
	// Dial opens l to the address of its node. Connected or Lost answers.
	Dial(l *Link)
	// Send queues a message, which is shared with other links. It leaves when the disk has what it needs (state.C2).
	Send(l *Link, message []byte, needs uint64)
	// HangUp closes l. Nothing is heard of it any more.
	HangUp(l *Link)
	// Ask has the core do something, in the order asked.
	Ask(e Errand)
	// Keys is how many keys a slot holds.
	Keys(slot int) int
	// Offset is the replication offset: a primary's own, or what a replica has applied. DataAge is for how long, in ms,
	// a replica has heard nothing of its primary.
	Offset() int64
	DataAge() int64
	Log(level logging.Level, format string, args ...any)
}

// An Errand is something for the core.
type Errand struct {
	Kind             ErrandKind
	Host             string // Follow
	Port             int
	UntilMs          int64    // Pause
	Slots            []uint16 // Drop
	Channel, Payload []byte   // Deliver
	Shard            bool
}

// An ErrandKind says what the core is asked for.
type ErrandKind uint8

const (
	Follow  ErrandKind = iota // replicate Host:Port
	Promote                   // follow nobody
	Empty                     // remove all data
	Pause                     // hold writes back until UntilMs, then call Paused
	Unpause
	Drop    // remove the keys of Slots
	Deliver // a published message for this node's subscribers
)

// A Link is one connection to a peer. The driver makes none but by Accept.
type Link struct {
	Node          *Node // nil of an inbound one until its peer is known
	Inbound       bool
	CreatedMs     int64
	Peer, Local   string // IP addresses; the driver sets them before Connected or Accept
	Queued        func() int64
	Handle        any // the driver's
	closed, ready bool
	extends       bool // Node.extends of its peer, whom nobody may know yet
}

// State is the view of one node. One caller at a time; every call is handed the time.
type State struct {
	Terms Terms
	now   int64 // Unix ms, of the call
	out   Outside
	rng   *rand.Rand

	me      *Node
	byID    map[string]*Node
	nodes   []*Node // in order of arrival
	owners  [slots.Count]*Node
	notOwn  bus.Bitmap // slots that their owner has stopped to claim
	moving  map[int]*Node
	coming  map[int]*Node
	black   map[string]int64 // forgotten nodes: until when, Unix seconds
	current uint64           // currentEpoch
	voted   uint64           // lastVoteEpoch

	ok            bool // cluster_state
	size          int  // primaries with slots
	firstUpdate   int64
	minorityMs    int64
	maybeFailed   int // nodes in PFAIL
	iteration     uint64
	pings         uint64
	electionMs    int64
	electionEpoch uint64
	votes         int
	asked         bool
	rank          int
	cannot        cannot
	cannotMs      int64

	manualEnd    int64 // 0: no manual failover
	manualNode   *Node // of a primary: who takes over
	manualPaused bool  // of a primary: writes are held back
	manualOffset int64 // of a replica: what the primary has; -1: unknown
	manualReady  bool

	following string // "host port" that the core was told to follow; "" for none

	todo     todo
	critical uint64 // counts what must be on disk before later messages leave
	Changed  bool   // the slot map is to be made anew
	// WallAhead is by how many ms Unix time is ahead of the times here. Gossip carries Unix time.
	WallAhead int64
	DropType  int // messages of this type are dropped (DEBUG); -1: none

	sent, received [bus.Types]int64
	LimitExceeded  int64
}

// todo is what Settle has to do.
type todo uint8

const (
	todoFailover todo = 1 << iota
	todoManual
	todoUpdate
	todoSave
	todoSync
)

// New makes a state without nodes; Load or Begin gives it this node.
func New(out Outside, terms Terms, nowMs int64, rng *rand.Rand) *State {
	return &State{out: out, Terms: terms, now: nowMs, rng: rng, byID: map[string]*Node{}, moving: map[int]*Node{},
		coming: map[int]*Node{},
		black:  map[string]int64{}, manualOffset: -1, DropType: -1, Changed: true}
}

// Begin makes this node: a primary without slots, with an ID by chance.
func (s *State) Begin() {
	s.me = s.newNode("", bus.Myself|bus.Primary)
	s.add(s.me)
	s.log(logging.LevelNotice, "No cluster configuration found, I'm %s", s.me.ID)
	s.save(true)
	s.Apply(s.Terms)
}

// At gives the time of the calls that follow.
func (s *State) At(nowMs int64) { s.now = nowMs }

func (s *State) log(level logging.Level, format string, args ...any) {
	s.out.Log(level, format, args...)
}

// save has nodes.conf written. sync says that messages wait until it is on disk (state.C2).
func (s *State) save(sync bool) {
	s.todo |= todoSave
	if sync {
		s.todo |= todoSync
		s.critical++
	}
}

// Apply has the state go by terms.
func (s *State) Apply(t Terms) {
	before := s.Terms
	s.Terms = t
	me := s.me
	if me.Hostname != t.Hostname || me.HumanName != t.HumanName {
		me.Hostname, me.HumanName = t.Hostname, t.HumanName
		s.save(false)
	}
	flags := me.Flags &^ bus.NoFailover
	if t.NoFailover {
		flags |= bus.NoFailover
	}
	if flags != me.Flags {
		me.Flags = flags
		s.save(false)
		s.todo |= todoUpdate
	}
	if t.AnnounceIP != "" && t.AnnounceIP != me.IP {
		me.IP = t.AnnounceIP
	} else if t.AnnounceIP == "" && before.AnnounceIP != "" {
		me.IP = "" // found out again
	}
	me.Port, me.TLSPort, me.BusPort = t.Port, t.TLSPort, t.BusPort
	if before.FullCoverage != t.FullCoverage {
		s.todo |= todoUpdate
	}
	s.Changed = true
}

// A Save is what the driver has to write.
type Save struct {
	Text  []byte
	Sync  bool
	Count uint64 // what is critical up to here is on disk with it
}

// Settle does what the calls before have left to do once: it comes after each of them. A Save is nil if there is
// nothing to write.
func (s *State) Settle() *Save {
	for s.todo&^(todoSave|todoSync) != 0 {
		todo := s.todo
		s.todo &= todoSave | todoSync
		switch {
		case todo&todoManual != 0:
			if s.me.isReplica() {
				s.tryManual()
				s.tryFailover()
			}
		case todo&todoFailover != 0:
			s.tryFailover()
		}
		if todo&todoUpdate != 0 {
			s.updateState()
		}
	}
	if s.todo&todoSave == 0 {
		return nil
	}
	sync := s.todo&todoSync != 0
	s.todo = 0
	return &Save{Text: s.Describe(), Sync: sync, Count: s.critical}
}

// Figures of INFO and CLUSTER INFO.

// Me is this node.
func (s *State) Me() *Node { return s.me }

// Nodes are all nodes, this one among them. The slice is the state's own.
func (s *State) Nodes() []*Node { return s.nodes }

// Lookup finds a node.
func (s *State) Lookup(id string) *Node { return s.byID[id] }

// OK is cluster_state:ok.
func (s *State) OK() bool { return s.ok }

// Epochs are currentEpoch and lastVoteEpoch.
func (s *State) Epochs() (current, lastVote uint64) { return s.current, s.voted }

// Size is how many primaries serve slots.
func (s *State) Size() int { return s.size }

// Counts are how many messages of each type were sent and received.
func (s *State) Counts() (sent, received [bus.Types]int64) { return s.sent, s.received }

// Critical is what is to be on disk before a message that is sent now leaves.
func (s *State) Critical() uint64 { return s.critical }
