package state

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
	"spindle/tests/testkit/simnet"
)

// A simulation is a cluster on a simulated network. The states are real. Links, disks and clocks fail as the seed
// decides.
type simulation struct {
	net   *simnet.Net
	rng   *rand.Rand
	hosts []*host
	bug   bug

	votes  map[vote]string                // each node's vote in an epoch
	claims map[uint64]*[slots.Count]*host // the host that has claimed each slot with an epoch
	said   map[string]*[2056]byte         // each node's last claim: epoch and slots
	wrong  string                         // the first rule that was broken
	acks   int64                          // min-replicas-to-ack
	older  bool                           // primaries keep snapshots, which may be old; otherwise each node has a log
	kept   map[int]*write                 // the last confirmed write of each shard, if acks is not 0
	events uint64                         // a hash of all messages and log lines

	moves bool // slots move as a whole: a claim may have the epoch of an election (state.T2)

	requests, elections int // requests for votes, and elections won
	stood, fell         int // claims of moves that stood, and that have fallen
	reclaimed           int // how often sources have kept their slots
	trace               func(format string, args ...any)
}

// A bug is a fault that the test plants.
type bug uint8

const (
	noBug     bug = iota
	ungated       // messages do not wait for the disk
	generous      // a node votes as often as it is asked
	sameEpoch     // a replica takes over with its old primary's epoch
	hasty         // a replica stands for election whatever the others have
	talkative     // a replica confirms writes to a failed primary
	assured       // a node takes an offset of another history for its own
	trusting      // a primary that has started gives its data to replicas at once
	rash          // the source of a move keeps its slots without asking
)

type vote struct {
	by    string
	epoch uint64
}

// A host is a machine with one node.
type host struct {
	*simnet.Host
	w       *simulation
	at      int // index in hosts
	s       *State
	skew    int64
	lossy   int    // of a thousand messages, how many are the last that their link delivers
	disk    string // nodes.conf as it survives a crash
	pending []*Save
	durable uint64
	held    []heldMessage

	offset   int64
	data     *write         // the last write that it has, if acks is not 0
	acked    map[int]*write // of a primary: the last write that each replica has confirmed
	hush     bool           // it was told to confirm nothing
	hushed   bool           // it confirms nothing
	forgets  int            // how many of its last writes its disk lacks when it starts again; -1: all
	log      bool           // its disk has a log whose end has no offset
	loaded   int64          // the offset of the data that it has loaded; 0: unknown
	whole    bool           // they are all that it had
	withheld bool           // it gives replicas no data
	unsure   bool           // it does not know its offset in its primary's stream, if acks is not 0
	follows  int            // index of a host; -1: none
	heardMs  int64          // when it last heard from its primary
	pausedMs int64          // writes are paused until then
	granted  *grant         // slots that it hands over
	claiming int            // its claims that are not decided
	leads    bool           // it has won an election, or slots of a move
	kept     uint64         // the epoch with which it has reclaimed slots; 0: it has not
	ledMs    int64          // when it last took over from a primary; 0: never
	ledEpoch uint64         // its epoch then
	unheard  bool           // it took its epoch for slots, without having heard a replica ask for votes
	collides bool           // it takes an epoch because another node has its own
}

// A write is the end of a history.
type write struct {
	before *write
	offset int64
}

// has reports whether a history that ends with d has a write.
func (d *write) has(other *write) bool {
	for ; d != nil && other != nil && d.offset > other.offset; d = d.before {
	}
	return other == nil || d == other
}

type heldMessage struct {
	l     *Link
	p     []byte
	needs uint64
}

// An end is one host's end of a link.
type end struct {
	conn   *simnet.Conn
	silent bool // messages sent on it are lost
}

// opened is the first message on a link, sent by the host that accepts the link.
type opened struct{}

const (
	simulationTimeout = 2000
	simulationStart   = 1_700_000_000_000
)

// newSimulation returns hosts with a new node each. If files is not nil, it returns the nodes.conf with which host i
// starts.
func newSimulation(seed uint64, hosts int, files func(i int) string) *simulation {
	w := &simulation{net: simnet.New(seed, simulationStart), rng: rand.New(rand.NewPCG(seed, 77)),
		votes: map[vote]string{}, claims: map[uint64]*[slots.Count]*host{}, said: map[string]*[2056]byte{},
		trace: func(string, ...any) {}}
	for i := range hosts {
		h := &host{Host: w.net.Host(ip(i)), w: w, at: i, follows: -1, acked: map[int]*write{}}
		if files != nil {
			h.disk = files(i)
		}
		w.hosts = append(w.hosts, h)
		h.start()
	}
	return w
}

