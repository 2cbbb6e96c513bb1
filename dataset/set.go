// Package dataset is the life of the data set. It loads, saves and logs the data set, copies it to replicas and takes
// it from a primary. At shutdown it saves the data set to disk.
//
// Owner: the turn. Load runs in the main goroutine, a full copy in that of the link to the primary.
// Never: knows sockets or commands on keys.
// Start at New; part.go is what the data set offers to the server.
package dataset

import (
	"context"
	"net"
	"os"
	"slices"
	"time"

	"spindle/aof"
	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/catalogue"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/maintenance"
	"spindle/engine/part"
	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/protocol"
	"spindle/replication"
	"spindle/scripting"
)

// Settings are the settings of saving, the append-only file, and both sides of replication.
type Settings struct {
	Save   bgsave.Settings
	Log    aof.Settings
	Feed   replication.Settings
	Follow replication.FollowerSettings
}

// Rows returns all rows, and gives every setting its default.
func (s *Settings) Rows() []setting.Row {
	return slices.Concat(s.Save.Rows(), s.Feed.Rows(), s.Follow.Rows(), s.Log.Rows())
}

// Parts are what a Set needs from the server.
type Parts struct {
	Settings *Settings
	Core     *engine.Core
	Space    *keyspace.Keyspace
	Heap     *memory.Heap
	Whole    *command.Whole
	Clients  *client.Registry
	Gate     *protocol.Gate
	Log      *logging.Logger
	Common   *command.Settings
	Data     *catalogue.Settings
	Cluster  bool // cluster mode
	Sentinel bool // this server is a Sentinel without data
	Notices  *maintenance.Notices

	// Dial connects to a primary. Port returns the port that this server reports to its primary.
	Dial             func(ctx context.Context, address, source string) (net.Conn, error)
	Port             func() int
	ReplicaOutput    func() replication.OutputLimit
	LatencyThreshold func() int64 // ms
	Latency          func(event string, took time.Duration)

	Serve   func()             // lets clients connect
	Loaded  func()             // the data set is complete. In a turn.
	Changed func()             // the loading state or the work outside the turns has changed. In a turn.
	Role    func(replica bool) // the role has changed. In a turn.

	Heir         func(at replication.Address) (id string) // the cluster's name of a replica of this node; "": none
	Serves       func() bool                              // this node is a primary with slots
	ShutdownWait func() int64                             // seconds
	Supervisor   func() *process.Supervisor
	Refused      func() // a signal's shutdown was given up
}

// A Set is the data set with its loading, saving and replication.
type Set struct {
	Parts
	Scheduler *bgsave.Scheduler
	Saver     *bgsave.Commands
	Loading   bgsave.Loading
	AOF       *aof.Log
	Feed      *replication.Feed
	Follower  *replication.Follower
	Ends      *replication.Ends
	Scripts   *scripting.Scripts // the server sets it before Load
	Shutdown  *Shutdown

	loadContext context.Context
	stopLoading func()

	disk, replicas, stale *part.Barrier
	enoughReplicas        bool // for the last unit that began, while the barrier replicas is up

	copying      bool          // a full copy is being loaded
	emptied      bool          // the data were dropped for a full copy that could not be loaded
	cutAt        time.Time     // when work was last cancelled because of kept memory
	diskLoggedMs int64         // when a write of a replica with a failing disk was last logged, Unix ms
	roleChanged  func()        // sets or removes the barriers of a replica
	handsOver    func() bool   // slots are about to have another owner; set in cluster mode
	ends         func() []byte // commands that complete a copy of the log as of now; set in cluster mode
}

// New makes a Set. The append-only file is off until the data set is loaded.
func New(p Parts) *Set {
	d := &Set{Parts: p}
	d.loadContext, d.stopLoading = context.WithCancel(context.Background())
	d.Shutdown = &Shutdown{d: d, log: d.Log, Done: make(chan struct{})}
	s := d.Settings
	d.Scheduler = bgsave.NewScheduler(bgsave.Parts{
		Settings: &s.Save, Log: d.Log, Freeze: func() bgsave.View { return d.Core.Freeze() }, Dirty: d.Core.Dirty,
		Turn: d.Core.Do, BeforeReply: d.Core.BeforeReply, Header: d.header, Clock: d.clockOf, Retained: d.Heap.Retained,
		Settled: func() { d.Core.Between(d.stopWrites) }, Held: d.holdsFiles,
		Streaming: func() bool { return d.Feed.Sending() },
		Busy:      func() bool { return d.AOF.Rewriting() }, Forks: func() int64 { return d.AOF.Forks() },
	})
	d.Saver = &bgsave.Commands{
		Scheduler: d.Scheduler, Settings: &s.Save, Limits: d.limits, Log: d.Log, SkipsSanitize: skipsSanitize,
		Turn: d.Core.Do, Writable: func(f func()) { d.Core.DoWhenWritable(f) }, Wake: d.Core.Wake,
		Readmit: d.Core.Readmit, Latch: d.Core.Latch,
	}
	d.AOF = aof.NewLog(aof.Parts{
		Core: d.Core, Settings: &s.Log, Log: d.Log, Gate: d.Gate, Dir: workingDir, Fatal: func() { os.Exit(1) },
		Base: d.baseOptions, Saving: func() bool { return d.Scheduler.InProgress() }, Held: d.holdsFiles,
		Changed: func() { d.Core.Between(d.stopWrites) }, Latency: d.logLatency, Room: d.logRoom,
		Ends: func() []byte {
			if d.ends == nil {
				return nil
			}
			return d.ends()
		},
	})
	s.Feed.Log, s.Feed.Disk, s.Feed.Output = d.Log, d.AOF, d.ReplicaOutput
	s.Feed.Files, s.Feed.Dir = disk.OS, workingDir
	d.Feed = replication.NewFeed(d.Core, &s.Feed, streamer{d})
	d.Follower = d.newFollower()
	d.Ends = replication.Join(d.Feed, d.Follower)
	return d
}
