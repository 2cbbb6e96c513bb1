package replication

import (
	"context"
	"io"
	"strconv"
	"time"

	"spindle/engine"
	"spindle/engine/data/keyspace"
)

// Copies are the full synchronisations. Each sends a view (a snapshot) to a group of replicas, and then the later part
// of the stream. At one time there is at most one group that gets a length first, and one that gets an EOF mark. Other
// replicas wait, and share the next group.
type copies struct {
	core     *engine.Core
	settings *Settings
	stream   *stream
	roster   *roster
	census   *census
	saver    Saver
	groups   [2]*group // running groups, by placeOf; nil: none
	starting bool      // startDue waits for the end of a unit

	fullSyncs uint64
}

// A group has the replicas of one full synchronisation. They share a view and its encoding, at the pace of the slowest.
type group struct {
	members []*replica
	eof     bool   // the form of the stream
	giveUp  func() // ends the encoding
	began   time.Time
}

// isDeserted reports whether all members have left.
func (g *group) isDeserted() bool {
	for _, r := range g.members {
		if r.isHere() {
			return false
		}
	}
	return true
}

// placeOf returns the index in copies.groups for the two forms of the stream.
func placeOf(eof bool) int {
	if eof {
		return 1
	}
	return 0
}

// request queues r for a full synchronisation. It begins at once if there is nothing to wait for.
func (c *copies) request(r *replica) {
	c.roster.enlist(r)
	r.state, r.askedMs, r.ackMs = waiting, c.core.SteadyMs(), c.core.SteadyMs()
	c.fullSyncs++
	c.startDue()
	switch {
	case r.state != waiting:
	case c.groups[placeOf(r.eof)] != nil:
		c.settings.Log.Notice("A full synchronization is under way. Replica %s waits for the next one", r.name())
	default:
		c.settings.Log.Notice("Delay next BGSAVE for diskless SYNC")
	}
}

// startDue begins the full synchronisations that are due, once no unit is open. Otherwise a replica would apply the
// effects of the open unit twice.
func (c *copies) startDue() {
	c.core.BetweenOnce(&c.starting, func() {
		if c.core.Loading() || c.core.Importing() {
			return // replicas must not get half a data set, and a copy lacks the keys of a move (slotmove.T3)
		}
		for place := range c.groups {
			if c.groups[place] == nil {
				c.startNext(place)
			}
		}
	})
}

func (c *copies) startNext(place int) {
	var first *replica
	n := int64(0)
	for _, r := range c.roster.replicas {
		if placeOf(r.eof) == place && c.isReady(r) {
			if n++; first == nil || r.askedMs < first.askedMs {
				first = r
			}
		}
	}
	if first == nil || !c.isDue(first, n) {
		return
	}
	g := &group{eof: first.eof}
	for _, r := range c.roster.replicas {
		if r.form() == first.form() && c.isReady(r) {
			g.members = append(g.members, r)
		}
	}
	c.groups[place] = g
	c.start(g, first.form())
}

// isReady reports whether r waits for a view, and can read the present data.
func (c *copies) isReady(r *replica) bool { return r.awaitsView() && c.census.canRead(r) }

// isDue reports whether first, the replica that has waited longest, has waited long enough for others. n replicas wait.
// A replica that needs the form with a length does not wait.
func (c *copies) isDue(first *replica, n int64) bool {
	s := c.settings
	if !s.Diskless.Get() || !first.eof || s.SyncReplicas.Get() > 0 && n >= s.SyncReplicas.Get() {
		return true
	}
	return c.core.SteadyMs()-first.askedMs >= s.SyncDelay.Get()*1000
}

// start begins to send the present data to a group. The backlog keeps later effects for the group.
func (c *copies) start(g *group, as form) {
	c.core.AssertWhole("a replica is told an offset")
	c.stream.flush() // earlier effects are for the other replicas alone
	c.stream.selected = -1
	offset := c.stream.offset
	answer := "FULLRESYNC " + c.stream.ID + " " + strconv.FormatInt(offset, 10)
	for _, r := range g.members {
		switch {
		case r.psync && r.answer != nil:
			r.answer.Simple(answer)
		case r.psync:
			r.cl.Conn.Post(c.core.TurnNumber(), []byte("+"+answer+"\r\n"))
		}
		if r.state, r.loaded, r.since = sending, false, offset; !r.rdbOnly {
			c.roster.fallBehind(r, offset)
		}
		delete(c.census.tooOld, r.address())
		c.settings.Log.Notice("Starting full synchronization of replica %s from a view: no file, no fork", r.name())
	}
	view := c.core.Freeze()
	if !g.eof {
		view.Keep() // it is read twice
	}
	out := c.roster.sender(c.core.TurnNumber(), g.members...)
	ctx, cancel := context.WithCancel(context.Background())
	g.giveUp, g.began = cancel, time.Now()
	go c.send(g, out, view, c.saver.Prepare(ctx, c.stream.ID, offset, as.filter, as.dialect))
}