// since returns the ms since the simulation began.
func (w *simulation) since() int64 { return w.net.Now() - simulationStart }

// run runs the simulation for ms, or until a rule is broken.
func (w *simulation) run(ms int64) {
	for end := w.net.Now() + ms; w.net.Now() < end && w.wrong == ""; {
		w.net.Run(min(end, w.net.Now()+TickMs))
	}
}

func ip(i int) string { return fmt.Sprintf("10.0.0.%d", i+1) }

func (h *host) terms() Terms {
	return Terms{NodeTimeout: simulationTimeout, ReplicationPing: 1000, ValidityFactor: 10, MigrationBarrier: 1,
		AllowMigration: h.w.acks == 0, FullCoverage: true, ForgetSeconds: 60, ManualTimeout: 5000, Port: 7000, BusPort: 17000,
		MinAcks: h.minAcks()}
}

// minAcks is the setting as the node knows it.
func (h *host) minAcks() int64 {
	if h.w.bug == hasty {
		return 0
	}
	return h.w.acks
}

func (h *host) clock() int64 { return h.w.net.Now() + h.skew }

// start starts the node, with the file of its disk if there is one.
func (h *host) start() {
	proven := !h.withheld // when it ended
	h.held, h.pending, h.withheld, h.acked = nil, nil, false, map[int]*write{}
	h.granted, h.claiming, h.pausedMs = nil, 0, 0
	h.s = New(h, h.terms(), h.clock(), rand.New(rand.NewPCG(h.w.rng.Uint64(), uint64(h.at))))
	if h.disk == "" {
		h.s.Begin()
		save := h.s.Finish()
		h.disk, h.durable = string(save.Text), save.Count
	} else {
		if err := h.s.Load(h.disk); err != nil {
			h.w.fail("host %d cannot read its own file: %v\n%s", h.at, err, h.disk)
		}
		h.durable = 0
		h.s.Followed()
		h.follows = h.find(h.s.Me().Primary)
		switch {
		case h.w.acks == 0:
		case h.follows < 0:
			h.load(proven)
		default:
			h.unsure = true // its data may be of another primary's history
		}
	}
	h.heardMs = h.w.net.Now()
	h.Listen(17000, h.accept)
	var tick func()
	tick = func() {
		h.use(func() { h.s.Tick() })
		h.replicate()
		h.tickGrant()
		h.After(TickMs, tick)
	}
	h.After(h.w.rng.Int64N(TickMs), tick)
}

// load has a primary read its data: a snapshot that may lack its last writes, or a log. A log has an offset only after
// the good end of a primary that was proven.
func (h *host) load(proven bool) {
	h.log, h.whole = !h.w.older || h.forgets == 0 && h.w.rng.IntN(3) > 0, false
	switch {
	case !h.log:
		for ; h.forgets != 0 && h.data != nil; h.forgets-- {
			h.data = h.data.before
			h.offset = h.data.at()
		}
	case h.w.rng.IntN(2) == 0 && proven:
		h.whole = true
	default:
		h.offset = 0
	}
	h.loaded, h.forgets = h.offset, 0
}

// crash ends the node. Its disk may have a newer file than the node knew.
func (h *host) crash() {
	if n := h.w.rng.IntN(len(h.pending) + 1); n > 0 {
		h.disk = string(h.pending[n-1].Text)
	}
	h.w.trace("%d crash of host %d", h.w.since(), h.at)
	h.Crash()
}

// boot restarts the node if it is down.
func (h *host) boot() {
	if !h.Up() {
		h.w.trace("%d start of host %d", h.w.since(), h.at)
		h.Boot()
		h.start()
	}
}

func (h *host) find(n *Node) int {
	if n != nil {
		for i := range h.w.hosts {
			if h.w.hosts[i].Name == n.IP {
				return i
			}
		}
	}
	return -1
}

// do runs f, an operator's use of the state. It does nothing if the node is down or stopped.
func (h *host) do(f func()) {
	if h.Up() && !h.Paused() {
		h.use(f)
	}
}

