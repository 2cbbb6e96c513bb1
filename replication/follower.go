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
	"spindle/protocol"
)

// A Follower is this server as a replica: it carries out what its Link decides, runs the primary's stream, and hands
// the stream on to the replicas of its own, byte for byte.
//
// replication.H1. While it follows, the feed's history and offset are the primary's, and say what of its stream was
// applied here.
// replication.H2. A command is applied when it has run, a transaction when its EXEC has. Only then do its bytes count.
// replication.H3. What a connection has read and not applied goes with it.
//
// Turn only, unless a method says otherwise.
type Follower struct {
	core     *engine.Core
	feed     *Feed
	settings *FollowerSettings
	parts    FollowerParts

	link      Link
	wire      *upstream      // the connection there is; nil: none
	primary   *client.Client // as whom the stream is run; nil: no stream flows
	on        bool           // this server is a replica
	known     bool           // the data here are a primary's, up to the feed's offset: it may be asked to go on from there
	db        int            // the stream stands in, while known and no stream flows
	taking    sync.Mutex     // held around Take
	diskMarks []diskMark     // in order; the first is the last that the disk is known to have, or waits for it
	copied    atomic.Int64   // bytes of the full copy read
	size      int64          // of the full copy; 0: unknown
	heardMs   int64          // of the connection that is gone: when it was last heard
	input     int64          // bytes of streams read, by connections that are gone, since the statistics were reset
	copies    atomic.Int64   // bytes of full copies read since then
	rate      engine.Rate
	errors    uint64 // commands of the primary's that failed here
	refusal   string // why the log last said that the stream stops

	contactMs atomic.Int64 // for HeardMs
	failover
}

// FollowerParts are what a Follower asks of the rest of the server.
type FollowerParts struct {
	Taker Taker
	Dial  Dialer
	// Port is where this server listens.
	Port func() int
	// Changed says that the role, or whether the link is up, has changed. Turn only.
	Changed func()
	// Fatal ends the process: the data here are no longer the primary's, and the configuration says what that means.
	Fatal func(why string)
	// PatienceMs is repl-timeout.
	PatienceMs func() int64
	Log        Logger
	// Clustered says that the cluster decides whom this server follows: clients cannot.
	Clustered bool
}

// A Taker puts a full copy in the place of the data.
type Taker interface {
	// Take reads the copy. It runs beside the turns, and calls done in the turn in which the copy is in place: db is
	// the database that the stream behind it stands in. begin is called in the turn from which on the data here are
	// not whole any more, if that comes before. It says false if the link was given up: the data stay as they are.
	// After an error done was not called. One call at a time.
	Take(c *Copy, begin func() (still bool), done func(db int)) error
}

// A Copy is a full copy on its way.
type Copy struct {
	Stream io.Reader // exactly the RDB stream, or with a Mark up to it and perhaps further
	Size   int64     // of the stream; -1: it ends with Mark
	Mark   string
	Same   bool // it is of the history that the data here are of
}

// NewFollower makes a server that follows nobody.
func NewFollower(core *engine.Core, feed *Feed, settings *FollowerSettings, parts FollowerParts) *Follower {
	f := &Follower{core: core, feed: feed, settings: settings, parts: parts}
	f.link = Link{log: parts.Log, other: outside{f}, jitter: func(ms int64) int64 { return rand.Int64N(ms/4 + 1) }}
	feed.follower = f
	return f
}

// Start has the server follow whom the configuration names, if it names one, once its data are loaded. The data are
// history id up to offset, whose stream stands in db; an empty id: nobody knows.
func (f *Follower) Start(id string, offset int64, db int) {
	of := f.settings.Of.Get()
	if of.Host == "" {
		return
	}
	if id != "" {
		f.feed.ID, f.feed.offset = id, offset
		f.feed.shown.Store(offset)
		f.known, f.db = true, db
	}
	f.begin(of)
}

// Hurry has a link that rests after a failure dial at once.
func (f *Follower) Hurry() { f.link.Hurry(f.core.SteadyMs()) }

// Following says whether this server is a replica.
func (f *Follower) Following() bool { return f.on }

// Up says whether the primary's stream flows.
func (f *Follower) Up() bool { return f.link.Up() }

// StreamDB is the database that the stream stands in, for what is written of it to a file.
func (f *Follower) StreamDB() int {
	if f.primary != nil {
		return f.primary.DB
	}
	return f.db
}

// begin makes this server a replica.
func (f *Follower) begin(of Address) {
	f.on, f.refusal = true, ""
	f.feed.follow()
	f.core.SetReplica(true)
	f.link.Begin(of.Host, of.Port, f.core.SteadyMs())
	f.parts.Changed()
}

var (
	errUnblocked = &protocol.Error{Code: "UNBLOCKED",
		Text: "force unblock from blocking operation, instance state changed (master -> replica?)"}
	errPort = &protocol.Error{Code: "ERR", Text: "Invalid master port"}
	errHost = &protocol.Error{Code: "ERR", Text: "Invalid master host"}
)

