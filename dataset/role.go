package dataset

import (
	"spindle/bgsave"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/protocol"
	"spindle/replication"
)

// newFollower makes the side of this server that is a replica.
func (d *Set) newFollower() *replication.Follower {
	return replication.NewFollower(d.Core, d.Feed, &d.Settings.Follow, replication.FollowerParts{
		Loader: copyLoader{d}, Dial: d.Dial, Port: d.Port,
		Changed:    func() { d.roleChanged() },
		Fatal:      func(why string) { panic(why) },
		PatienceMs: func() int64 { return d.Settings.Feed.Timeout.Get() * 1000 },
		Log:        d.Log,
		Clustered:  d.Cluster,
		Notices:    d.Notices,
	})
}

// roleBarriers returns the barriers of a replica. The first sends clients that have asked for it to the primary. The
// others refuse writes and, if configured, every command that shows data while the link is down.
func (d *Set) roleBarriers() (all []*part.Barrier) {
	redirect := &part.Barrier{Name: "redirect", Redirects: true, Refuse: func(cl *client.Client, call part.Call) error {
		const data = command.Write | command.ReadOnly
		switch {
		case !cl.Is(client.Redirects) || call.Flags&data == 0:
			return nil
		case cl.Is(client.ReadOnly) && call.Flags&command.Write == 0:
			return nil
		case d.Ends.HandingOver():
			return command.ErrHold // both servers are replicas, and each would send the client to the other one
		}
		return replication.ErrRedirect(d.Settings.Follow.Of.Get())
	}}
	readOnly := &part.Barrier{Name: "read-only", Refuse: func(cl *client.Client, call part.Call) error {
		if call.Flags&command.Write == 0 || cl.Is(client.Primary) {
			return nil
		}
		switch {
		case d.Notices.Waits(cl):
			return command.ErrHold
		case d.Notices.Stranded(cl):
			d.Core.Kill(cl, false)
			return command.ErrHold
		}
		return protocol.ErrReadOnly
	}}
	d.stale = &part.Barrier{Name: "stale", Refuse: func(cl *client.Client, call part.Call) error {
		switch {
		case call.Flags&command.Stale != 0 || cl.Is(client.Primary):
			return nil
		case cl.Script != nil:
			return errStaleInScript
		}
		return protocol.ErrPrimaryDown
	}}
	asyncLoading := &part.Barrier{Name: "async-loading", Refuse: func(cl *client.Client, call part.Call) error {
		if call.Flags&command.NoAsyncLoading == 0 || cl.Is(client.Primary) {
			return nil
		}
		return protocol.ErrLoading
	}}
	d.roleChanged = func() {
		on := d.Follower.Following()
		if d.Sentinel {
			return
		}
		if d.emptied && !on { // a primary's data set is its own, even if it is empty
			d.emptied = false
			d.AOF.Replaced()
		}
		d.Log.SetRole(map[bool]byte{false: 'M', true: 'S'}[on])
		d.Core.Raise(redirect, on && !d.Cluster)
		d.Core.Raise(readOnly, on && d.Settings.Follow.ReadOnly.Get())
		d.Core.Raise(d.stale, d.isStale())
		d.Core.Raise(asyncLoading, d.Loading.ServesOld.Load())
		d.Core.IgnoreMemoryLimit(on && d.Settings.Follow.IgnoreMemory.Get())
		d.Role(on)
	}
	return []*part.Barrier{redirect, readOnly, d.stale, asyncLoading}
}

// writeThrough handles a primary's command on a replica whose disk fails. A refusal would make the two data sets
// differ.
func (d *Set) writeThrough(call part.Call) {
	if !d.Settings.Follow.IgnoreDiskErrors.Get() && !call.Spec.Has(command.Probes) {
		panic("Replica was unable to write command to disk.")
	}
	if now := d.Core.Now(); now-d.diskLoggedMs > 10_000 {
		d.diskLoggedMs = now
		d.Log.Warning("Replica is applying a command even though it is unable to write to disk.")
	}
}

// isStale reports whether this replica has lost its primary and must not show its data.
func (d *Set) isStale() bool {
	return d.Follower.Following() && !d.Follower.Up() && !d.Settings.Follow.StaleData.Get()
}

// diskBarrier returns the barrier that refuses writes while saving is configured and fails.
func (d *Set) diskBarrier() *part.Barrier {
	return &part.Barrier{Name: "disk", Refuse: func(cl *client.Client, call part.Call) error {
		if call.Flags&command.Write == 0 && (!call.Spec.Has(command.Probes) || cl.Script != nil) {
			return nil
		}
		if cl.Is(client.Primary) {
			d.writeThrough(call)
			return nil
		}
		if err := d.AOF.Refusal(); err != nil && !d.Scheduler.WritesStopped() {
			return err
		}
		return bgsave.ErrStopWrites
	}}
}

// stopWrites sets or removes the barrier of the disk.
func (d *Set) stopWrites() {
	d.Core.Raise(d.disk, d.Scheduler.WritesStopped() || d.AOF.Refusal() != nil)
}

// replicasBarrier returns the barrier that refuses writes while fewer than min-replicas-to-write replicas are good. A
// replica may leave or come back within a unit, so they are counted when the unit begins.
func (d *Set) replicasBarrier() *part.Barrier {
	return &part.Barrier{Name: "replicas", Refuse: func(_ *client.Client, call part.Call) error {
		mayWrite := call.Flags&(command.Write|command.MayReplicate) != 0 || call.Spec.Has(command.RunsQueue)
		if mayWrite && d.Core.Idle() {
			d.enoughReplicas = d.Feed.EnoughReplicas()
		}
		if call.Flags&command.Write == 0 || d.enoughReplicas {
			return nil
		}
		return protocol.ErrNoReplicas
	}}
}
