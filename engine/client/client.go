// Package client holds one connection as the core sees it: its user, its database, its queued commands.
//
// Owner: the core; only the holder of the turn reads or writes a Client, except where a field says otherwise.
// Never: blocks, or touches a socket (protocol.Conn does, on its loop).
// Start here; registry.go finds clients by id.
package client

import (
	"sync/atomic"

	"spindle/internal/setting"
	"spindle/protocol"
)

// Flags say what a client is, and which states it is in.
type Flags uint64

const (
	Multi         Flags = 1 << iota // between MULTI and EXEC (x)
	DirtyCAS                        // a watched key changed: EXEC answers null (d)
	DirtyExec                       // a queued command was refused: EXEC aborts
	Blocked                         // waits for a key, a replica or the end of a pause (b)
	Replica                         // receives the stream of effects (S)
	Primary                         // the link to our primary (M)
	Monitor                         // MONITOR (O)
	PubSub                          // RESP2 with subscriptions: few commands allowed (P)
	ReadOnly                        // READONLY (r)
	Redirects                       // CLIENT CAPA redirect: it understands -REDIRECT
	NoEvict                         // CLIENT NO-EVICT (e)
	NoTouch                         // CLIENT NO-TOUCH (T)
	CloseASAP                       // to be closed as soon as the core has no more use for it (A)
	CloseAfter                      // to be closed after its output has been sent (c)
	ReplyOff                        // CLIENT REPLY OFF
	ReplySkip                       // the current command's reply is dropped
	ReplySkipNext                   // CLIENT REPLY SKIP: the next command's reply is dropped
	Tracking                        // CLIENT TRACKING (t)
	Unix                            // came over the Unix socket (U)
	Fake                            // no connection: scripts, AOF loading
	Asking                          // cluster ASKING, for one command
	InScript                        // runs inside EVAL or FCALL
	Paused                          // held back by CLIENT PAUSE
	DenyBlocking                    // may not block: MULTI, scripts
	Busy                            // Blocked, but its command is at work outside the turn: it does not count as waiting
	Restricted                      // its user has limited rights: admission checks each command

	// These refine Tracking:
	TrackingBroken // the client that its invalidations are redirected to has left (R)
	TrackingBcast  // it gets changes of all keys with its prefixes (B)
	TrackingOptIn  // keys are tracked after CLIENT CACHING YES alone
	TrackingOptOut // keys are not tracked after CLIENT CACHING NO
	TrackingNoLoop // it does not get its own changes
	Caching        // CLIENT CACHING was given for the command, or transaction, to come

	Acks // its replies wait for replicas (Client.AckLevel)

	Throttled // held back by the throttle of writers (h)

	Importing // it sends the keys of slots that move here (i), and gets no replies
)

// AllTracking is all flags that CLIENT TRACKING sets. They are cleared when tracking ends.
const AllTracking = Tracking | TrackingBroken | TrackingBcast | TrackingOptIn | TrackingOptOut |
	TrackingNoLoop | Caching

// A User is the user whose rights a client has. engine/acl implements it.
type User interface{ Name() string }

// A Client is one connection, or a stand-in for one (Fake).
type Client struct {
	ID            int64
	Conn          protocol.Conn // nil for a Fake
	From          string        // the address of a Fake, if it has one
	Flags         Flags
	DB            int
	User          User // the default user until AUTH; nil for a Fake that may do everything
	Authenticated bool
	Name          string
	LibName       string
	LibVersion    string
	CreatedMs     int64
	LastMs        int64  // of the last command, Unix ms
	LastCommand   string // "get", "client|list": of the command running or run last; "NULL" before the first
	Protocol      int    // 2 or 3
	TurnSeen      uint64 // the turn in which its last reply was decided

	Redirect int64 // the client that gets its invalidations, by id; 0 means the client itself

	Queue   *Queue  // MULTI's; nil outside
	Script  *Script // state of the script whose commands this Fake runs; nil for others
	Watched []WatchedKey
	Wait    any             // what it is blocked on, for the core's blocking.go
	Out     *protocol.Reply // the batch's reply, or a private one while the client is blocked

	MaxBulk *setting.Int // proto-max-bulk-len, for all but our primary; nil for a Fake

	Reading                 int // bytes of the batch that is being run, and the bytes read after it
	CommandsRun             uint64
	InputBytes, OutputBytes uint64
	ReplicaState            any   // replication's own; nil for others
	FamilyBytes             int   // bytes that families keep for the client: watched keys, subscriptions
	StreamOffset            int64 // how long the replicas' stream was when the client had last added to it (WAIT)
	LogOffset               int64 // the same of the append-only file (WAITAOF)

	AckWish  int8  // the argument of CLIENT ACK, plus 1; 0 means that there was none
	AckShown uint8 // the level that the replies of the running batch wait for
	ackLevel atomic.Uint32

	seats   int // in Audiences
	index   int // in its Registry's list
	account account
}