// use runs f, a use of the state, and finishes it.
func (h *host) use(f func()) {
	replica, epoch := h.s.IsReplica(), h.s.me.Epoch
	if p := h.s.Me().Primary; p != nil && h.w.bug == sameEpoch {
		h.s.electionEpoch = p.Epoch
	}
	h.s.At(h.clock())
	f()
	if h.w.bug == generous {
		h.s.voted = 0
		for _, n := range h.s.nodes {
			n.votedMs = 0
		}
	}
	save := h.s.Finish()
	if h.s.me.Epoch != epoch {
		h.unheard = h.s.now >= h.s.rivalMs && !h.collides
	}
	h.collides = false
	if i := h.find(h.s.Me().Primary); h.w.moves && !replica && i >= 0 {
		h.checkFollows(h.w.hosts[i])
	}
	if replica && !h.s.IsReplica() {
		h.ledMs, h.ledEpoch = h.w.net.Now(), h.s.me.Epoch
		h.w.elections++
		h.leads = true
		h.checkHeir()
		if shard := h.at % 3; h.w.acks > 0 && !h.data.has(h.w.kept[shard]) {
			h.w.fail("host %d takes over at %d without a write that was confirmed at %d", h.at, h.offset,
				h.w.kept[shard].offset)
		}
	}
	if save != nil {
		h.pending = append(h.pending, save)
		h.After(1+h.w.rng.Int64N(20), func() { h.written(save) })
	}
	h.flush()
}

// written puts a save on the disk, after all earlier saves.
func (h *host) written(save *Save) {
	for i, p := range h.pending {
		if p == save {
			h.disk, h.durable, h.pending = string(save.Text), save.Count, h.pending[i+1:]
			h.flush()
			return
		}
	}
}

// flush sends the messages whose data are on disk.
func (h *host) flush() {
	for len(h.held) > 0 && (h.held[0].needs <= h.durable || h.w.bug == ungated) {
		m := h.held[0]
		h.held = h.held[1:]
		if e := m.l.Handle.(*end); !m.l.Closed() {
			h.w.check(h, m.p, e.conn.Remote)
			if h.lossy > 0 && h.w.rng.IntN(1000) < h.lossy {
				e.silent = true
			}
			if !e.silent {
				e.conn.Send(m.p)
			}
		}
	}
}

// replicate advances offsets: primaries get writes, and replicas follow.
func (h *host) replicate() {
	now := h.w.net.Now()
	if h.follows < 0 {
		if h.pausedMs < now {
			h.offset += h.w.rng.Int64N(100) // also keys that lapse while it does not serve
			if h.w.acks > 0 && h.s.OK() && !h.withheld && (h.data == nil || h.offset > h.data.offset) {
				h.data = &write{h.data, h.offset}
			}
		}
		return
	}
	if p := h.w.hosts[h.follows]; p.Up() && !p.Paused() && p.follows < 0 && h.w.net.Reaches(h.Host, p.Host) &&
		(!p.withheld || h.w.bug == trusting) {
		h.offset, h.heardMs, h.unsure = p.offset, now, false
		if h.w.acks > 0 {
			h.data = p.data
			h.confirm(p)
		}
	}
}

// confirm tells a primary what this host has. A write is confirmed when enough replicas have it.
func (h *host) confirm(p *host) {
	if h.hushed || p.s.IsReplica() {
		return
	}
	p.acked[h.at] = h.data
	var all []*write
	for _, d := range p.acked {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *write) int { return cmp.Compare(b.at(), a.at()) })
	if len(all) < int(h.w.acks) {
		return
	}
	shard := p.at % 3
	confirmed, kept := all[h.w.acks-1], h.w.kept[shard]
	if !confirmed.has(kept) && !kept.has(confirmed) {
		h.w.fail("host %d confirms a write at %d without one that was confirmed at %d", p.at, confirmed.at(), kept.at())
	}
	if confirmed.at() > kept.at() {
		h.w.kept[shard] = confirmed
	}
}

// at is the offset of a write; 0: there is none.
func (d *write) at() int64 {
	if d == nil {
		return 0
	}
	return d.offset
}

// received handles a message on a link. A malformed message fails the simulation.
func (h *host) received(l *Link, e *end, message any) {
	if l.Closed() || e.silent {
		return
	}
	p, is := message.([]byte)
	if !is {
		h.use(func() { h.s.Connected(l) })
		return
	}
	m, err := bus.Parse(p)
	if err != nil {
		h.w.fail("host %d cannot read a message: %v", h.at, err)
		return
	}
	h.use(func() { h.s.Receive(l, m) })
}

