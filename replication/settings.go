package replication

import (
	"context"
	"io"
	"math"
	"time"

	"spindle/engine/client"
	"spindle/engine/data/keyspace"
	"spindle/internal/disk"
	"spindle/internal/setting"
	"spindle/protocol"
)

// A Logger writes log lines for the operator.
type Logger interface {
	Notice(format string, args ...any)
	Warning(format string, args ...any)
}

// A Disk is the append-only file of this server, for WAITAOF. Turn only.
type Disk interface {
	On() bool
	// Synced reports whether all writes of cl are on disk.
	Synced(cl *client.Client) bool
	// Await wakes cl when all its writes are on disk. forget cancels the wait.
	Await(cl *client.Client) (forget func())
	// Confirmed returns the offset up to which the log is on disk, and the log's end. ok is false while the files do
	// not hold the data set.
	Confirmed() (synced, end int64, ok bool)
}

// A Saver writes a view as an RDB stream.
type Saver interface {
	// Prepare is called in the turn that freezes view. The function it returns writes the whole view to w. It may run on
	// any goroutine, and more than once. It writes the same number of bytes each time, and ends early when ctx does.
	Prepare(ctx context.Context, replID string, offset int64, only Filter, dialect Dialect) func(
		w io.Writer, view *keyspace.View) error
	// Holds returns which forms, of those that only some servers read, may be among the data. Turn only.
	Holds() Forms
	// Find looks for a key of the view that holds one of forms. Any goroutine.
	Find(view *keyspace.View, forms Forms) (x Find, found bool)
}

// A Dialect is the format variant of an RDB stream.
type Dialect uint8

const (
	CommonDialect Dialect = iota // as rdb-write-version says, in Redis's dialect
	ValkeyDialect                // with deadlines of hash fields in Valkey's form
	MemoryDialect                // CommonDialect with remembered message names, which a spindle can read
)

// A Filter is what an RDB stream leaves out for a replica.
type Filter struct{ NoKeys, NoFunctions bool }

// An OutputLimit bounds the bytes kept for a replica that does not read them. 0 means no limit.
type OutputLimit struct {
	Hard, Soft int64
	Seconds    int64 // how long a replica may be beyond Soft
}

// Settings are the parameters of the primary's side.
type Settings struct {
	PingPeriod setting.Int // repl-ping-replica-period, seconds
	Timeout    setting.Int // repl-timeout, seconds
	MinWrite   setting.Int // min-replicas-to-write
	MaxLag     setting.Int // min-replicas-max-lag, seconds

	AckMode      setting.Enum[ackMode]    // ack-mode
	AckOnTimeout setting.Enum[ackTimeout] // ack-on-timeout
	MinAck       setting.Int              // min-replicas-to-ack
	AckTimeout   setting.Int              // ack-timeout, ms

	BacklogSize setting.Int // repl-backlog-size, bytes
	BacklogTTL  setting.Int // repl-backlog-ttl, seconds; 0: the backlog stays
	DiskSize    setting.Int // repl-backlog-disk-size, bytes; 0: nothing goes to disk

	Throttle setting.Bool // repl-throttling-enabled

	Diskless     setting.Bool // repl-diskless-sync: full syncs wait for other replicas, to share one
	SyncDelay    setting.Int  // repl-diskless-sync-delay, seconds
	SyncReplicas setting.Int  // repl-diskless-sync-max-replicas; 0: no number ends the delay

	unread struct{ noDelay setting.Bool }

	Output func() OutputLimit // of the replica class
	Disk   Disk
	Log    Logger
	Files  disk.System   // the file system of the backlog's part on disk
	Dir    func() string // the present folder of that part
}

// An ackMode says when a replica has confirmed a write.
type ackMode int

const (
	ackMemory ackMode = iota // the replica has applied it
	ackDisk                  // the replica has synced it
)

// An ackTimeout says what happens to replies that replicas do not confirm in time.
type ackTimeout int

const (
	ackError   ackTimeout = iota // they become errors
	ackDegrade                   // they leave, and later ones do not wait, until the replicas acknowledge again
)

// Patience returns repl-timeout.
func (s *Settings) Patience() time.Duration { return time.Duration(s.Timeout.Get()) * time.Second }

// OutputMost returns the hard limit of the bytes that wait for a replica, or 0 for none.
func (s *Settings) OutputMost() int64 { return s.Output().Hard }

// Rows returns the settings for CONFIG and the configuration file, and gives each its default.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("repl-ping-replica-period", &s.PingPeriod, 10, setting.Between(1, math.MaxInt32),
			setting.Also("repl-ping-slave-period")),
		setting.NewInt("repl-timeout", &s.Timeout, 60, setting.Between(1, math.MaxInt32)),
		setting.NewInt("min-replicas-to-write", &s.MinWrite, 0, setting.Between(0, math.MaxInt32),
			setting.Also("min-slaves-to-write")),
		setting.NewInt("min-replicas-max-lag", &s.MaxLag, 10, setting.Between(0, math.MaxInt32),
			setting.Also("min-slaves-max-lag")),
		setting.NewInt("min-replicas-to-ack", &s.MinAck, 0, setting.Between(0, protocol.AckLevels)),
		setting.NewInt("ack-timeout", &s.AckTimeout, 1000, setting.Between(1, math.MaxInt32)),
		setting.NewEnum("ack-mode", &s.AckMode, ackMemory, []setting.Choice[ackMode]{
			{Name: "memory", Value: ackMemory}, {Name: "disk", Value: ackDisk}}),
		setting.NewEnum("ack-on-timeout", &s.AckOnTimeout, ackError, []setting.Choice[ackTimeout]{
			{Name: "error", Value: ackError}, {Name: "degrade", Value: ackDegrade}}),
		setting.NewMemory("repl-backlog-size", &s.BacklogSize, 1<<20, setting.Between(1, math.MaxInt64),
			setting.Clamp(16<<10, math.MaxInt64)),
		setting.NewInt("repl-backlog-ttl", &s.BacklogTTL, 3600, setting.Between(0, math.MaxInt64)),
		setting.NewMemory("repl-backlog-disk-size", &s.DiskSize, 0, setting.Between(0, math.MaxInt64)),
		setting.NewBool("repl-throttling-enabled", &s.Throttle, false),
		setting.NewBool("repl-disable-tcp-nodelay", &s.unread.noDelay, false,
			setting.Nothing("connections never wait to fill a packet")),
		setting.NewBool("repl-diskless-sync", &s.Diskless, true),
		setting.NewInt("repl-diskless-sync-delay", &s.SyncDelay, 5, setting.Between(0, math.MaxInt32)),
		setting.NewInt("repl-diskless-sync-max-replicas", &s.SyncReplicas, 0, setting.Between(0, math.MaxInt32)),
	}
}
