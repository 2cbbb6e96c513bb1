package replication

import (
	"math"
	"strings"

	"spindle/engine"
	"spindle/engine/command"
	"spindle/protocol"
)

// A failover gives this server's role to one of its replicas. Writes are held until the replica has the whole stream.
// Then this server follows the replica, and its PSYNC asks the replica to take over.
type failover struct {
	core     *engine.Core
	feed     *Feed
	follower *Follower
	log      Logger
	stage    failoverStage
	to       Address // empty: the first replica that has the whole stream
	force    bool
	untilMs  int64 // by Core.SteadyMs; 0: no limit

	// The fields of takeOver:
	read  int64  // the progress of the primary's stream at the last look
	idle  int    // the looks since then
	taken string // the history that this server took over last; "": none
}

type failoverStage uint8

const (
	noFailover failoverStage = iota
	failoverWaits
	failoverUnderWay
)

// String returns INFO's master_failover_state.
func (s failoverStage) String() string {
	return [...]string{"no-failover", "waiting-for-sync", "failover-in-progress"}[s]
}

// run runs FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT ms].
func (x *failover) run(c *command.Context) error {
	if x.follower.parts.Clustered {
		return errFailoverInCluster
	}
	var to Address
	force, timeoutMs := false, int64(0)
	for i := 1; i < len(c.Args); i++ {
		left := len(c.Args) - i - 1
		switch {
		case command.Is(c.Args[i], "ABORT") && len(c.Args) == 2:
			if x.stage == noFailover {
				return errNoFailover
			}
			x.abort("Failover manually aborted")
			c.Reply.OK()
			return nil
		case command.Is(c.Args[i], "TIMEOUT") && left >= 1 && timeoutMs == 0:
			ms, err := command.Int(c.Args[i+1])
			if err != nil {
				return err
			}
			if ms <= 0 {
				return errFailoverDelay
			}
			timeoutMs = ms
			i++
		case command.Is(c.Args[i], "TO") && left >= 2 && to.Host == "":
			port, err := command.Int(c.Args[i+2])
			if err != nil {
				return err
			}
			to = Address{string(c.Args[i+1]), int(port)}
			i += 2
		case command.Is(c.Args[i], "FORCE") && !force:
			force = true
		default:
			return protocol.ErrSyntax
		}
	}
	if err := x.mayBegin(to, force, timeoutMs); err != nil {
		return err
	}
	x.stage, x.to, x.force, x.untilMs = failoverWaits, to, force, 0
	if timeoutMs > 0 {
		x.untilMs = x.core.SteadyMs() + timeoutMs
	}
	if to.Host != "" {
		x.log.Notice("FAILOVER requested to %s:%d.", to.Host, to.Port)
	} else {
		x.log.Notice("FAILOVER requested.")
	}
	x.follower.parts.Notices.FailingOver()
	x.core.Pause(engine.PauseFailover, false, math.MaxInt64)
	x.feed.HoldStill(true) // GETACK of a WAIT would move the offset before a slow replica acknowledges it
	c.Reply.OK()
	return nil
}

func (x *failover) mayBegin(to Address, force bool, timeoutMs int64) error {
	switch {
	case x.stage != noFailover:
		return errInProgress
	case x.follower.on:
		return errReplicaOver
	case len(x.feed.replicas) == 0:
		return errNoTargets
	case force && (timeoutMs == 0 || to.Host == ""):
		return errForce
	}
	if to.Host == "" {
		return nil
	}
	r := x.feed.find(to)
	switch {
	case r == nil:
		return errNotOurs
	case r.state != online:
		return errNotOnline
	}
	return nil
}

// tick checks whether a replica has the whole stream, or the time has run out. It waits for the end of DEBUG LOADAOF.
func (x *failover) tick(nowMs int64) {
	if x.stage != failoverWaits || x.core.Loading() {
		return
	}
	if x.untilMs != 0 && nowMs >= x.untilMs {
		if !x.force {
			x.abort("Replica never caught up before timeout")
			return
		}
		x.log.Notice("Failover to %s:%d time out exceeded, failing over.", x.to.Host, x.to.Port)
		x.handOver()
		return
	}
	x.feed.flush()
	for _, r := range x.feed.replicas {
		at := r.address()
		if r.state != online || r.ackOffset != x.feed.offset || x.to.Host != "" && x.feed.find(x.to) != r {
			continue
		}
		x.to = at
		x.log.Notice("Failover target is synced, failing over. %s:%d", at.Host, at.Port)
		x.handOver()
		return
	}
}

