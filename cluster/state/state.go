// Package state is a cluster node's view of the cluster, and its decisions: the node table, gossip, failures, epochs,
// votes and failovers.
//
// Owner: its driver, one call at a time. The driver is package cluster, or a simulator.
// Never: reads a clock, opens a socket or file, or starts a goroutine. It gets messages, times and randomness from its
// driver.
// Start here; node.go is the table, receive.go handles messages, tick.go timers. election.go is a replica's takeover,
// slots.go slot ownership, file.go nodes.conf.
//
// state.C1. For a slot and a config epoch this node claims the slot at most once: an epoch is raised before it is used.
// state.C2. A message is sent only after the critical data that it depends on are on disk: a vote, this node's epoch, a
// claim.
// state.C3. The slots of a primary in the table are those that it had at its epoch there, or fewer. An UPDATE message
// tells both. With an epoch that it took after it had given slots up, the message would take them from their new owner.
package state

import (
	"math/rand/v2"

	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
)

// Terms are the current settings. Times are milliseconds.
type Terms struct {
	NodeTimeout, PingInterval int64
	ReplicationPing           int64 // how often a primary pings its replicas
	ValidityFactor            int64
	MigrationBarrier          int64
	ForgetSeconds             int64 // how long a forgotten node is not added again
	ManualTimeout             int64 // the longest manual failover; the primary pauses writes for at most twice as long
	AllowMigration            bool
	NoFailover                bool
	FullCoverage              bool
	ReadsWhenDown             bool
	ShardsWhenDown            bool
	Endpoints                 slots.EndpointType
	MinAcks                   int64  // how many replicas have what a primary confirms; 0: it does not wait for any
	LinkLimit                 uint64 // bytes queued on a link; 0: no limit
	AnnounceIP                string // "": found from links
	Hostname, HumanName       string
	Zone                      string
	Port, TLSPort, BusPort    int // as announced
	TLS                       bool
	TLSReplication            bool
}

// Outside is the state's access to its driver. No call may block or call back.
type Outside interface {
	// Dial opens l to the address of its node. Then the driver calls Connected or Lost.
	Dial(l *Link)
	// Send queues a message, which other links may share. It is sent once the critical count needs is on disk
	// (state.C2).
	Send(l *Link, message []byte, needs uint64)
	// HangUp closes l. No more calls for l follow.
	HangUp(l *Link)
	// Ask gives the core an errand. The core runs errands in this order.
	Ask(e Errand)
	// Keys returns the number of keys in a slot.
	Keys(slot int) int
	// Mark marks a slot, if it has keys. Marked reports whether it has had keys at each moment since the latest Mark.
	Mark(slot int)
	Marked(slot int) bool
	// Offset returns the replication offset: a primary's own, or how far a replica has applied the stream. DataAge
	// returns for how many ms a replica has not heard from its primary.
	Offset() int64
	DataAge() int64
	// Loaded returns the offset of the data that this node has loaded at its start, or 0 if it is not known. isLog means
	// that they come from a log of all writes, whose end may be missing. whole means that they are all that the node had
	// when it ended.
	Loaded() (offset int64, isLog, whole bool)
	// Confirm has a replica tell its primary what it has, or no more. It holds when Confirm returns.
	Confirm(on bool)
	Log(level logging.Level, format string, args ...any)
}

// An Errand is a request to the core.
type Errand struct {
	Kind             ErrandKind
	Host             string // Follow
	Port             int
	Same             bool     // Follow: the server that was followed before has another address
	Offset           int64    // Lead; 0: none
	UntilMs          int64    // Pause
	Slots            []uint16 // Drop
	Channel, Payload []byte   // Deliver
	Shard            bool
	Done             func() // Taken
}

// An ErrandKind is the kind of a request to the core.
type ErrandKind uint8

const (
	Follow  ErrandKind = iota // replicate Host:Port
	Promote                   // follow no server
	Empty                     // remove all data
	Pause                     // pause writes until UntilMs, then call Paused
	Unpause
	Drop     // remove the keys of Slots
	Deliver  // a published message for this node's subscribers
	Taken    // call Done, after the slot map in use shows this decision
	Withhold // give replicas no data until Lead
	Lead     // give replicas data, in a stream that continues at Offset, and call Led
)

// A Link is one connection to a peer. The driver makes links only with Accept.
type Link struct {
	Node          *Node // of an inbound link: nil until its peer is known
	Inbound       bool
	CreatedMs     int64
	Peer, Local   string // IP addresses; the driver sets them before Connected or Accept
	Queued        func() int64
	Handle        any // the driver's
	closed, ready bool
	pinged        bool // an inbound link has brought a ping
	extends       bool // like Node.extends, while the link's node may be unknown
	zoned         bool // like Node.zoned
}

