// Package replication streams the core's effects to replicas: full synchronisation from a view, then every effect in
// order.
//
// Owner: the core calls Feed inside its turns; a sender goroutine per full synchronisation reads a view and nothing
// else.
// Never: blocks a turn (R5), or keeps more for a replica than its output limit allows.
// Start at feed.go; backlog.go keeps the stream's end, partial.go continues from it, fullsync.go sends the view,
// forms.go knows what some replicas cannot read.
// commands.go is SYNC, PSYNC, REPLCONF, WAIT and ROLE.
package replication

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync/atomic"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/protocol"
)

// Feed is the sink that replicas hang on. It is told of effects only while there is a backlog: from the first replica
// on, until repl-backlog-ttl after the last.
//
// replication.F1. offset counts every byte of the stream that has been made, whether or not anybody has got it.
// replication.F2. What a turn adds is one slice of chunk, shared by all replicas and never written again.
// replication.F3. A replica that does not get the stream as it comes has it up to its own offset. The backlog keeps
// everything from the lowest of these on, once for all. How far one may lag is bounded by the output limit of replicas.
type Feed struct {
	core     *engine.Core
	settings *Settings
	saver    Saver
	replicas []*replica
	log      *backlog  // nil: nobody has followed, or not for long; then the core does not know this sink
	groups   [2]*group // the full synchronisations that are under way: with a length, with an EOF mark; nil: none

	follower  *Follower
	following bool // the stream is a primary's

	ID           string // 40 hex digits: names the history of this data set
	ID2          string // names the history that this one goes on from; noID: none
	secondOffset int64  // the first offset that the history ID2 may not be asked for; -1: none
	offset       int64
	shown        atomic.Int64 // offset, for Offset
	idleSinceMs  int64        // when the last replica left
	beginning    bool         // a file is loaded, whose lapsed keys are the stream's beginning
	selected     int          // the database the stream stands in; -1: the next effect must say
	chunk        []byte       // chunkBytes at a time; bytes before sent are shared and immutable
	sent         int

	lastPingMs         int64
	hushed             bool // the server waits for replicas to catch up
	still              bool // the offset stands still: a replica takes over at it
	waits, diskWaits   waits
	parser             protocol.Parser  // of effects that may be special
	specialAt          int64            // where the last one begins in the stream, counted from 1; 0: there was none
	tooOld             map[Address]bool // replicas that were closed because of one: they need a full copy
	acks               bool             // a replica has told how far it is in this turn
	asking             bool             // somebody wants to know: the replicas are asked at the end of this turn
	fullSyncs, refused uint64
	continued          uint64 // partial synchronisations
	outLimit           uint64 // replicas closed for what was held for them
	// Bytes given to loops for replicas, streams and effects, but for those that went with a connection.
	posted    atomic.Int64
	sentBytes int64 // of them, what has been told as written
	sentRate  engine.Rate
}

// chunkBytes is the unit in which the stream's memory is taken from the Go heap. A chunk lives until the slowest
// replica has it.
const chunkBytes = 64 << 10

// A state is how far a replica is.
type state uint8

const (
	handshake state = iota // REPLCONF seen, nothing asked for yet
	waiting                // for the next view
	sending                // the view is on its way
	awaitAck               // the view has left; the stream begins when the replica says that it has loaded it
	online
)

func (s state) String() string {
	switch s {
	case online:
		return "online"
	case waiting:
		return "wait_bgsave"
	}
	return "send_bulk"
}

// A replica is one client that takes the stream.
type replica struct {
	cl          *client.Client
	state       state
	port        int    // REPLCONF listening-port
	addr        string // REPLCONF ip-address
	eof, psync2 bool   // REPLCONF capa
	rdbOnly     bool
	reads       Forms  // REPLCONF capa: what it has said that it reads
	lacks       Forms  // what it cannot read, by its version and modules
	version     string // "": unknown
	asked       bool   // it was asked for them
	answered    bool   // and has answered, or will not
	met         Find   // what came before the answer
	searchedAt  int64  // the data of this offset, counted from 1, hold nothing that it lacks; 0: nobody has looked
	refusedMs   int64  // since when its full copy is refused, or the data are searched; 0: it is not
	refusal     string // what it is told then
	loaded      bool   // it has said so, which may come here before word that the view has left
	filter      Filter
	psync       bool            // it asked by PSYNC: +FULLRESYNC comes before the view
	answer      *protocol.Reply // where that goes while its command runs; nil: it is posted
	askedMs     int64           // when it began to wait for a view
	// The offset up to which its loop has the stream (replication.F3); live: it gets it as it comes.
	at         int64
	unseen     int // bytes given to its loop since somebody looked how many are unsent
	ackOffset  int64
	diskOffset int64         // what it has fsynced, by FACK; -1: it has never said
	ackMs      int64         // when it was heard last; this and all times here are by clock.Steady, but for activeMs
	activeMs   int64         // what its connection said of its last bytes, in Unix ms: only whether it changes counts
	blankMs    int64         // when a look found that changed
	softSince  int64         // when what it lacks passed the soft limit; 0: it is below
	gone       chan struct{} // closed when the client is
}