// send sends view to the group and closes the view. It runs on its own goroutine.
func (c *copies) send(g *group, out *sender, view *keyspace.View, encode func(io.Writer, *keyspace.View) error) {
	defer view.Close()
	defer g.giveUp()
	err := sendView(out, g.eof, view, encode)
	took := time.Since(g.began)
	c.core.Do(func() {
		c.groups[placeOf(g.eof)] = nil // a member may have sent REPLCONF capa meanwhile
		out.drop()                     // members that have left since the last write
		c.logEnd(len(out.to), err)
		for _, r := range g.members {
			c.sent(r, g.eof, out, err, took)
		}
		c.startDue()
	})
}

// logEnd logs how many replicas have the whole view, in the lines that operators' tools look for.
func (c *copies) logEnd(left int, err error) {
	switch {
	case left == 0:
		c.settings.Log.Notice("Diskless rdb transfer, last replica dropped, killing fork child. Here: the stream is given up")
	case err == nil:
		c.settings.Log.Notice("Diskless rdb transfer, done reading from pipe, %d replicas still up.", left)
	}
}

// sent continues with r after its full synchronisation, which had the form eof.
func (c *copies) sent(r *replica, eof bool, out *sender, err error, took time.Duration) {
	log := c.settings.Log
	if !r.isHere() {
		log.Warning("Full synchronization with replica %s failed: %v", r.name(), errReplicaGone)
		return
	}
	if left := out.left[r]; left != nil {
		err = left
	}
	switch {
	case err == errReplicaStuck:
		log.Warning("Disconnecting timedout replica (full sync): %s", r.name())
		c.core.Kill(r.cl, false)
	case err != nil:
		log.Warning("Full synchronization with replica %s failed: %v", r.name(), err)
		c.core.Kill(r.cl, false)
	case r.rdbOnly:
		log.Notice("Streamed %d bytes of RDB to %s in %.3f seconds", out.total, r.name(), took.Seconds())
		c.core.Kill(r.cl, true)
	case eof:
		log.Notice("Streamed replica transfer with %s succeeded (socket), %d bytes in %.3f seconds. Waiting for "+
			"REPLCONF ACK from replica to enable streaming",
			r.name(), out.total, took.Seconds())
		r.state, r.ackMs = awaitAck, c.core.SteadyMs()
		if r.loaded {
			c.roster.goOnline(r)
		}
	default:
		c.roster.goOnline(r)
	}
}

// giveUpDeserted ends the synchronisations whose replicas have all left.
func (c *copies) giveUpDeserted() {
	for _, g := range c.groups {
		if g != nil && g.isDeserted() {
			g.giveUp()
		}
	}
}

// signWaiting sends an empty line each second to the replicas that wait, so that they do not time out.
func (c *copies) signWaiting(nowMs int64) {
	for _, r := range c.roster.replicas {
		if r.awaitsView() && nowMs-r.ackMs >= signEvery.Milliseconds() {
			r.ackMs = nowMs
			r.cl.Conn.Post(c.core.TurnNumber(), []byte{'\n'})
		}
	}
}

// Sending reports whether a full synchronisation is running.
func (c *copies) Sending() bool { return c.groups[0] != nil || c.groups[1] != nil }

// Began returns when the oldest running full synchronisation began, or the zero time without one.
func (c *copies) Began() (at time.Time) {
	if g := c.oldest(); g != nil {
		at = g.began
	}
	return at
}

// CutOff ends the oldest full synchronisation and closes its replicas, because its view keeps too much memory alive.
func (c *copies) CutOff(why string) {
	g := c.oldest()
	c.settings.Log.Warning("Full synchronization called off: %s", why)
	g.giveUp()
	for _, r := range g.members {
		if r.isHere() {
			c.core.Kill(r.cl, false)
		}
	}
}

func (c *copies) oldest() (found *group) {
	for _, g := range c.groups {
		if g != nil && (found == nil || g.began.Before(found.began)) {
			found = g
		}
	}
	return found
}
