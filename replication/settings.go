package replication

import (
	"math"

	"spindle/engine/client"
	"spindle/internal/setting"
)

// A Logger is where the feed reports to the operator.
type Logger interface {
	Notice(format string, args ...any)
	Warning(format string, args ...any)
}

// A Disk is what WAITAOF asks about the append-only file of this server. Its methods run in turns.
type Disk interface {
	On() bool
	// Synced says whether the disk has confirmed everything that cl has written.
	Synced(cl *client.Client) bool
	// Await wakes cl when it has. forget ends that.
	Await(cl *client.Client) (forget func())
	// Confirmed is up to where the disk has the log, and where that ends, in offsets of the log's own. ok is false
	// while what is on disk is not the data set.
	Confirmed() (synced, end int64, ok bool)
}

// An OutputLimit bounds what is kept for a replica that does not take it, in bytes. 0 is no limit.
type OutputLimit struct {
	Hard, Soft int64
	Seconds    int64 // how long Soft may be passed
}

// Settings are the parameters of the primary's side.
type Settings struct {
	PingPeriod setting.Int // repl-ping-replica-period, seconds
	Timeout    setting.Int // repl-timeout, seconds
	MinWrite   setting.Int // min-replicas-to-write
	MaxLag     setting.Int // min-replicas-max-lag, seconds

	BacklogSize setting.Int // repl-backlog-size, bytes
	BacklogTTL  setting.Int // repl-backlog-ttl, seconds; 0: it stays

	Diskless     setting.Bool // repl-diskless-sync: full syncs wait for others that ask, so that they share one
	SyncDelay    setting.Int  // repl-diskless-sync-delay, seconds
	SyncReplicas setting.Int  // repl-diskless-sync-max-replicas; 0: no number ends the delay

	unread struct{ noDelay setting.Bool }

	Output func() OutputLimit // of the replica class
	Disk   Disk
	Log    Logger
}

// Rows are the settings as CONFIG and the configuration file know them. Calling it gives every one its default.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("repl-ping-replica-period", &s.PingPeriod, 10, setting.Between(1, math.MaxInt32),
			setting.Also("repl-ping-slave-period")),
		setting.NewInt("repl-timeout", &s.Timeout, 60, setting.Between(1, math.MaxInt32)),
		setting.NewInt("min-replicas-to-write", &s.MinWrite, 0, setting.Between(0, math.MaxInt32),
			setting.Also("min-slaves-to-write")),
		setting.NewInt("min-replicas-max-lag", &s.MaxLag, 10, setting.Between(0, math.MaxInt32),
			setting.Also("min-slaves-max-lag")),
		setting.NewMemory("repl-backlog-size", &s.BacklogSize, 1<<20, setting.Between(1, math.MaxInt64),
			setting.Clamp(16<<10, math.MaxInt64)),
		setting.NewInt("repl-backlog-ttl", &s.BacklogTTL, 3600, setting.Between(0, math.MaxInt64)),
		setting.NewBool("repl-disable-tcp-nodelay", &s.unread.noDelay, false,
			setting.Nothing("connections never wait to fill a packet")),
		setting.NewBool("repl-diskless-sync", &s.Diskless, true),
		setting.NewInt("repl-diskless-sync-delay", &s.SyncDelay, 5, setting.Between(0, math.MaxInt32)),
		setting.NewInt("repl-diskless-sync-max-replicas", &s.SyncReplicas, 0, setting.Between(0, math.MaxInt32)),
	}
}

// WantsReplicas says whether writes depend on replicas at all.
func (f *Feed) WantsReplicas() bool {
	return f.settings.MinWrite.Get() > 0 && f.settings.MaxLag.Get() > 0
}

// GoodReplicas counts those that are online and have reported within min-replicas-max-lag.
func (f *Feed) GoodReplicas() (n int64) {
	oldest := f.core.SteadyMs() - f.settings.MaxLag.Get()*1000
	for _, r := range f.replicas {
		if r.state == online && r.ackMs >= oldest {
			n++
		}
	}
	return n
}

// EnoughReplicas says whether a write may be taken.
func (f *Feed) EnoughReplicas() bool {
	return !f.WantsReplicas() || f.following || f.GoodReplicas() >= f.settings.MinWrite.Get()
}