// Is reports whether any of the flags in f is set.
func (c *Client) Is(f Flags) bool { return c.Flags&f != 0 }

// IsSeated reports whether c is in an Audience (client.A3).
func (c *Client) IsSeated() bool { return c.seats > 0 }

// Addr returns the client's address as logs show it: "127.0.0.1:50000". It is empty for a Fake of the server's own.
func (c *Client) Addr() string {
	if c.Conn != nil {
		return c.Conn.RemoteAddr()
	}
	return c.From
}

// UserName returns the name of the client's user, as CLIENT LIST shows it.
func (c *Client) UserName() string {
	if c.User == nil {
		return "(superuser)"
	}
	return c.User.Name()
}

// Age returns the client's age in seconds. It is the difference of two Unix times in whole seconds, as in Redis.
func (c *Client) Age(nowMs int64) int64 { return max(0, nowMs/1000-c.CreatedMs/1000) }

// Limits implements protocol.Limiter. The client's loop calls it outside the turn, on the goroutine that runs the
// client's commands. Only this goroutine changes Authenticated. Limits does not read Flags, because turns of other
// loops change them.
func (c *Client) Limits() protocol.Limits {
	l := protocol.Limits{Unauthenticated: !c.Authenticated}
	if c.MaxBulk != nil {
		l.MaxBulk = int(c.MaxBulk.Get())
	}
	return l
}

// Targets are the kinds of sinks that get an effect.
type Targets uint8

// The log is the append-only file.
const (
	ToLog Targets = 1 << iota
	ToReplicas
	ToAll = ToLog | ToReplicas
)

// A Script is the state of a running script that admission and propagation use. The scripting package keeps it, in the
// turn.
type Script struct {
	ReadOnly   bool         // EVAL_RO, FCALL_RO, no-writes: it may not write
	AllowOOM   bool         // it may write although memory is over its limit
	AllowStale bool         // it may read from a replica whose link is down
	AnySlot    bool         // each of its commands may have keys of another hash slot
	Slot       int          // slot of all keys of its commands, unless AnySlot; NoSlot at first
	Writes     *atomic.Bool // set with Wrote, for a reader outside the turn; nil if there is none
	// The script has run a command that may write. It is not refused for memory any more, and cannot be killed.
	Wrote   bool
	Targets Targets // the sinks that get its writes (redis.set_repl)
}

// NoSlot is a hash slot that is not known yet.
const NoSlot = -1

// Queue holds the commands after MULTI. They are copies, because the read buffer is only lent (R2).
type Queue struct {
	Commands []Queued
	Next     int    // of Commands, the one that EXEC runs next
	MayBlock bool   // the client might block before EXEC began
	Flags    uint64 // the union of the queued commands' command.Flags
	Lacking  uint64 // the flags that at least one of the queued commands lacks
	Bytes    int
	DB       int // where the next command will run, unless a SELECT among them fails
}

// Queued is one command inside MULTI. Spec is a *command.Spec. Package client is below command and cannot name the
// type.
type Queued struct {
	Args [][]byte
	Spec any
}

// WatchedKey is one key under WATCH.
type WatchedKey struct {
	DB      int
	Key     string
	Existed bool  // at the WATCH the key existed and had not passed its deadline
	Past    bool  // at the WATCH the key was past its deadline, so its removal is no change
	Ends    int64 // its deadline then, Unix ms; 0 for none
	At      int   // the client's place in the list of those that watch the key
}