// handOver makes this server follow the replica, and asks the replica to take over.
func (x *failover) handOver() {
	to := x.to
	x.stage = failoverUnderWay
	x.follower.parts.Notices.HandingOver()
	x.follower.Follow(to)
	x.follower.link.failover = true
}

// answered continues after the replica's reply to the PSYNC that asked it to take over.
func (x *failover) answered(accepted bool) {
	if accepted {
		x.follower.parts.Notices.Moved(x.to.Host, x.to.Port)
		x.end()
		return
	}
	x.abort("Failover target rejected psync request")
}

// abort keeps this server the primary, or makes it the primary again.
func (x *failover) abort(why string) {
	x.log.Notice("Aborting failover: %s", why)
	if x.stage == failoverUnderWay {
		x.follower.Promote() // this informs the clients
	} else {
		x.follower.parts.Notices.FailedOver()
	}
	x.end()
}

func (x *failover) end() {
	x.stage = noFailover
	x.feed.HoldStill(false)
	x.core.Unpause(engine.PauseFailover)
}

// takeOver runs PSYNC with FAILOVER: the primary asks this server to take its place. resync replies after the
// promotion.
//
// The primary has stopped its writes. Its last bytes may still be unread on the old link, which has its own goroutine.
// If they arrive, they are applied before the promotion. Otherwise acknowledged writes would be lost.
func (x *failover) takeOver(c *command.Context, resync func(*command.Context) error) error {
	x.log.Warning("Failover request received for replid %s.", c.Args[1])
	try := func(c *command.Context) (done bool, err error) {
		if x.hasTakenOver(c.Args[1]) {
			return true, resync(c)
		}
		if err := x.mayTakeOver(c.Args[1]); err != nil {
			return true, err
		}
		if missing := x.missing(c.Args[2]); missing > 0 {
			if now := x.progress(); now != x.read {
				x.read, x.idle = now, 0
			}
			if x.idle++; x.idle < idleLooks {
				return false, nil
			}
			x.log.Warning("The primary's stream has not come to its end: %d bytes are missing.", missing)
		}
		x.taken = x.feed.ID
		x.follower.Promote()
		x.log.Notice("MASTER MODE enabled (failover request from '%s')", describe(c.Client))
		return true, resync(c)
	}
	if done, err := try(c); done {
		return err
	}
	c.Core.Block(c, command.Wait{
		Busy:  true, // from outside, only the end of the connection ends this wait
		Again: func(c *command.Context) int64 { return c.Now + 1 },
		Retry: func(c *command.Context) error {
			done, err := try(c)
			if done {
				x.core.EndWait(c.Client)
			}
			return err
		},
	})
	return nil
}

// idleLooks is how often in a row takeOver looks for bytes of the stream and finds none, which takes about a second. It
// is a count and not a time, because a script that holds the turn stops both the stream and the looks. If the primary
// times out first, it asks again, and the count continues.
const idleLooks = 500

// hasTakenOver reports whether this server has taken over history id before. A primary that did not get the answer asks
// again. After an error it would become a primary again, beside this one.
func (x *failover) hasTakenOver(id []byte) bool {
	return !x.follower.on && x.taken == x.feed.ID2 && strings.EqualFold(string(id), x.taken)
}

// mayTakeOver returns an error if this server cannot take the place of the primary whose history is id.
func (x *failover) mayTakeOver(id []byte) error {
	switch {
	case !x.follower.on:
		return errFailover
	case !strings.EqualFold(string(id), x.feed.ID):
		return errFailoverID
	case len(x.follower.holds) > 0: // otherwise there may be two new primaries
		return errHeld
	}
	return nil
}

// missing returns how many bytes of the stream before offset can still come over the link. offset is PSYNC's.
func (x *failover) missing(offset []byte) int64 {
	n, err := command.Int(offset)
	if err != nil || !x.follower.Up() {
		return 0
	}
	return max(n, 0) - 1 - x.feed.offset
}

// progress returns a figure that grows when bytes of the primary are read or applied.
func (x *failover) progress() int64 { return x.follower.inputBytes() + x.feed.offset }
