// Package slotmove moves hash slots to other nodes as a whole, and takes them from others.
//
// Owner: the turn has the moves and their states. Each move away has two goroutines that talk to the target.
// Never: waits for a peer inside a turn, or lets a client see a key of a move that is not over.
// Start here: DESIGN.md is the plan; source.go gives slots away, wire.go talks to the target, target.go takes slots.
package slotmove

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/part"
	"spindle/internal/logging"
	"spindle/protocol"
)

// A Cluster is this node's knowledge of the others. All methods are the turn's and do not wait.
type Cluster interface {
	Me() string    // this node's ID
	Shard() string // the ID of this node's primary; its own ID if it is one
	// Peer returns where another node is replicated from. label is its human name; it may be empty.
	Peer(id string) (host string, port int, label string, known bool)
	// Owner returns the ID of the one owner of all slots of a list; "" if there is none.
	Owner(slots ...uint16) string
	// Manual reports whether an operator moves single slots away or here by SETSLOT.
	Manual() (away, here bool)
	// Leftovers returns the slots that other nodes have taken, and that still have keys here. They are being removed.
	Leftovers() []uint16
	// Leaving reports whether the removal waits for replicas, which must hear first that the slots have left.
	Leaving() bool
	// Epoch returns the config epoch of another node.
	Epoch(id string) uint64
	// Claim makes this node the owner of slots of another node, with an epoch above all others. It returns false, and
	// changes nothing, unless from owns them with epoch, and it is not later than untilMs (steady). The same holds if
	// Contested reports true. done is called in a turn, while no unit is open, when from knows
	// of the claim or this node has lost the slots. If the bus has marked from as failed for a while, Claim calls done
	// before it returns. Between only.
	Claim(list []uint16, from string, epoch uint64, untilMs int64, done func()) bool
	// Contested reports whether a replica of this node may be elected, or takes over.
	Contested() bool
	// Saved reports whether all claims are on disk. If not, done is called when they are, by any goroutine.
	Saved(done func()) bool
	// Reclaim raises this node's epoch, so that its claim to slots beats one that was made before. It first asks a
	// majority of primaries for a new owner of the slots. done is called in a turn, while no unit is open, when the epoch
	// is raised, or this node has lost a slot. Between only.
	Reclaim(list []uint16, done func())
}

// Parts connect a Mover to its server.
type Parts struct {
	Core     *engine.Core
	Space    *keyspace.Keyspace
	Cluster  Cluster
	Settings *Settings
	Log      *logging.Logger
	Dial     func(ctx context.Context, address, source string) (net.Conn, error)
	Source   func() string                  // bind-source-addr
	Login    func() (user, password string) // masteruser, masterauth
	Patience func() time.Duration           // repl-timeout
	Hold     func() time.Duration           // cluster-manual-failover-timeout
	Output   func() int64                   // the hard limit of replicas' output, bytes; 0: none
	Newest   func() bgsave.Version          // the RDB version that payloads may be of at most
	Busy     func()                         // called when a move begins or ends
	// Sync has the disk take everything in the log. done is called in this turn or a later one. why is "" if it has, or
	// if no log is kept.
	Sync func(done func(why string))
	// Lacks returns why the log cannot have the data set on disk, as long as it waits for its first base. "" if it can.
	Lacks func() (why string)
	// Acked calls done, in this turn or a later one, when level replicas have all data of now. ok is false if too few
	// have them in time.
	Acked func(level int, done func(ok bool))
}

// A Mover has the moves of this node. Turn only.
type Mover struct {
	parts   Parts
	core    *engine.Core
	log     *logging.Logger
	jobs    []*job // the latest first
	tasks   []*task
	replica bool // what noteRole saw last
	stopped bool
	acks    int // ticks until the next ACKs

	imported uint64        // bytes that ended imports have brought
	exported atomic.Uint64 // bytes written to targets; any goroutine
}

// New returns a Mover with these parts.
func New(p Parts) *Mover { return &Mover{parts: p, core: p.Core, log: p.Log} }

// Listeners returns the events that the Mover follows.
func (m *Mover) Listeners() part.Listeners {
	return part.Listeners{
		Order: part.Later, Tick: func(int64) { m.tick() }, Gone: m.gone, Diverged: m.failedCommand,
		Emptying: func(int) { m.flushed() }, Swapping: func(int, int) { m.flushed() },
	}
}

