package replication

import (
	"math"
	"strings"

	"spindle/engine"
	"spindle/engine/command"
	"spindle/protocol"
)

// A failover hands this server's role to one of its replicas. Writes are held until the replica has the whole stream.
// Then this server follows it, and its PSYNC asks the replica to take over.
type failover struct {
	core     *engine.Core
	feed     *Feed
	follower *Follower
	log      Logger
	stage    failoverStage
	to       Address // empty: the first replica that has the whole stream
	force    bool
	untilMs  int64 // by Core.SteadyMs; 0: no limit
}

type failoverStage uint8

const (
	noFailover failoverStage = iota
	failoverWaits
	failoverUnderWay
)

// String is INFO's master_failover_state.
func (s failoverStage) String() string {
	return [...]string{"no-failover", "waiting-for-sync", "failover-in-progress"}[s]
}

// run is FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT ms].
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

// tick looks whether a replica has the whole stream, or time has run out.
func (x *failover) tick(nowMs int64) {
	if x.stage != failoverWaits {
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

// handOver follows the replica, and asks it to take over.
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

// abort has this server stay the primary, or become it again.
func (x *failover) abort(why string) {
	x.log.Notice("Aborting failover: %s", why)
	if x.stage == failoverUnderWay {
		x.follower.Promote() // tells the clients
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

// takeOver is PSYNC with FAILOVER: the primary wants this server in its place.
func (x *failover) takeOver(c *command.Context) error {
	x.log.Warning("Failover request received for replid %s.", c.Args[1])
	if !x.follower.on {
		return errFailover
	}
	if !strings.EqualFold(string(c.Args[1]), x.feed.ID) {
		return errFailoverID
	}
	x.follower.Promote()
	x.log.Notice("MASTER MODE enabled (failover request from '%s')", describe(c.Client))
	return nil
}
