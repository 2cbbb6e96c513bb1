package replication

import (
	"math"
	"strings"

	"spindle/engine"
	"spindle/engine/command"
	"spindle/protocol"
)

// failover is a primary's handing over to one of its replicas: writes are held back until the replica has everything,
// then this server follows it, and its PSYNC asks the replica to take over.
type failover struct {
	stage   failoverStage
	to      Address // empty: whoever has everything first
	force   bool
	untilMs int64 // 0: for ever
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

func failoverError(text string) *protocol.Error { return &protocol.Error{Code: "ERR", Text: text} }

var (
	errFailingOver        = failoverError("REPLICAOF not allowed while failing over.")
	errFailoverInCluster  = failoverError("FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.")
	errReplicaOfInCluster = failoverError("REPLICAOF not allowed in cluster mode.")
	errNoFailover         = failoverError("No failover in progress.")
	errInProgress         = failoverError("FAILOVER already in progress.")
	errReplicaOver        = failoverError("FAILOVER is not valid when server is a replica.")
	errNoTargets          = failoverError("FAILOVER requires connected replicas.")
	errForce              = failoverError("FAILOVER with force option requires both a timeout and target HOST and IP.")
	errNotOurs            = failoverError("FAILOVER target HOST and PORT is not a replica.")
	errNotOnline          = failoverError("FAILOVER target replica is not online.")
	errFailoverDelay      = failoverError("FAILOVER timeout must be greater than 0")
)

// failingOver says whether this server hands over.
func (f *Follower) failingOver() bool { return f.stage != noFailover }

// Failover is FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT ms].
func (f *Follower) Failover(c *command.Context) error {
	if f.parts.Clustered {
		return errFailoverInCluster
	}
	var to Address
	force, timeoutMs := false, int64(0)
	for i := 1; i < len(c.Args); i++ {
		left := len(c.Args) - i - 1
		switch {
		case command.Is(c.Args[i], "ABORT") && len(c.Args) == 2:
			if !f.failingOver() {
				return errNoFailover
			}
			f.abortFailover("Failover manually aborted")
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
	if err := f.mayFailOver(to, force, timeoutMs); err != nil {
		return err
	}
	f.failover = failover{stage: failoverWaits, to: to, force: force}
	if timeoutMs > 0 {
		f.untilMs = f.core.SteadyMs() + timeoutMs
	}
	if to.Host != "" {
		f.parts.Log.Notice("FAILOVER requested to %s:%d.", to.Host, to.Port)
	} else {
		f.parts.Log.Notice("FAILOVER requested.")
	}
	f.core.Pause(engine.PauseFailover, false, math.MaxInt64)
	f.feed.HoldStill(true) // else a loop of WAIT moves the offset on before a far replica has acknowledged it
	c.Reply.OK()
	return nil
}

func (f *Follower) mayFailOver(to Address, force bool, timeoutMs int64) error {
	switch {
	case f.failingOver():
		return errInProgress
	case f.on:
		return errReplicaOver
	case len(f.feed.replicas) == 0:
		return errNoTargets
	case force && (timeoutMs == 0 || to.Host == ""):
		return errForce
	}
	if to.Host == "" {
		return nil
	}
	r := f.feed.find(to)
	switch {
	case r == nil:
		return errNotOurs
	case r.state != online:
		return errNotOnline
	}
	return nil
}

// tickFailover looks whether a replica has everything, or time has run out.
func (f *Follower) tickFailover(nowMs int64) {
	if f.stage != failoverWaits {
		return
	}
	if f.untilMs != 0 && nowMs >= f.untilMs {
		if !f.force {
			f.abortFailover("Replica never caught up before timeout")
			return
		}
		f.parts.Log.Notice("Failover to %s:%d time out exceeded, failing over.", f.to.Host, f.to.Port)
		f.handOver()
		return
	}
	f.feed.flush()
	for _, r := range f.feed.replicas {
		at := r.address()
		if r.state != online || r.ackOffset != f.feed.offset || f.to.Host != "" && f.feed.find(f.to) != r {
			continue
		}
		f.to = at
		f.parts.Log.Notice("Failover target is synced, failing over. %s:%d", at.Host, at.Port)
		f.handOver()
		return
	}
}

// handOver follows the replica, which is asked to take over.
func (f *Follower) handOver() {
	to := f.to
	f.stage = failoverUnderWay
	f.Follow(to)
	f.link.failover = true
}

// Answered implements Outside.
func (o outside) Answered(accepted bool) {
	if accepted {
		o.clearFailover()
		return
	}
	o.abortFailover("Failover target rejected psync request")
}

// abortFailover has this server stay the primary, or become it again.
func (f *Follower) abortFailover(why string) {
	f.parts.Log.Notice("Aborting failover: %s", why)
	if f.stage == failoverUnderWay {
		f.Promote()
	}
	f.clearFailover()
}

func (f *Follower) clearFailover() {
	f.failover = failover{}
	f.feed.HoldStill(false)
	f.core.Unpause(engine.PauseFailover)
}

// address is where a replica listens.
func (r *replica) address() Address { return Address{r.host(), r.port} }

// find is the replica that listens at to; nil: none does.
func (f *Feed) find(to Address) *replica {
	for _, r := range f.replicas {
		if at := r.address(); at.Port == to.Port && strings.EqualFold(at.Host, to.Host) {
			return r
		}
	}
	return nil
}

// takeOver is PSYNC with FAILOVER: our primary wants us in its place.
func (f *Follower) takeOver(c *command.Context) error {
	f.parts.Log.Warning("Failover request received for replid %s.", c.Args[1])
	if !f.on {
		return errFailover
	}
	if !strings.EqualFold(string(c.Args[1]), f.feed.ID) {
		return errFailoverID
	}
	f.Promote()
	f.parts.Log.Notice("MASTER MODE enabled (failover request from '%s')", describe(c.Client))
	return nil
}

var errFailoverID = failoverError("PSYNC FAILOVER replid must match my replid.")

// waitRefusal is WAIT's answer on a replica.
var waitRefusal = failoverError("WAIT cannot be used with replica instances. Please also note that since Redis 4.0 " +
	"if a replica is configured " +
	"to be writable (which is not the default) writes to replicas are just local and are not propagated.")

// waitAOFRefusal is WAITAOF's.
var waitAOFRefusal = failoverError("WAITAOF cannot be used with replica instances. Please also note that writes to " +
	"replicas are just local " +
	"and are not propagated.")

// describeRole is ROLE of a replica: [slave, host, port, state, offset].
func (f *Follower) describeRole(c *command.Context) {
	c.Reply.Array(5)
	c.Reply.BulkString("slave")
	c.Reply.BulkString(f.link.Host)
	c.Reply.Int(int64(f.link.Port))
	c.Reply.BulkString(f.link.state.String())
	offset := int64(-1)
	if f.primary != nil {
		offset = f.feed.offset
	}
	c.Reply.Int(offset)
}