// Need reports whether moves need a thread beside the loops'. Turn only.
func (m *Mover) Need() part.Need {
	for _, j := range m.jobs {
		if j.wire != nil {
			return part.Laden
		}
	}
	return part.Idle
}

// A job is one move as this node sees it.
type job struct {
	name           string
	export         bool
	ranges         ranges
	list           []uint16
	source, target string // node IDs; empty in a job that only tracks
	what           string // for the log
	state          state
	message        string
	tracking       bool // it happens on our primary, or did before a restart

	createdAt, updatedAt, ackedAt int64 // Unix seconds
	beganMs                       int64 // steady, when clients of the slots were first held; 0: never
	pausedMs                      int64 // for how long they were

	// An import:
	cl          *client.Client // brings the keys; nil: it has left
	readBefore  uint64         // bytes that cl had sent before
	heardMs     int64          // steady
	waitsMs     int64          // steady, since when REQUEST-PAUSE waits (slotmove.T7); 0: it does not
	requestedMs int64          // steady, when the hand-over was asked for
	epoch       uint64         // the source's at that time
	after       state          // cleaningUp ends in it

	// An export:
	wire    *wire
	acks    int    // replicas that clients may wait for at most, as the target knows (slotmove.T6)
	pausing bool   // tryPause waits for the end of a unit
	unlatch func() // nil: clients are not held
	untilMs int64  // steady, when they are let go, or after a grant: when this node begins to reclaim the slots

	reclaiming, reclaimed bool // it keeps the slots: it has begun to reclaim them, or it has ended that (slotmove.S4)
}

// A state is where a job is.
type state uint8

const (
	importWaitAck state = iota
	importReceiving
	importWaitPaused
	importRequested
	importGranted
	importCleaning
	importElsewhere

	exportConnecting
	exportSendAuth
	exportReadAuth
	exportSendEstablish
	exportReadEstablish
	exportWaitSnapshot
	exportSnapshotting
	exportStreaming
	exportWaitPause
	exportPaused
	exportGranted

	failed
	cancelled
	success
)

// String is the state in replies and log lines.
func (s state) String() string {
	return [...]string{"waiting-for-ack", "receiving-snapshot", "waiting-for-paused", "failover-requested",
		"failover-granted", "cleaning-up", "occurring-on-primary", "connecting", "sending-auth-command",
		"reading-auth-response", "sending-establish-command", "reading-establish-response", "waiting-to-snapshot",
		"snapshotting", "replicating", "waiting-to-pause", "failover-paused", "failover-granted", "failed", "cancelled",
		"success"}[s]
}

// finished reports whether the job is only history.
func (j *job) finished() bool { return j.state >= failed }

// running reports whether the job may still succeed.
func (j *job) running() bool { return !j.finished() && j.state != importCleaning }

// newName returns a random ID of 40 hex digits.
func newName() string {
	const digits = "0123456789abcdef"
	var b [nameBytes]byte
	for i := range b {
		b[i] = digits[rand.IntN(16)]
	}
	return string(b[:])
}

// nameBytes is the length of nodes' and jobs' names.
const nameBytes = 40

// add makes j the latest job.
func (m *Mover) add(j *job) {
	other, word := j.source, "source_node"
	kind := "import"
	if j.export {
		other, word, kind = j.target, "target_node", "export"
	}
	human := ""
	if other == "" {
		other = "unknown"
	} else if _, _, label, _ := m.parts.Cluster.Peer(other); label != "" {
		human = ", " + word + "_human_name: " + label
	}
	j.what = "{name: " + j.name + ", operation: " + kind + ", " + word + "_id: " + other + human + ", slots: " +
		j.ranges.String() + "}"
	j.createdAt = m.core.Now() / 1000
	j.updatedAt, j.ackedAt = j.createdAt, j.createdAt
	m.jobs = append([]*job{j}, m.jobs...)
}

// find returns the job with a name, or nil.
func (m *Mover) find(name string) *job {
	for _, j := range m.jobs {
		if j.name == name {
			return j
		}
	}
	return nil
}

