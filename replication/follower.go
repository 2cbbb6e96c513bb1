package replication

import (
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/family/maintenance"
	"spindle/internal/logging"
)

// A Follower is this server as a replica. It carries out what its Link decides, and runs the primary's stream. It
// passes the stream on to its own replicas, byte for byte.
//
// replication.H1. While it follows, the feed's history and offset are the primary's. The offset counts applied bytes.
// replication.H2. A command is applied when it has run, a transaction when its EXEC has. Only then do its bytes count.
// replication.H3. Bytes that a connection has read and that were not applied are lost with it.
//
// Turn only, unless a method says otherwise.
type Follower struct {
	core     *engine.Core
	feed     *Feed
	settings *FollowerSettings
	parts    FollowerParts

	link    Link
	wire    *upstream      // the connection; nil: none
	primary *client.Client // runs the stream; nil: not connected
	on      bool           // this server is a replica
	known   bool           // the data are a primary's, up to the feed's offset, so it may be asked to continue there
	db      int            // the stream's database, while known and not connected
	refusal string         // why the stream stopped, by the last log line
	onDisk  diskMarks
	over    func(accepted bool) // called when a primary has accepted or refused a PSYNC that asked it to take over
	connect func(host string, port int) *upstream

	taking    sync.Mutex       // held around Load
	copied    atomic.Int64     // bytes that were read of the full copy
	size      int64            // of the full copy; 0: unknown
	contactMs atomic.Int64     // for HeardMs
	silent    atomic.Bool      // the primary gets no acknowledgements
	holds     map[string]int64 // by Sentinel: until when there are no acknowledgements, by the core's steady ms

	// Statistics:
	input  int64        // bytes of streams read by earlier connections
	copies atomic.Int64 // bytes of full copies read
	rate   engine.Rate
	errors uint64 // commands of the primary that failed here
}

// FollowerParts are what a Follower needs from the rest of the server.
type FollowerParts struct {
	Loader     CopyLoader
	Dial       Dialer
	Port       func() int       // where this server listens
	Changed    func()           // called when the role changes, or the link goes up or down; turn only
	Fatal      func(why string) // ends the process, because the data differ from the primary's and settings forbid it
	PatienceMs func() int64     // repl-timeout
	Log        Logger
	Notices    *maintenance.Notices // clients that want to hear of failovers; nil: none
	Clustered  bool                 // the cluster decides which server this one follows; clients cannot
}

// A CopyLoader replaces the data set by a full copy.
type CopyLoader interface {
	// Load reads the copy, outside turns. It calls begin in a turn, after which the present data are not complete.
	// begin returns false if the link was given up; the data then stay. Load calls done in the later turn in which the
	// copy is in place; db is the stream's database after the copy. If Load returns an error, it has not called done.
	// One call at a time.
	Load(c *Copy, begin func() (still bool), done func(db int)) error
}

// A Copy is a full copy that is being received.
type Copy struct {
	Stream io.Reader // exactly the RDB stream; with a Mark, the stream, the mark, and perhaps more
	Size   int64     // of the stream; -1: it ends with Mark
	Mark   string
	Same   bool // it is of the same history as the present data
}

// NewFollower returns the follower of a server that follows no other.
func NewFollower(core *engine.Core, feed *Feed, settings *FollowerSettings, parts FollowerParts) *Follower {
	f := &Follower{core: core, feed: feed, settings: settings, parts: parts}
	f.link = Link{log: parts.Log, other: outside{f}, jitter: func(ms int64) int64 { return rand.Int64N(ms/4 + 1) }}
	feed.dial = parts.Dial
	return f
}

// Start makes the server follow the configured primary, if there is one, once the server's data are loaded. The data
// are history id up to offset, whose stream is in db. An empty id means that the history is not known.
func (f *Follower) Start(id string, offset int64, db int) {
	of := f.settings.Of.Get()
	if of.Host == "" {
		return
	}
	if id != "" {
		f.feed.ID = id
		f.feed.moveTo(offset)
		f.known, f.db = true, db
	}
	f.feed.unsure.Store(f.parts.Clustered) // the data may be from before this server followed `of`
	f.begin(of)
}