// Follow has this server follow of from now on.
func (f *Follower) Follow(of Address) {
	was := f.on
	f.settings.Of.Set(of)
	f.feed.flush()
	if !was {
		f.known, f.db = true, 0 // the other may have followed us, and go on from here
		f.core.UnblockAll(errUnblocked)
	}
	f.begin(of)
}

// Promote has this server follow nobody. Its history goes on under a new name.
func (f *Follower) Promote() {
	if !f.on {
		return
	}
	f.core.AssertWhole("a replica is promoted")
	f.settings.Of.Set(Address{})
	f.link.End()
	f.on, f.known = false, false
	f.feed.branch()
	f.parts.Log.Notice("Setting secondary replication ID to %s, valid up to offset: %d. New replication ID is %s",
		f.feed.ID2, f.feed.secondOffset, f.feed.ID)
	f.feed.dismissReplicas() // they come back, learn the new name and go on
	f.feed.lead()
	f.core.SetReplica(false)
	f.parts.Changed()
}

// Tick comes ten times a second.
func (f *Follower) Tick(nowMs int64) {
	f.rate.Sample(uint64(f.inputBytes()), int64(f.core.Uptime()))
	f.tickFailover(nowMs)
	if !f.on {
		return
	}
	if w := f.wire; w != nil {
		if w.waits.Load() {
			f.link.Alive(max(f.link.since, w.heard.Load()))
		} else {
			f.link.Alive(nowMs) // a load, a pause or a script holds us back: the peer is not to blame
		}
	}
	f.link.Tick(nowMs)
	if w := f.wire; w != nil && f.link.Up() {
		f.contactMs.Store(max(f.contactMs.Load(), w.heard.Load())) // bytes alone count, not that we were at work
	}
}

// HeardMs is when, by clock.Steady, the primary was last heard while its stream flowed; 0: never. Any goroutine.
func (f *Follower) HeardMs() int64 { return f.contactMs.Load() }

// Gone tells that a client left: the link's own may have been killed.
func (f *Follower) Gone(cl *client.Client) {
	if cl == f.primary {
		f.db, f.primary = f.primary.DB, nil
	}
}

// Diverged tells of an error that a command of the primary's, or of a replica's, met here.
func (f *Follower) Diverged(cl *client.Client, spec *command.Spec, err error) {
	f.errors++
	name := "?"
	if spec != nil {
		name = spec.Full
	}
	if cl.Is(client.Replica) {
		f.parts.Log.Warning("== CRITICAL == This master is sending an error to its replica: '%s' after processing the "+
			"command '%s'",
			err, name)
		return
	}
	panics := f.settings.Errors.Get() != ErrorIgnored && f.settings.ReadOnly.Get()
	if !panics && !f.settings.IgnoreUnknown.Get() && !understood(spec, err) && f.refuse(cl, err) {
		return
	}
	f.parts.Log.Warning("== CRITICAL == This replica is sending an error to its master: '%s' after processing the "+
		"command '%s'",
		err, name)
	if panics {
		f.parts.Fatal("This replica panicked sending an error to its master: '" + err.Error() +
			"' after processing the command '" + name + "'")
	}
}

// Answered tells of a replica whose command had a reply.
func (f *Follower) Answered(cl *client.Client, spec *command.Spec) {
	name := "<unknown>"
	if spec != nil {
		name = spec.Full
	}
	f.parts.Log.Warning("Replica generated a reply to command '%s', disconnecting it: %s", name, describe(cl))
}

// Errors counts the commands of the primary's and of replicas that failed here: unexpected_error_replies.
func (f *Follower) Errors() uint64 { return f.errors }

// resetStats is CONFIG RESETSTAT's share.
func (f *Follower) resetStats() {
	f.errors, f.input, f.rate = 0, 0, engine.Rate{}
	f.copies.Store(0)
	if f.wire != nil {
		f.input = -f.wire.read.Load()
	}
}

// inputBytes counts what was read of copies and streams.
func (f *Follower) inputBytes() int64 {
	n := f.input + f.copies.Load()
	if f.wire != nil {
		n += f.wire.read.Load()
	}
	return n
}

// outside is a Follower as its Link sees it.
type outside struct{ *Follower }

// Terms implements Outside.
func (o outside) Terms() Terms {
	s := o.settings
	port := int(s.AnnouncePort.Get())
	if port == 0 {
		port = o.parts.Port()
	}
	return Terms{User: s.User.Get(), Password: s.Auth.Get(), Port: port, Address: s.AnnounceIP.Get(),
		PatienceMs: o.parts.PatienceMs()}
}

// History implements Outside.
func (o outside) History() (id string, offset int64, ok bool) {
	return o.feed.ID, o.feed.offset, o.known
}

// Dial implements Outside.
func (o outside) Dial(host string, port int) { o.wire = dial(o.Follower, host, port) }

// Send implements Outside.
func (o outside) Send(words ...string) {
	if o.wire != nil {
		o.wire.send(words...)
	}
}