// NewFeed makes a feed with a history of its own.
func NewFeed(core *engine.Core, settings *Settings, saver Saver) *Feed {
	f := &Feed{core: core, settings: settings, saver: saver, selected: -1, waits: newWaits(), diskWaits: newWaits(),
		tooOld: map[Address]bool{}}
	f.ID = newID()
	f.forgetID2()
	return f
}

// newID is a fresh history's name.
func newID() string {
	var raw [20]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// ChangeID is DEBUG CHANGE-REPL-ID.
func (f *Feed) ChangeID() { f.ID = newID() }

// noID stands for no history.
const noID = "0000000000000000000000000000000000000000"

// forgetID2 says that this history goes on from no other.
func (f *Feed) forgetID2() { f.ID2, f.secondOffset = noID, -1 }

// branch begins a new history that goes on from the one there is: who has followed that one may go on up to here, and
// no further.
func (f *Feed) branch() {
	f.ID2, f.secondOffset = f.ID, f.offset+1
	f.ChangeID()
}

// open has the stream flow into a backlog, unless it does. Then it is a new history: what was written meanwhile moved
// no offset. A replica of then and one of now would hold different data under one name and offset.
func (f *Feed) open() {
	if f.log != nil {
		return
	}
	f.ChangeID()
	f.forgetID2()
	f.keep()
}

// keep begins a backlog at the stream's end.
func (f *Feed) keep() {
	f.log = newBacklog(f.settings.BacklogSize.Get(), f.offset)
	f.selected, f.idleSinceMs = -1, f.core.SteadyMs()
	f.core.AddSink(f, client.ToReplicas)
}

// ResizeBacklog follows repl-backlog-size.
func (f *Feed) ResizeBacklog() {
	if f.log != nil {
		f.log.resize(f.settings.BacklogSize.Get())
		f.noteBacklog()
	}
}

// noteBacklog tells the core what the stream costs.
func (f *Feed) noteBacklog() {
	bytes, _ := f.StreamBytes()
	f.core.NoteStream(bytes, f.settings.BacklogSize.Get())
}

// StreamBytes is the memory that the kept stream takes, and how much of it is past repl-backlog-size, for replicas
// that have not got it yet. Turn only.
func (f *Feed) StreamBytes() (all, excess int64) {
	if f.log == nil {
		return 0, 0
	}
	return f.log.bytes(), f.log.excess()
}

// dropBacklog ends a stream that nobody has followed for repl-backlog-ttl.
func (f *Feed) dropBacklog(nowMs int64) {
	ttl := f.settings.BacklogTTL.Get()
	if f.log == nil || f.following || f.beginning || len(f.replicas) > 0 || ttl == 0 || nowMs-f.idleSinceMs <= ttl*1000 {
		return
	}
	f.ChangeID()
	f.forgetID2()
	f.flush()
	f.log.free()
	f.log = nil
	f.noteBacklog()
	f.core.RemoveSink(f)
	f.settings.Log.Notice("Replication backlog freed after %d seconds without connected replicas.", ttl)
}

// Take implements engine.Sink.
func (f *Feed) Take(unit []engine.Effect) {
	for _, e := range unit {
		if e.DB != engine.AnyDB && e.DB != f.selected {
			f.selected = e.DB
			db := strconv.Itoa(e.DB)
			f.write(protocol.AppendCommand(nil, [][]byte{[]byte("SELECT"), []byte(db)}))
		}
		f.spotEffect(e.DB, e.Command)
		f.write(e.Command)
	}
}

// write appends p to the stream.
func (f *Feed) write(p []byte) {
	f.offset += int64(len(p))
	f.shown.Store(f.offset)
	if len(f.chunk)+len(p) > cap(f.chunk) {
		f.flush()
		f.chunk = make([]byte, 0, max(chunkBytes, len(p)))
		f.sent = 0
	}
	f.chunk = append(f.chunk, p...)
}

// TurnDone implements engine.Sink: what the turn added leaves in one piece. Replicas are asked at most once a turn
// how far they are, and waiting clients are looked at once, however many acknowledgements came.
func (f *Feed) TurnDone() {
	if f.acks {
		f.acks = false
		f.serve()
	}
	if f.asking && !f.still {
		f.asking = false
		f.write(getAck)
	}
	f.flush()
}

// flush hands what is new in the chunk to the backlog and to every replica.
func (f *Feed) flush() {
	if f.sent == len(f.chunk) {
		return
	}
	from := f.sent
	f.sent = len(f.chunk)
	if f.log != nil {
		if !f.log.write(f.chunk[from:f.sent]) {
			f.settings.Log.Warning("The system gives no memory for the replication backlog: it begins anew.")
		}
	}
	for _, r := range f.replicas {
		switch {
		case r.at != live:
			f.limitLag(r)
		case r.state == online:
			f.core.Push(r.cl, f.chunk[from:f.sent:f.sent])
			f.posted.Add(int64(f.sent - from))
			f.watchSocket(r, f.sent-from)
		}
	}
	f.noteBacklog()
}

// live is the place of a replica that gets the stream as it comes, or does not get it yet.
const live = -1

// aheadMax is how much of the stream a replica's loop may have unsent. What comes behind stays in the backlog, where it
// is kept once for all replicas.
const aheadMax = 1 << 20

// watchSocket has r, whose loop was given n bytes more, read the backlog from here on if its socket does not take the
// stream.
func (f *Feed) watchSocket(r *replica, n int) {
	if r.unseen += n; r.unseen < aheadMax/4 || f.log == nil {
		return
	}
	r.unseen = 0
	if r.unsent() > aheadMax {
		f.fallBehind(r, f.log.end)
		go f.catchUp(r)
	}
}

// fallBehind says that r has the stream up to offset at, and gets the rest from the backlog.
func (f *Feed) fallBehind(r *replica, at int64) {
	r.at = at
	f.settle()
}

// settle has the backlog keep what replicas still need, and no more.
func (f *Feed) settle() {
	if f.log == nil {
		return
	}
	floor := int64(noFloor)
	for _, r := range f.replicas {
		if r.at != live {
			floor = min(floor, r.at)
		}
	}
	f.log.setFloor(floor)
	f.noteBacklog()
}

// limitLag closes r if it lacks too much: past the hard limit, or past the soft one for too long.
func (f *Feed) limitLag(r *replica) {
	if r.at == live || f.log == nil || r.cl.Is(client.CloseASAP) {
		return
	}
	limit, now := f.settings.Output(), f.core.SteadyMs()
	lacks := f.log.end - r.at
	if r.state == online {
		lacks += r.unsent()
	}
	// A replica may go on with all that the backlog keeps anyway.
	over := limit.Hard > 0 && lacks >= max(limit.Hard, f.settings.BacklogSize.Get())
	switch {
	case limit.Soft == 0 || lacks < limit.Soft:
		r.softSince = 0
	case r.softSince == 0:
		r.softSince = now
	default:
		over = over || now-r.softSince > limit.Seconds*1000
	}
	if over {
		f.outLimit++
		f.settings.Log.Warning("Client id=%d addr=%s scheduled to be closed ASAP for overcoming of output buffer limits.",
			r.cl.ID, r.cl.Conn.RemoteAddr())
		r.at = live // what it lacks need not be kept any more
		f.settle()
		f.core.Kill(r.cl, false)
	}
}

// goOnline lets the stream flow, what has come meanwhile first.
func (f *Feed) goOnline(r *replica) {
	if r.state == online {
		return
	}
	r.state, r.ackMs, f.acks = online, f.core.SteadyMs(), true
	f.beginCatchUp(r)
	f.settings.Log.Notice("Synchronization with replica %s succeeded", r.name())
}

// of is the replica that cl is, made at its first REPLCONF or SYNC.
func (f *Feed) of(cl *client.Client) *replica {
	if r, ok := cl.ReplicaState.(*replica); ok {
		return r
	}
	r := &replica{cl: cl, at: live, diskOffset: -1, gone: make(chan struct{})}
	cl.ReplicaState = r
	return r
}

// enlist counts r among the replicas.
func (f *Feed) enlist(r *replica) {
	f.open()
	r.cl.Flags |= client.Replica
	r.cl.Conn.SetClass(protocol.ClassReplica)
	f.replicas = append(f.replicas, r)
}

// Wrote notes how far the stream was when a command of cl's had gone into it: what its WAIT waits for.
func (f *Feed) Wrote(cl *client.Client) { cl.StreamOffset = f.offset }

// Gone tells the feed that a client left.
func (f *Feed) Gone(cl *client.Client) {
	r, ok := cl.ReplicaState.(*replica)
	if !ok {
		return
	}
	cl.ReplicaState = nil
	close(r.gone)
	for i, other := range f.replicas {
		if other == r {
			f.replicas = append(f.replicas[:i:i], f.replicas[i+1:]...)
			f.posted.Add(-r.unsent())
			f.settle()
			f.settings.Log.Notice("Connection with replica %s lost.", r.name())
			break
		}
	}
	if len(f.replicas) == 0 {
		f.idleSinceMs = f.core.SteadyMs()
	}
	for _, g := range f.groups {
		if g != nil && g.deserted() {
			g.giveUp()
		}
	}
}

// name is how the log calls a replica: its address, with the port it listens on if it said so.
func (r *replica) name() string {
	host, port := r.host(), r.port
	if port == 0 {
		return "client id #" + strconv.FormatInt(r.cl.ID, 10)
	}
	return host + ":" + strconv.Itoa(port)
}

// Tick is the feed's share of the core's 100 ms duty.
func (f *Feed) Tick(nowMs int64) {
	f.sentRate.Sample(f.written(), int64(f.core.Uptime()))
	if f.lastPingMs == 0 {
		f.lastPingMs = nowMs // the periods count from the start, so that a new replica is not pinged at once
	}
	ping := nowMs-f.lastPingMs >= f.settings.PingPeriod.Get()*1000 && !f.hushed && !f.still && !f.following
	if ping {
		f.lastPingMs = nowMs
	}
	if len(f.replicas) == 0 {
		f.dropBacklog(nowMs)
		return
	}
	f.startWaiting()
	f.signWaiting(nowMs)
	f.tickRefused(nowMs)
	if ping {
		f.write([]byte("*1\r\n$4\r\nPING\r\n"))
	}
	limit := f.settings.Timeout.Get() * 1000
	for _, r := range f.replicas {
		f.limitLag(r)            // time passes, whether or not there is more that it lacks
		if r.state == awaitAck { // it loads, and sends blank lines
			if at := r.cl.Conn.LastActive(); at != r.activeMs {
				r.activeMs, r.blankMs = at, nowMs
			}
		}
		heardMs := max(r.ackMs, r.blankMs)
		if (r.state == online || r.state == awaitAck) && !r.rdbOnly && r.psync2 && nowMs-heardMs > limit &&
			!r.cl.Is(client.CloseASAP) {
			f.settings.Log.Warning("Disconnecting timedout replica (streaming sync): %s", r.name())
			f.core.Kill(r.cl, false)
		}
	}
	f.flush()
}

// Lagging counts the replicas that do not have the whole stream yet.
func (f *Feed) Lagging() (n int) {
	f.flush()
	for _, r := range f.replicas {
		if r.ackOffset < f.offset {
			n++
		}
	}
	return n
}

// Prompt asks every replica how far it is. No pings follow until Resume: each would be something more to catch up
// with.
func (f *Feed) Prompt() {
	f.askForAcks()
	f.hushed = true
}

// Resume ends what Prompt began.
func (f *Feed) Resume() { f.hushed = false }

// HoldStill keeps the feed from adding anything of its own to the stream, until it is told that that is over.
func (f *Feed) HoldStill(on bool) { f.still = on }

// Offset is how long the stream is, as of a moment ago; 0 while a full copy is on its way. Any goroutine.
func (f *Feed) Offset() int64 { return f.shown.Load() }

// LogLag says, when the server ends, who does not have everything.
func (f *Feed) LogLag() {
	if len(f.replicas) == 0 {
		return
	}
	synced := 0
	for _, r := range f.replicas {
		if r.ackOffset >= f.offset {
			synced++
			continue
		}
		f.settings.Log.Notice("Lagging replica %s reported offset %d behind master, lag=%d, state=%s.",
			r.name(), f.offset-r.ackOffset, (f.core.SteadyMs()-r.ackMs)/1000, r.state)
	}
	f.settings.Log.Notice("%d of %d replicas are in sync when shutting down.", synced, len(f.replicas))
}