func (h *host) lost(l *Link, e *end) {
	if !l.Closed() && !e.silent {
		h.use(func() { h.s.Lost(l) })
	}
}

func (h *host) accept(c *simnet.Conn) {
	e := &end{conn: c}
	l := h.s.Accept(c.Remote.Name, c.Local.Name, e, nil)
	c.Handle(func(message any) { h.received(l, e, message) }, func() { h.lost(l, e) })
	c.Send(opened{})
}

// A host implements the state's Outside.

func (h *host) Dial(l *Link) {
	e := &end{}
	l.Handle, l.Peer, l.Local = e, l.Node.IP, h.Name
	e.conn = h.Host.Dial(l.Node.IP, l.Node.BusPort, func(message any) { h.received(l, e, message) },
		func() { h.lost(l, e) })
}

func (h *host) Send(l *Link, p []byte, needs uint64) {
	h.held = append(h.held, heldMessage{l, p, needs})
}
func (h *host) HangUp(l *Link)  { l.Handle.(*end).conn.Close() }
func (h *host) Keys(int) int    { return 1 }
func (h *host) Mark(int)        {}
func (h *host) Marked(int) bool { return true }
func (h *host) Offset() int64 {
	if h.unsure && h.w.acks > 0 && h.w.bug != assured {
		return 0
	}
	return h.offset
}
func (h *host) Confirm(on bool) {
	h.hush = !on
	if !on {
		h.hushed = h.w.bug != talkative
		return
	}
	h.After(3, func() { h.hushed = h.hushed && h.hush }) // after the errands
}
func (h *host) Loaded() (offset int64, isLog, whole bool) { return h.loaded, h.log, h.whole }
func (h *host) DataAge() int64                            { return h.w.net.Now() - h.heardMs }

func (h *host) Log(level logging.Level, format string, args ...any) {
	h.collides = h.collides || strings.Contains(format, "configEpoch collision")
	line := fmt.Sprintf("%d host %d: ", h.w.since(), h.at) + fmt.Sprintf(format, args...)
	h.w.note([]byte(line))
	h.w.trace("%s", line)
}

func (h *host) Ask(e Errand) {
	if e.Kind == Withhold {
		h.withheld = true // in the turn of the start
		return
	}
	h.After(h.w.rng.Int64N(3), func() {
		switch e.Kind {
		case Follow:
			h.follows, h.unsure, h.withheld = h.find(&Node{IP: e.Host}), true, false
		case Promote:
			h.follows, h.acked, h.unsure = -1, map[int]*write{}, false
			h.use(func() { h.s.Promoted() })
		case Lead:
			if h.withheld = false; e.Offset != 0 {
				h.offset = e.Offset
			}
			if kept := h.w.kept[h.at%3]; h.w.acks > 0 && !h.data.has(kept) && !h.replaced() {
				h.w.fail("host %d leads again without a write that was confirmed at %d", h.at, kept.at())
			}
			h.use(func() { h.s.Led() })
		case Taken:
			e.Done()
		case Pause:
			if h.granted != nil || h.claiming > 0 {
				return
			}
			h.pausedMs = h.w.net.Now() + 2*h.terms().ManualTimeout
			h.use(func() { h.s.Paused() })
		case Unpause:
			h.pausedMs = 0
		}
	})
}

// replaced reports whether another host of the shard has taken over.
func (h *host) replaced() bool {
	return slices.ContainsFunc(h.w.hosts, func(o *host) bool {
		return o != h && o.at%3 == h.at%3 && !o.s.IsReplica()
	})
}

// note adds p to the simulation's hash.
func (w *simulation) note(p []byte) {
	w.events = fnv64a(fnv64a(0xcbf29ce484222325, binary.BigEndian.AppendUint64(make([]byte, 0, 8), w.events)), p)
}

// fnv64a extends a hash with p.
func fnv64a(sum uint64, p []byte) uint64 {
	for _, c := range p {
		sum = (sum ^ uint64(c)) * 0x100000001b3
	}
	return sum
}