// enter moves a job to a state.
func (m *Mover) enter(j *job, s state) {
	m.log.Notice("Slot migration %s state transition: %s -> %s", j.what, j.state, s)
	j.state, j.updatedAt = s, m.core.Now()/1000
}

// busy returns the jobs of a kind that are not over.
func (m *Mover) busy(export bool) (list []*job) {
	for _, j := range m.jobs {
		if j.export == export && !j.finished() {
			list = append(list, j)
		}
	}
	return list
}

// moving returns the first of the slots that a job of a kind has already.
func (m *Mover) moving(list []uint16, export bool) (slot uint16, any bool) {
	for _, j := range m.busy(export) {
		for _, slot := range list {
			if j.ranges.has(slot) {
				return slot, true
			}
		}
	}
	return 0, false
}

// end ends a job. An import that failed on a primary first removes the keys that have come.
func (m *Mover) end(j *job, s state, message string) {
	if !j.running() || j.state == importGranted && s != success { // the slots are this node's
		return
	}
	j.message = message
	if j.export {
		if j.state == exportGranted && s != success && !j.reclaimed && !m.parts.Space.Replica &&
			m.owner(j) == m.parts.Cluster.Me() {
			m.giveUp(j)
			return
		}
		m.letGo(j)
	}
	if cl := m.release(j); cl != nil {
		m.core.Kill(cl, cl == m.core.Current())
	}
	if !j.export && s != success && !m.core.Loading() {
		if m.parts.Space.Replica {
			m.track(j)
			return
		}
		j.after = s
		m.enter(j, importCleaning)
		m.clean(j)
		return
	}
	m.enter(j, s)
	m.ended(j)
}

// ended writes down how a job ended. An import's slots are hidden no more.
func (m *Mover) ended(j *job) {
	level, message := logging.LevelNotice, j.message
	if j.state == failed {
		level = logging.LevelWarning
	}
	if message == "" {
		message = "none"
	}
	m.log.At(level, "Slot migration %s finished. State: %s, Message: %s", j.what, j.state, message)
	if !j.export {
		m.show(j.list)
		if !m.parts.Space.Replica {
			m.tellEnd(j)
		}
	}
	m.parts.Busy()
}

// show shows hidden slots. Their keys count as changes again: a file that was saved in between does not have them.
func (m *Mover) show(list []uint16) {
	keys := 0
	for _, slot := range list {
		if m.parts.Space.Hides(slot) {
			keys += m.parts.Space.StoredInSlot(slot)
		}
	}
	m.hide(list, false)
	m.core.Changed(keys)
}

// hide hides slots, or shows them again. An open unit would see their keys leave or come.
func (m *Mover) hide(list []uint16, hidden bool) {
	m.core.AssertWhole("slots are hidden or shown")
	m.parts.Space.Hide(list, hidden)
}

// tellEnd tells replicas and the log how an import ended.
func (m *Mover) tellEnd(j *job) { m.core.Effect(engine.AnyDB, m.finishOf(j, j.message)...) }

// finishOf returns the FINISH of an import. If this node's shard has kept keys, others must not remove theirs. A
// replica may know of its primary's claim before the stream brings FINISH.
func (m *Mover) finishOf(j *job, message string) [][]byte {
	word, shard := "FAILED", m.parts.Cluster.Shard()
	if j.state == success || slices.ContainsFunc(j.list, func(slot uint16) bool {
		return m.parts.Cluster.Owner(slot) == shard
	}) {
		word = "SUCCESS"
	}
	args := [][]byte{[]byte("CLUSTER"), []byte("SYNCSLOTS"), []byte("FINISH"), []byte("STATE"), []byte(word),
		[]byte("NAME"), []byte(j.name)}
	if message != "" {
		args = append(args, []byte("MESSAGE"), []byte(message))
	}
	return args
}