// HangUp implements Outside.
func (o outside) HangUp() {
	w := o.wire
	if w == nil {
		return
	}
	o.wire = nil
	o.heardMs = w.heard.Load()
	o.input += w.read.Load()
	w.Close(false)
	if cl := o.primary; cl != nil {
		cl.Flags |= client.CloseASAP
		o.core.Dismiss(cl) // Gone follows
	}
}

// Receive implements Outside.
func (o outside) Receive(id string, offset int64) {
	o.wire.next, o.wire.id, o.wire.offset = nextCopy, id, offset
	o.copied.Store(0)
	o.size = 0
}

// Continue implements Outside.
func (o outside) Continue(id string) {
	if id != o.feed.ID {
		o.parts.Log.Notice("Master replication ID changed to %s", id)
		o.feed.rename(id)
	}
	o.feed.shown.Store(o.feed.offset)
	o.adopt(o.db)
	o.parts.Changed()
}

// Acknowledge implements Outside.
func (o outside) Acknowledge() {
	words := []string{"REPLCONF", "ACK", strconv.FormatInt(o.feed.offset, 10)}
	if at, ok := o.onDisk(); ok {
		words = append(words, "FACK", strconv.FormatInt(at, 10))
	}
	o.Send(words...)
}

// A diskMark says that the log had everything up to an offset of the stream when it ended at an offset of its own.
type diskMark struct{ log, stream int64 }

// diskMarksMost is how many marks wait for the disk. While there are as many, no new one is made.
const diskMarksMost = 16

// onDisk is the offset up to which the disk is known to have the stream. ok is false if it is known of none, or there
// is no log.
func (f *Follower) onDisk() (at int64, ok bool) {
	synced, end, whole := f.feed.settings.Disk.Confirmed()
	if !whole {
		f.diskMarks = nil
		return 0, false
	}
	if n := len(f.diskMarks); n < diskMarksMost && (n == 0 || f.diskMarks[n-1].log < end ||
		f.diskMarks[n-1].stream < f.feed.offset) {
		f.diskMarks = append(f.diskMarks, diskMark{end, f.feed.offset})
	}
	known := 0
	for known < len(f.diskMarks) && f.diskMarks[known].log <= synced {
		known++
	}
	if known == 0 {
		return 0, false
	}
	f.diskMarks = f.diskMarks[known-1:]
	return f.diskMarks[0].stream, true
}

// adopt has the stream begin: in database db.
func (f *Follower) adopt(db int) {
	f.primary = f.core.Adopt(f.wire)
	f.primary.DB = db
	f.contactMs.Store(f.core.SteadyMs())
	f.wire.cl, f.wire.next = f.primary, nextStream
	f.known = true
}

// taken says that the full copy is in place.
func (f *Follower) taken(w *upstream, db int) {
	id, offset := w.id, w.offset
	if offset < 0 { // the peer knows no PSYNC, and its history has no name
		id, offset = newID(), 0
	}
	f.feed.restart(id, offset)
	f.diskMarks = nil // they are of another stream
	f.adopt(db)
	f.link.Taken(f.core.SteadyMs())
	f.parts.Changed()
}

// ReplicaOf is REPLICAOF and SLAVEOF host port, or NO ONE.
func (f *Follower) ReplicaOf(c *command.Context) error {
	if f.parts.Clustered {
		return errReplicaOfInCluster
	}
	if f.failingOver() {
		return errFailingOver
	}
	if command.Is(c.Args[1], "no") && command.Is(c.Args[2], "one") {
		if f.on {
			f.Promote()
			f.parts.Log.Notice("MASTER MODE enabled (user request from '%s')", describe(c.Client))
		}
		c.Reply.OK()
		return nil
	}
	if c.Client.Is(client.Replica) {
		return protocol.Errorf("ERR", "Command is not valid when client is a replica.")
	}
	port, err := strconv.Atoi(string(c.Args[2]))
	if err != nil || port < 0 || port > maxPort {
		return errPort
	}
	of := Address{string(c.Args[1]), port}
	if !isOneWord(of.Host) {
		return errHost
	}
	if f.on && strings.EqualFold(f.link.Host, of.Host) && f.link.Port == of.Port {
		f.parts.Log.Notice("REPLICAOF would result into synchronization with the master we are already connected with. No " +
			"operation performed.")
		f.Hurry()
		c.Reply.Simple("OK Already connected to specified master")
		return nil
	}
	f.Follow(of)
	if q := c.Client.Queue; q != nil && command.Flags(q.Flags)&(command.Write|command.MayReplicate) != 0 {
		f.known = false // what this transaction writes is in no stream: only a full copy makes the two servers equal
	}
	f.parts.Log.Notice("REPLICAOF %s:%d enabled (user request from '%s')", of.Host, of.Port, describe(c.Client))
	c.Reply.OK()
	return nil
}

// describe is a client as log lines name who asked for something.
func describe(cl *client.Client) string {
	if cl.Conn == nil {
		return "id=" + strconv.FormatInt(cl.ID, 10)
	}
	return "id=" + strconv.FormatInt(cl.ID, 10) + " addr=" + cl.Conn.RemoteAddr() + " name=" + cl.Name
}