// Hurry makes a link that rests after a failure dial at once.
func (f *Follower) Hurry() { f.link.Hurry(f.core.SteadyMs()) }

// Following reports whether this server is a replica.
func (f *Follower) Following() bool { return f.on }

// Up reports whether the primary's stream is connected.
func (f *Follower) Up() bool { return f.link.Up() }

// streamDB returns the database of the primary's stream, for a file that is saved at its offset.
func (f *Follower) streamDB() int {
	if f.primary != nil {
		return f.primary.DB
	}
	return f.db
}

// begin makes this server a replica.
func (f *Follower) begin(of Address) {
	f.on, f.refusal, f.feed.withheld = true, "", false
	f.feed.most = 0
	f.feed.acks.end()
	f.feed.follow()
	f.feed.asking = false
	f.core.SetReplica(true)
	f.link.Begin(of.Host, of.Port, f.core.SteadyMs())
	f.parts.Changed()
}

// Follow makes this server follow of.
func (f *Follower) Follow(of Address) { f.FollowAt(of, false) }

// FollowAt makes this server follow of. same means that of is another address of the server that was followed before.
func (f *Follower) FollowAt(of Address, same bool) {
	f.endHolds()
	f.settings.Of.Set(of)
	f.feed.flush()
	if !same || !f.on {
		f.feed.unsure.Store(true) // this server may have a tail that `of` lacks
	}
	if !f.on {
		f.known, f.db = true, 0 // the server `of` may have followed this server, and can then continue from here
		f.core.UnblockAll(func(cl *client.Client, spec *command.Spec, onKeys bool) (err error, stays bool) {
			switch {
			case f.parts.Clustered || !onKeys:
			case cl.Is(client.ReadOnly) && spec.Flags&command.Write == 0:
				return nil, true // a replica serves its command too
			case cl.Is(client.Redirects):
				return ErrRedirect(of), true
			}
			return errUnblocked, false
		})
	}
	f.begin(of)
}

// Promote makes this server a primary. Its history gets a new name.
func (f *Follower) Promote() {
	if !f.on {
		return
	}
	f.core.AssertWhole("a replica is promoted")
	f.endHolds()
	f.settings.Of.Set(Address{})
	f.link.End()
	f.on, f.known = false, false
	f.feed.unsure.Store(false)
	f.feed.branch()
	f.parts.Log.Notice("Setting secondary replication ID to %s, valid up to offset: %d. New replication ID is %s",
		f.feed.ID2, f.feed.secondOffset, f.feed.ID)
	f.feed.dismiss() // they reconnect, learn the new name and continue
	f.feed.lead()
	f.core.SetReplica(false)
	f.feed.acks.start()
	f.parts.Notices.FailedOver()
	f.parts.Changed()
}

// Tick is the follower's share of the core's duty that runs every 100 ms.
func (f *Follower) Tick(nowMs int64) {
	f.rate.Sample(uint64(f.inputBytes()), int64(f.core.Uptime()))
	for holder, until := range f.holds {
		if nowMs >= until {
			if f.on { // else nothing was stopped
				f.parts.Log.Warning("The Sentinel that has stopped acknowledgements to the primary has not ended that in time.")
			}
			f.holdAcks(holder, 0)
		}
	}
	if !f.on {
		return
	}
	if w := f.wire; w != nil {
		if w.waits.Load() {
			f.link.Alive(max(f.link.since, w.heard.Load()))
		} else {
			f.link.Alive(nowMs) // this server is busy with a load, a pause or a script; the peer is not silent
		}
	}
	f.link.Tick(nowMs)
	if w := f.wire; w != nil && f.link.Up() {
		f.contactMs.Store(max(f.contactMs.Load(), w.heard.Load())) // only bytes that came count here
	}
}

// HeardMs returns when, by clock.Steady, the last bytes of the primary's stream arrived, or 0 if none have. Any
// goroutine.
func (f *Follower) HeardMs() int64 { return f.contactMs.Load() }