// Ends returns the commands that complete a copy of the log as of now. A server that loads the copy then has the keys
// of this node's slots and no part of another slot, whatever its nodes.conf says. Turn only.
func (m *Mover) Ends() (commands []byte) {
	for _, j := range m.busy(false) {
		commands = protocol.AppendCommand(commands, m.finishOf(j, "The backup was sealed during the move"))
	}
	if left := m.parts.Cluster.Leftovers(); len(left) > 0 {
		args := [][]byte{[]byte("CLUSTER"), []byte("SYNCSLOTS"), []byte("DROP"), []byte("SLOTSRANGE")}
		for _, slot := range left {
			args = append(args, number(slot), number(slot))
		}
		commands = protocol.AppendCommand(commands, args)
	}
	return commands
}

// noteRole handles a change of this server's role. Each event of a move calls it first, because a new primary's stream
// or copy may come before the next tick.
func (m *Mover) noteRole() {
	if m.replica != m.parts.Space.Replica {
		m.replica = m.parts.Space.Replica
		m.roleChanged()
	}
}

// tick runs ten times a second.
func (m *Mover) tick() {
	m.noteRole()
	m.acks = (m.acks + 1) % acksEvery
	now := m.core.SteadyMs()
	for _, j := range append([]*job(nil), m.jobs...) {
		switch {
		case !j.running():
		case j.export:
			m.tickExport(j, now)
		case j.state != importElsewhere:
			m.tickImport(j, now)
		case !m.replica && !m.core.Loading(): // it was a replica for less than a tick
			m.settle(j, "A failover occurred during slot import")
		}
	}
	for _, t := range m.tasks {
		m.tickTask(t, m.core.Now())
	}
	m.forgetOld()
}

// acksEvery is the number of ticks from one ACK to the next.
const acksEvery = 10

// forgetOld drops the oldest of the jobs that are over, and of the tasks.
func (m *Mover) forgetOld() {
	most := int(m.parts.Settings.LogMost.Get())
	for i := len(m.jobs) - 1; i >= 0 && len(m.jobs) > most; i-- {
		if m.jobs[i].finished() {
			m.jobs = append(m.jobs[:i], m.jobs[i+1:]...)
		}
	}
	for len(m.tasks) > max(most, 1) && m.tasks[len(m.tasks)-1].over() {
		m.tasks = m.tasks[:len(m.tasks)-1]
	}
}

// roleChanged handles a change of this server's role.
func (m *Mover) roleChanged() {
	for _, j := range append([]*job(nil), m.jobs...) {
		switch {
		case !j.running():
			if m.replica && j.state == importCleaning { // the new primary removes the keys
				m.enter(j, importElsewhere)
				j.tracking = true
			}
		case j.export && m.replica && m.owner(j) == j.target: // the source of its last slot follows the target
			m.movedExport(j)
		case j.export && m.replica:
			m.end(j, failed, "A failover occurred during slot export")
		case m.replica:
			m.track(j)
		case !m.core.Loading():
			m.settle(j, "A failover occurred during slot import")
		}
	}
}

// settle ends an import that another server, or an earlier process, has begun. It succeeded if this node owns its
// slots. While a unit is open, or writes are held for a failover, it does not end: a later tick calls settle again.
func (m *Mover) settle(j *job, why string) {
	switch {
	case m.owner(j) != m.parts.Cluster.Me():
		m.end(j, failed, why)
		return
	case m.core.Lent():
		return
	}
	if m.show(j.list); m.core.FailsOver() {
		return
	}
	m.enter(j, success)
	m.ended(j)
}

// release forgets the client of an import, and counts what it has brought.
func (m *Mover) release(j *job) (cl *client.Client) {
	if cl = j.cl; cl != nil {
		j.cl = nil
		m.imported += cl.InputBytes - j.readBefore
	}
	return cl
}

// track makes an import one that our primary runs.
func (m *Mover) track(j *job) {
	if j.state != importElsewhere {
		m.enter(j, importElsewhere)
	}
	j.tracking = true
	if cl := m.release(j); cl != nil {
		m.core.Kill(cl, cl == m.core.Current())
	}
}

// flushed ends all moves, because the data set is about to be removed or replaced. If a command of our primary or of a
// log does that, keys of other databases may stay: FINISH will come when they are removed.
func (m *Mover) flushed() {
	m.noteRole()
	cl := m.core.Current()
	told := cl != nil && cl.Is(client.Primary)
	for _, j := range append([]*job(nil), m.jobs...) {
		switch {
		case !j.running(), j.tracking && told:
		case j.tracking:
			j.message = "Full resynchronization occurred"
			m.enter(j, failed)
			m.log.Warning("Slot migration %s finished. State: %s, Message: %s", j.what, j.state, j.message)
			m.hide(j.list, false)
		default:
			m.end(j, failed, "Data was flushed")
		}
	}
}

