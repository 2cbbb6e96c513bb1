// Package replication is both ends of replication. A primary's Feed streams the core's effects to replicas: a full copy
// from a view, then every effect in order. A replica's Follower takes that stream from its primary. Ends joins the two.
//
// Owner: the core calls Feed and Follower inside its turns. Each full copy has a sender goroutine, which reads a view
// and nothing else.
// Never: blocks a turn (R5), or keeps more for a replica than its output limit allows.
// Start at feed.go.
//
//	Ends           commands.go, info.go
//	Follower       link.go decides, upstream.go is the connection, reading.go and taking.go are its reader
//	Feed           stream.go, roster.go and delivery.go, census.go, copies.go, wait.go
package replication

import (
	"strconv"
	"strings"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/replication/segments"
)

// A Feed is this server's stream with the state of all its replicas.
//
//	core ── Append ──▶ stream ── give ──▶ roster ──▶ replicas' connections
//	                   └─ backlog ────────┘
//	copies: a view for replicas that cannot continue      census: what each may get      waiters: WAIT
type Feed struct {
	*stream
	*roster
	*census
	*copies
	*waiters
	acks     *acks
	throttle *throttle
	core     *engine.Core
	settings *Settings

	Peers func() int64 // in a cluster: the number of this primary's replicas, as the node knows it; nil: no cluster
	most  int64        // the replicas that count for quorum

	loaded struct { // what is known of the data that this server has loaded at its start: see Loaded
		offset       int64
		isLog, whole bool
	}
	withheld bool // replicas get no data yet: see Withhold

	lastPingMs         int64
	hushed             bool   // the server waits for replicas to catch up
	continued, refused uint64 // partial synchronisations
}

// NewFeed makes a feed with a new history.
func NewFeed(core *engine.Core, settings *Settings, saver Saver) *Feed {
	s := &stream{core: core, settings: settings, history: newHistory(), selected: -1}
	o := &roster{core: core, settings: settings, stream: s}
	s.spool = &spool{settings: settings, lacks: o.lacks, given: o.keepNeeded, folders: map[string]*segments.Folder{}}
	n := &census{core: core, settings: settings, stream: s, roster: o, saver: saver, tooOld: map[Address]bool{}}
	f := &Feed{stream: s, roster: o, census: n, core: core, settings: settings,
		copies:  &copies{core: core, settings: settings, stream: s, roster: o, census: n, saver: saver},
		waiters: &waiters{core: core, settings: settings, stream: s, roster: o, waits: newWaits(), diskWaits: newWaits()},
	}
	s.sink, s.deliver, n.retry = f, o.give, f.startDue
	f.acks = newAcks(s, o)
	f.throttle = &throttle{core: core, settings: settings, roster: o}
	o.spares = f.throttle.spares
	return f
}

// Append implements engine.Sink.
func (f *Feed) Append(unit []engine.Effect) {
	for _, e := range unit {
		f.enter(e.DB)
		f.spotEffect(e.DB, e.Command)
		f.write(e.Command)
	}
}

// TurnDone implements engine.Sink. It sends the turn's bytes in one piece. At most once a turn, it asks replicas for
// acknowledgements, and checks the waiting clients for all acknowledgements of the turn.
func (f *Feed) TurnDone() {
	if f.heardAcks {
		f.heardAcks = false
		f.serve()
		f.acks.heard()
	}
	if f.asking && !f.still {
		f.asking = false
		f.write(getAck)
	}
	f.flush()
}

// AckNeedChanged applies CONFIG SET min-replicas-to-ack.
func (f *Feed) AckNeedChanged() { f.core.SetCommonAcks(uint8(f.settings.MinAck.Get())) }

// AckModeChanged applies CONFIG SET ack-mode. Held replies wait for acknowledgements of the new kind.
func (f *Feed) AckModeChanged() { f.acks.modeChanged() }

// AwaitAcks calls done in this turn or a later one, when level replicas have acknowledged all data of now. ok is false
// if they have not within ack-timeout, and ack-on-timeout is error. Turn only.
func (f *Feed) AwaitAcks(level int, done func(ok bool)) { f.acks.await(level, done) }

// EndAcks is for the end of the server: held replies become errors, and later replies do not wait. The acknowledgements
// of this turn count before.
func (f *Feed) EndAcks() {
	f.acks.heard()
	f.acks.halt()
}

// Wrote notes the stream's offset after a command of cl. A later WAIT of cl waits for this offset.
func (f *Feed) Wrote(cl *client.Client) { cl.StreamOffset = f.offset }

// Gone notes that a client has left. It may be a replica.
func (f *Feed) Gone(cl *client.Client) {
	if r, ok := cl.ReplicaState.(*replica); ok {
		cl.ReplicaState = nil
		f.strike(r)
		f.giveUpDeserted()
	}
}

// Tick is the feed's share of the core's duty that runs every 100 ms.
func (f *Feed) Tick(nowMs int64) {
	f.sentRate.Sample(f.written(), int64(f.core.Uptime()))
	f.acks.tick()
	if f.lastPingMs == 0 {
		f.lastPingMs = nowMs // periods count from the start, so that a new replica gets no PING at once
	}
	ping := nowMs-f.lastPingMs >= f.settings.PingPeriod.Get()*1000 && !f.hushed && !f.still && !f.following
	if ping {
		f.lastPingMs = nowMs
	}
	f.forgetDeparted(nowMs)
	f.tickSpool(nowMs)
	f.throttle.tick()
	if len(f.replicas) == 0 {
		f.dropIdle(nowMs)
		return
	}
	f.startDue()
	f.signWaiting(nowMs)
	f.closeRefused(nowMs)
	if ping {
		f.write([]byte("*1\r\n$4\r\nPING\r\n"))
	}
	f.watch(nowMs)
	f.flush()
}

// Replicas returns the number of replicas, in any state.
func (f *Feed) Replicas() int { return len(f.replicas) }

// Heir returns a replica that has the whole stream and understands the order to take over, as Valkey 9 and later do.
func (f *Feed) Heir() (at Address, ok bool) {
	f.flush()
	for _, r := range f.replicas {
		major, _, _ := strings.Cut(r.version, ".")
		if n, err := strconv.Atoi(major); err == nil && n >= 9 && r.state == online && r.ackOffset == f.offset {
			return r.address(), true
		}
	}
	return at, false
}

// Prompt asks every replica for an acknowledgement. The feed sends no PING until Resume, because replicas would have to
// catch up with it.
func (f *Feed) Prompt() {
	f.askForAcks()
	f.hushed = true
}

// Resume ends what Prompt began.
func (f *Feed) Resume() { f.hushed = false }

// HoldStill makes the feed add only effects to the stream while on is true.
func (f *Feed) HoldStill(on bool) { f.still = on }

// restart begins another stream, that of history id after offset.
func (f *Feed) restart(id string, offset int64) {
	f.core.AssertWhole("the history changes")
	f.flush()
	f.dismiss()
	f.departed = nil
	f.history = history{id, noID, -1}
	f.moveTo(offset)
	f.specialAt = 0
	clear(f.tooOld)
	f.log.rebase(offset)
	f.noteBacklog()
}

// renamed notes that the primary, which was promoted, has given the history another name.
func (f *Feed) renamed(id string) {
	f.core.AssertWhole("the history is renamed")
	f.rename(id, f.offset)
	f.dismiss()
}