// Confirm has this replica acknowledge to its primary, or not. It holds for what is acknowledged after the call. Any
// goroutine.
func (f *Follower) Confirm(on bool) { f.silent.Store(!on) }

// holdersMax bounds how many Sentinels can hold acknowledgements at a time.
const holdersMax = 1024

// holdAcks has this replica confirm nothing to its primary for some ms. 0 ends that, but not what other holders have
// asked for. A server that still loads its data, and then follows its primary, keeps it. In a cluster, Confirm is the
// cluster's instead.
func (f *Follower) holdAcks(holder string, ms int64) {
	switch {
	case ms == 0:
		delete(f.holds, holder)
	case f.holds == nil:
		f.holds = map[string]int64{}
		fallthrough
	default:
		f.holds[holder] = f.core.SteadyMs() + ms
	}
	f.Confirm(len(f.holds) == 0)
}

// endHolds ends all holds, because this server gets a new role, or a new primary.
func (f *Follower) endHolds() {
	if len(f.holds) > 0 {
		clear(f.holds)
		f.Confirm(true)
	}
}

// Gone notes that a client has left. It may be the primary's client, killed by an operator.
func (f *Follower) Gone(cl *client.Client) {
	if cl == f.primary {
		f.db, f.primary = f.primary.DB, nil
	}
}

// A reply is an error that a command has replied. Its text may contain keys, but its first word does not.
type reply struct{ error }

// Public implements logging.Private.
func (r reply) Public() string {
	code, _, _ := strings.Cut(r.Error(), " ")
	return code + " " + logging.Redacted
}

// Diverged notes that a command of the primary, of a replica or of the append-only file has failed here.
func (f *Follower) Diverged(cl *client.Client, spec *command.Spec, err error) {
	if cl.Is(client.Importing) {
		return // a client of a move's source: cluster/slotmove
	}
	f.errors++
	name := "?"
	if spec != nil {
		name = spec.Full
	}
	if cl.Is(client.Replica) {
		f.parts.Log.Warning("== CRITICAL == This master is sending an error to its replica: '%s' after processing the "+
			"command '%s'",
			reply{err}, name)
		return
	}
	if cl.Is(client.Fake) {
		f.parts.Log.Warning("== CRITICAL == This server is sending an error to its AOF-loading-client: '%s' after processing "+
			"the command '%s'", reply{err}, name)
		if f.settings.Errors.Get() == ErrorPanics {
			f.parts.Fatal("This server panicked sending an error to its AOF-loading-client after processing the command '" +
				name + "'")
		}
		return
	}
	panics := f.settings.Errors.Get() != ErrorIgnored && f.settings.ReadOnly.Get()
	if !panics && !f.settings.IgnoreUnknown.Get() && !isUnderstood(spec, err) && f.refuse(cl, err) {
		return
	}
	f.parts.Log.Warning("== CRITICAL == This replica is sending an error to its master: '%s' after processing the "+
		"command '%s'",
		reply{err}, name)
	if panics {
		f.parts.Fatal("This replica panicked sending an error to its master after processing the command '" + name + "'")
	}
}

// refuse ends the primary's stream before the command that has just failed with err. The reader does the rest after the
// turn's batch. refuse returns false if the command is not part of the stream.
//
// In a transaction, all other commands have run. A script may have written before it failed. Both count as applied, and
// a full copy is asked for. Otherwise the next stream would begin with them, and apply their writes again.
func (f *Follower) refuse(cl *client.Client, err error) bool {
	w := f.wire
	if w == nil || w.cl != cl {
		return false
	}
	if w.refused == nil {
		w.refused, w.ran = err, f.core.Transacting() || f.core.HasWritten()
		cl.Flags |= client.CloseAfter // no further command of the batch runs
	}
	return true
}

// Answered logs that a command of one of this server's replicas got a reply. Replicas must not send such commands.
func (f *Follower) Answered(cl *client.Client, spec *command.Spec) {
	name := "<unknown>"
	if spec != nil {
		name = spec.Full
	}
	f.parts.Log.Warning("Replica generated a reply to command '%s', disconnecting it: %s", name, describe(cl))
}