// gone is told of each client that has left.
func (m *Mover) gone(cl *client.Client) {
	if !cl.Is(client.Importing) {
		return
	}
	for _, j := range m.jobs {
		if j.cl == cl {
			m.release(j)
			m.log.Notice("Slot migration %s connection lost", j.what)
			if j.state != importGranted {
				m.end(j, failed, "Connection lost to source. Check CLUSTER GETSLOTMIGRATIONS on the source node for more "+
					"information.")
			}
			return
		}
	}
}

// failedCommand is told of each command of a move's source that failed here.
func (m *Mover) failedCommand(cl *client.Client, spec *command.Spec, err error) {
	if !cl.Is(client.Importing) {
		return
	}
	for _, j := range m.jobs {
		if j.cl != cl || !j.running() {
			continue
		}
		name := "?"
		if spec != nil {
			name = spec.Full
		}
		m.log.Warning("A command of slot migration %s failed here: '%s': %s", j.what, name, err)
		message := "Failed to process command during slot migration. Check logs for more information"
		if isOOM(err) {
			m.log.Warning("Slot migration %s failed due to OOM", j.what)
			message = "Ran out of memory (OOM) during slot import"
		}
		m.core.Later(func() { m.end(j, failed, message) })
		return
	}
}

// Moved is told that the map of slots has changed. If a replica is promoted, Moved also runs in the turn in which the
// map comes into use. Turn only.
func (m *Mover) Moved() {
	for _, j := range append([]*job(nil), m.jobs...) {
		switch {
		case !j.running():
		case j.export:
			m.movedExport(j)
		case !j.tracking:
			m.movedImport(j)
		case !m.parts.Space.Replica && !m.core.Loading() && m.owner(j) == m.parts.Cluster.Me():
			m.settle(j, "") // a replica that takes over with the slots shows them at once (slotmove.T1)
		}
	}
}

// isMine reports whether this node owns a slot.
func (m *Mover) isMine(slot uint16) bool { return m.parts.Cluster.Owner(slot) == m.parts.Cluster.Me() }

// owner returns the ID of the one owner of all slots of a job; "" if there is none.
func (m *Mover) owner(j *job) string { return m.parts.Cluster.Owner(j.list...) }

// Loaded ends the moves that the log did not see end. Turn only, when the data set is loaded and before the bus runs.
func (m *Mover) Loaded() {
	m.replica = m.parts.Space.Replica
	for _, j := range append([]*job(nil), m.jobs...) {
		if !j.running() || j.export || m.replica {
			continue
		}
		m.settle(j, "Process restarted") // nodes.conf may have the claim
	}
}

// Stop ends the goroutines of all moves.
func (m *Mover) Stop() {
	m.core.Do(func() {
		m.stopped = true
		for _, j := range m.jobs {
			if j.wire != nil {
				j.wire.close()
			}
		}
	})
}

// ExportBytes is the memory of changes that wait for targets. Turn only.
func (m *Mover) ExportBytes() (n int64) {
	for _, j := range m.jobs {
		if j.wire != nil {
			n += int64(j.wire.waiting())
		}
	}
	return n
}

// ImportBytes is the memory of the connections that bring keys. Turn only.
func (m *Mover) ImportBytes() (n int64) {
	for _, j := range m.jobs {
		if j.cl != nil {
			n += int64(j.cl.Conn.Usage().Total + j.cl.OwnBytes())
		}
	}
	return n
}

// Imported is the number of bytes that moves have brought here since the start. Turn only.
func (m *Mover) Imported() int64 {
	n := m.imported
	for _, j := range m.jobs {
		if j.cl != nil {
			n += j.cl.InputBytes - j.readBefore
		}
	}
	return int64(n)
}

// Exported is the number of bytes that were written to targets of moves since the start. Any goroutine.
func (m *Mover) Exported() int64 { return int64(m.exported.Load()) }