// State is one node's view of the cluster. Only one caller may use it at a time. At sets the time for each call.
type State struct {
	Terms Terms
	now   int64 // Unix ms, of the call
	out   Outside
	rng   *rand.Rand

	me      *Node
	byID    map[string]*Node
	nodes   []*Node // in order of arrival
	owners  [slots.Count]*Node
	notOwn  bus.Bitmap // slots that their owner no longer claims
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
	restarted     bool  // this primary has started, and may lack a confirmed write: see state.Q4
	leading       bool  // the core was told to give data to replicas
	resignedMs    int64 // when it last told that it has failed: see state.Q5
	rivalMs       int64 // until when a replica of this primary may be elected (state.T4)
	rumourMs      int64 // until when any replica may be elected, because another node has told a greater epoch (state.T4)

	manualEnd    int64 // 0: no manual failover
	manualNode   *Node // of a primary: the replica that takes over
	manualPaused bool  // of a primary: writes are paused
	manualOffset int64 // of a replica: its primary's offset; -1: unknown
	manualReady  bool
	manualUnsent bool // of a replica: the request waits for the link to its primary

	attempt uint64     // counts the attempts to take over, and changes of hushed; 0: none
	lost    bus.Bitmap // slots that other nodes have taken from this node, or from its primary
	leaveBy int64      // when the keys of lost slots are removed at the latest (state.L2); 0: none wait
	hushed  bool       // of a replica: it confirms nothing to its primary, which has failed or is said to have

	taken    []*takeover // claims that the former owners of the slots do not know yet
	reclaims []*reclaim  // attempts to keep slots of moves, whose claims it has not heard of

	following string // "host port" that the core was told to follow; "": none

	todo     todo
	critical uint64 // counts data that must be on disk before later messages are sent
	Changed  bool   // the slot map must be made again
	// WallAhead is Unix time minus this state's clock, in ms. Gossip carries Unix time.
	WallAhead int64
	DropType  int // messages of this type are dropped (DEBUG); -1: none

	sent, received [bus.Types]int64
	LimitExceeded  int64
}

// A todo is work left for Finish.
type todo uint8

const (
	todoFailover todo = 1 << iota
	todoManual
	todoUpdate
	todoSave
	todoSync
)

// New makes a state without nodes. Load or Begin then adds this node.
func New(out Outside, terms Terms, nowMs int64, rng *rand.Rand) *State {
	return &State{out: out, Terms: terms, now: nowMs, rng: rng, byID: map[string]*Node{}, moving: map[int]*Node{},
		coming: map[int]*Node{},
		black:  map[string]int64{}, manualOffset: -1, DropType: -1, Changed: true}
}

// Begin adds this node as a primary without slots, with a random ID.
func (s *State) Begin() {
	s.me = s.newNode("", bus.Myself|bus.Primary)
	s.add(s.me)
	s.log(logging.LevelNotice, "No cluster configuration found, I'm %s", s.me.ID)
	s.save(true)
	s.Apply(s.Terms)
}

// At sets the time for the following calls.
func (s *State) At(nowMs int64) { s.now = nowMs }

func (s *State) log(level logging.Level, format string, args ...any) {
	s.out.Log(level, format, args...)
}

// save requests a write of nodes.conf. With sync, later messages wait until it is on disk (state.C2).
func (s *State) save(sync bool) {
	s.todo |= todoSave
	if sync {
		s.todo |= todoSync
		s.critical++
	}
}

// Apply changes the settings.
func (s *State) Apply(t Terms) {
	before := s.Terms
	s.Terms = t
	me := s.me
	if me.Hostname != t.Hostname || me.HumanName != t.HumanName {
		me.Hostname, me.HumanName = t.Hostname, t.HumanName
		s.save(false)
	}
	me.Zone = t.Zone
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
		me.IP = "" // to be found again
	}
	me.Port, me.TLSPort, me.BusPort = t.Port, t.TLSPort, t.BusPort
	if before.FullCoverage != t.FullCoverage {
		s.todo |= todoUpdate
	}
	s.Changed = true
}

// A Save is a nodes.conf for the driver to write.
type Save struct {
	Text  []byte
	Sync  bool
	Count uint64 // the critical count that is on disk after this save
}

// Finish does the work that earlier calls have left. The driver calls it after each of them. It returns nil if there is
// nothing to write.
func (s *State) Finish() *Save {
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
	s.hush()
	if len(s.taken) > 0 {
		s.settleTaken()
	}
	if len(s.reclaims) > 0 {
		s.settleReclaims()
	}
	if s.todo&todoSave == 0 {
		return nil
	}
	sync := s.todo&todoSync != 0
	s.todo = 0
	return &Save{Text: s.Describe(), Sync: sync, Count: s.critical}
}

// This part has the figures of INFO and CLUSTER INFO.

// Me returns this node.
func (s *State) Me() *Node { return s.me }

// Nodes returns all nodes, with this one. The slice belongs to the state.
func (s *State) Nodes() []*Node { return s.nodes }

// Lookup finds a node.
func (s *State) Lookup(id string) *Node { return s.byID[id] }

// OK reports whether cluster_state is ok.
func (s *State) OK() bool { return s.ok }

// Epochs returns currentEpoch and lastVoteEpoch.
func (s *State) Epochs() (current, lastVote uint64) { return s.current, s.voted }

// Size returns how many primaries serve slots.
func (s *State) Size() int { return s.size }

// Counts returns the numbers of messages sent and received, by type.
func (s *State) Counts() (sent, received [bus.Types]int64) { return s.sent, s.received }

// Critical returns the critical count that must be on disk before a message of now is sent.
func (s *State) Critical() uint64 { return s.critical }
