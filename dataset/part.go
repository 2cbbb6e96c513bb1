package dataset

import (
	"slices"

	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/scripting"
)

// Join fills in the part of the data set.
func (d *Set) Join(p *part.Part) {
	p.Families = append([]command.Family{d.Shutdown.Family(), d.Ends.Family(), d.Feed.WaitFamily(), d.AOF.Family()},
		d.Saver.Families()...)
	p.Sections = slices.Concat(d.AOF.Sections(), d.Scheduler.Sections(&d.Loading), d.Saver.Sections(), d.Ends.Sections())
	role := d.roleBarriers()
	d.disk, d.replicas = d.diskBarrier(), d.replicasBarrier()
	p.Barriers = append([]*part.Barrier{role[0], d.disk, d.replicas}, role[1:]...)
	p.Listeners = []part.Listeners{
		{Order: part.Streams, Gone: d.Feed.Gone, Wrote: d.Feed.Wrote},
		{Order: part.Streams, Gone: d.Follower.Gone, Diverged: d.Follower.Diverged, Answered: d.Follower.Answered,
			Tick: func(int64) { d.Ends.Tick(d.Core.SteadyMs()) }},
		{Order: part.Log, Wrote: d.AOF.Wrote, Tick: d.AOF.Tick, OtherMemory: func() (used, spared int64) {
			log := d.AOF.Memory()
			return log, log
		}},
		{Order: part.Saving, Tick: d.saveByRules,
			Emptied: func(removed int) { d.Scheduler.Flushed(int64(removed)) }},
		{Order: part.Ending, Tick: d.Shutdown.tick},
		{Order: part.Later, Tick: d.boundKept},
	}
	p.Follows = []part.Follow{
		part.On(d.Feed.ResizeBacklog, "repl-backlog-size"),
		part.On(d.Feed.ResizeSpool, "repl-backlog-disk-size"),
		{Try: d.switchLog, Names: []string{"appendonly"}},
		part.On(d.AOF.HistoryChanged, "aof-disable-auto-gc"),
		part.On(d.stopWrites, "stop-writes-on-bgsave-error", "save"),
		part.On(func() {
			d.enoughReplicas = d.Feed.EnoughReplicas()
			d.Core.Raise(d.replicas, d.Feed.WantsReplicas())
		}, "min-replicas-to-write", "min-replicas-max-lag"),
		part.On(d.Feed.AckNeedChanged, "min-replicas-to-ack"),
		part.On(d.Feed.AckModeChanged, "ack-mode"),
		part.On(d.roleChanged, "replica-read-only", "replica-serve-stale-data", "replica-ignore-maxmemory"),
		part.On(d.Follower.Hurry, "masterauth", "masteruser", "replica-ignore-unknown-commands"),
	}
	p.Threads = func() part.Need {
		switch {
		case d.Loading.Active.Load():
			return part.Working
		case d.AOF.Durable() || d.Follower.Following() || d.Feed.OnDisk():
			return part.Laden // a loop that waits in the kernel must not block the link's goroutine, or the disk's
		}
		return part.Idle
	}
	p.Ill = d.ill
	p.Reset = func() {
		d.Scheduler.ResetStats()
		d.Saver.ResetStats()
		d.Ends.ResetStats()
		d.AOF.ResetStats()
	}
}

// ill returns the reason why this data set should get no traffic, or "".
func (d *Set) ill() string {
	switch {
	case d.Shutdown.Waiting() || d.Shutdown.over:
		return "shutting down"
	case d.Scheduler.WritesStopped():
		return "writes refused: the last background save failed"
	case d.AOF.Refusal() != nil:
		return "writes refused: the append-only file cannot be written"
	}
	return ""
}

// saveByRules applies the save rules, except before the data set is complete or when the server ends.
func (d *Set) saveByRules(int64) {
	if !d.Shutdown.over && !d.Core.Loading() {
		d.Scheduler.Tick()
	}
}

// ScriptConditions returns the conditions that may refuse a script because of its flags. Like the barriers, they do not
// change within a unit.
func (d *Set) ScriptConditions() scripting.Conditions {
	return scripting.Conditions{
		Cluster:     d.Cluster,
		SaveFailed:  d.disk.Up && d.Scheduler.WritesStopped(),
		Stale:       d.stale.Up,
		ReadOnly:    d.Follower.Following() && d.Settings.Follow.ReadOnly.Get(),
		FewReplicas: d.replicas.Up && !d.enoughReplicas,
		OutOfMemory: d.Core.OutOfMemory(),
	}
}