// Errors counts the commands of the primary and of replicas that failed here, for INFO unexpected_error_replies.
func (f *Follower) Errors() uint64 { return f.errors }

// resetStats is the follower's share of CONFIG RESETSTAT.
func (f *Follower) resetStats() {
	f.errors, f.input, f.rate = 0, 0, engine.Rate{}
	f.copies.Store(0)
	if f.wire != nil {
		f.input = -f.wire.read.Load()
	}
}

// inputBytes counts the bytes read of copies and streams.
func (f *Follower) inputBytes() int64 {
	n := f.input + f.copies.Load()
	if f.wire != nil {
		n += f.wire.read.Load()
	}
	return n
}

// turnOf runs g in a turn in which no unit is open, because the primary may change the role, the history and the sinks.
// It returns false if the connection w has been given up.
func (f *Follower) turnOf(w *upstream, g func(nowMs int64)) (still bool) {
	f.core.DoBetween(func() {
		if still = f.wire == w; still {
			g(f.core.SteadyMs())
		}
	})
	return still
}

func (f *Follower) terms() Terms {
	s := f.settings
	port := int(s.AnnouncePort.Get())
	if port == 0 {
		port = f.parts.Port()
	}
	return Terms{User: s.User.Get(), Password: s.Auth.Get(), Port: port, Address: s.AnnounceIP.Get(),
		PatienceMs: f.parts.PatienceMs()}
}

// adopt begins the stream, in database db.
func (f *Follower) adopt(db int) {
	f.primary = f.core.Adopt(f.wire)
	f.primary.DB = db
	f.contactMs.Store(f.core.SteadyMs())
	f.wire.cl, f.wire.next = f.primary, nextStream
	f.known = true
}

// taken notes that the full copy is in place.
func (f *Follower) taken(w *upstream, db int) {
	id, offset := w.id, w.offset
	if offset < 0 { // the peer knows no PSYNC, and its history has no name
		id, offset = newID(), 0
	}
	f.feed.restart(id, offset)
	f.feed.unsure.Store(false)
	f.onDisk = nil // marks of another stream
	f.adopt(db)
	f.link.Taken(f.core.SteadyMs())
	f.parts.Changed()
}

// outside is the Follower as its Link sees it. It implements Outside.
type outside struct{ *Follower }

func (o outside) Terms() Terms { return o.terms() }

func (o outside) History() (id string, offset int64, ok bool) {
	return o.feed.ID, o.feed.offset, o.known
}

func (o outside) Dial(host string, port int) { o.wire = o.connect(host, port) }

func (o outside) Send(words ...string) {
	if o.wire != nil {
		o.wire.post(wireOf(words))
	}
}

func (o outside) HangUp() {
	w := o.wire
	if w == nil {
		return
	}
	o.wire = nil
	o.input += w.read.Load()
	w.Close(false)
	if cl := o.primary; cl != nil {
		cl.Flags |= client.CloseASAP
		o.core.Dismiss(cl) // this calls Gone
	}
}

func (o outside) Receive(id string, offset int64) {
	o.wire.next, o.wire.id, o.wire.offset = nextCopy, id, offset
	o.copied.Store(0)
	o.size = 0
}

func (o outside) Continue(id string) {
	if id != o.feed.ID {
		o.parts.Log.Notice("Master replication ID changed to %s", id)
		o.feed.renamed(id)
	}
	o.feed.shown.Store(o.feed.offset)
	o.feed.unsure.Store(false)
	o.adopt(o.db)
	o.parts.Changed()
}

func (o outside) Acknowledge() {
	if o.silent.Load() {
		return
	}
	words := []string{"REPLCONF", "ACK", strconv.FormatInt(o.feed.offset, 10)}
	if at, ok := o.onDisk.confirmed(o.feed.settings.Disk, o.feed.offset); ok {
		words = append(words, "FACK", strconv.FormatInt(at, 10))
	}
	o.Send(words...)
}

func (o outside) Answered(accepted bool) { o.over(accepted) }