// check checks a message from a host against the rules that no fault may break. to is the receiver.
func (w *simulation) check(from *host, p []byte, to *simnet.Host) {
	w.note(p[12:80])
	sender, epoch := string(p[40:80]), binary.BigEndian.Uint64(p[24:])
	switch bus.Type(binary.BigEndian.Uint16(p[12:])) {
	case bus.VoteRequest:
		w.requests++
	case bus.Vote:
		v := vote{sender, binary.BigEndian.Uint64(p[16:])}
		if before := w.votes[v]; before != "" && before != to.Name {
			w.fail("%s has voted in epoch %d for %s and for %s", sender, v.epoch, before, to.Name)
		}
		w.votes[v] = to.Name
	}
	if binary.BigEndian.Uint16(p[2250:])&uint16(bus.Primary) == 0 {
		return
	}
	said := w.said[sender]
	if said == nil {
		said = new([2056]byte)
		w.said[sender] = said
	} else if string(said[:8]) == string(p[24:32]) && string(said[8:]) == string(p[80:2128]) {
		return
	}
	copy(said[:8], p[24:32])
	copy(said[8:], p[80:2128])
	if w.moves {
		return
	}
	owners := w.claims[epoch]
	if owners == nil {
		owners = new([slots.Count]*host)
		w.claims[epoch] = owners
	}
	claimed := bus.Bitmap(p[80:2128])
	for slot := claimed.Next(0, true); slot < slots.Count; slot = claimed.Next(slot+1, true) {
		if other := owners[slot]; other != nil && other != from {
			w.fail("slot %d is claimed with epoch %d by %s and by %s", slot, epoch, other.Name, from.Name)
			return
		}
		owners[slot] = from
	}
}

func (w *simulation) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf("at %d: ", w.since()) + fmt.Sprintf(format, args...)
	}
}

// disagreement describes how the nodes differ about owners of slots, epochs and primaries. It returns "" if they agree.
func (w *simulation) disagreement() string {
	var first *host
	for _, h := range w.hosts {
		if !h.Up() {
			continue
		}
		if first == nil {
			first = h
		}
		if len(h.s.nodes) != len(first.s.nodes) {
			return fmt.Sprintf("host %d knows %d nodes, host %d knows %d", h.at, len(h.s.nodes), first.at, len(first.s.nodes))
		}
		for _, n := range h.s.nodes {
			o := first.s.byID[n.ID]
			const kind = bus.Primary | bus.Replica
			if o == nil || n.Flags&kind != o.Flags&kind || (n.Primary == nil) != (o.Primary == nil) ||
				n.Primary != nil && n.Primary.ID != o.Primary.ID || n.slots != o.slots || n.NumSlots > 0 && n.Epoch != o.Epoch {
				return fmt.Sprintf("host %d: %s\nhost %d: %s", h.at, h.line(n), first.at, first.line(o))
			}
		}
	}
	return ""
}

func (h *host) line(n *Node) string {
	if n == nil {
		return "unknown"
	}
	return h.s.Line(n, false)
}

// unwell names a node that reports the cluster, or another node, as failed.
func (w *simulation) unwell() string {
	for _, h := range w.hosts {
		if !h.Up() {
			return fmt.Sprintf("host %d is down", h.at)
		}
		if !h.s.OK() {
			return fmt.Sprintf("host %d calls the cluster failed", h.at)
		}
		for _, n := range h.s.nodes {
			if n.is(bus.Failed | bus.MaybeFailed | bus.Handshake) {
				return fmt.Sprintf("host %d: %s", h.at, h.line(n))
			}
		}
	}
	return ""
}

// nodesConf returns the file with which host i starts. The cluster has hosts nodes, of which the first are the
// primaries.
func nodesConf(i, hosts, primaries int) string {
	id := func(i int) string { return fmt.Sprintf("%040x", 0x1000+(i*7919)%4096) }
	var b strings.Builder
	for j := range hosts {
		flags, primary, epoch := "master", "-", j+1
		if j >= primaries {
			flags, primary, epoch = "slave", id(j%primaries), j%primaries+1
		}
		if i == j {
			flags = "myself," + flags
		}
		fmt.Fprintf(&b, "%s %s:7000@17000,,tls-port=0,shard-id=%040d %s %s 0 0 %d connected", id(j), ip(j), j%primaries,
			flags, primary, epoch)
		if j < primaries {
			fmt.Fprintf(&b, " %d-%d", j*slots.Count/primaries, (j+1)*slots.Count/primaries-1)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "vars currentEpoch %d lastVoteEpoch 0\n", primaries)
	return b.String()
}
