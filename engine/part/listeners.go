package part

import (
	"slices"
	"time"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/invariant"
)

// Listeners are the functions of a feature that the core calls when something happens. Each may be nil.
//
// All run inside the turn. An event without listeners costs the core one comparison with nil.
type Listeners struct {
	// Order is the position among the listeners of one event. The lowest is called first. Listeners with equal Order
	// are called as they subscribed.
	Order Order

	// Touched is called when a key of db has changed, but only while keyspace.Keyspace.Watching is above 0. key is
	// lent.
	Touched func(db int, key []byte)

	// Emptying is called before every key of db is removed, Swapping before the contents of a and b change places.
	// Renewing is called once before either, for one database or for all.
	Emptying func(db int)
	Swapping func(a, b int)
	Renewing func()
	// Emptied is called after FLUSHALL has removed all keys, before its changes are counted.
	Emptied func(removed int)

	// Publish sends a keyspace event through pub/sub. Both arguments are lent. Heard reports whether any client may get
	// the event. If Heard is nil, a client may. Only one feature may have these two.
	Publish func(channel, payload []byte)
	Heard   func() bool

	// Logged is called after a slow command, or one with a large request or reply. args are lent. Latency is called
	// after an event that took longer than latency-monitor-threshold.
	Logged  func(cl *client.Client, args [][]byte, m Measure)
	Latency func(event string, took time.Duration)

	// Wrote is called when the sinks have received the effects of a command of cl.
	Wrote func(cl *client.Client)
	// Read is called when a command of a client with client.Tracking has run.
	Read func(cl *client.Client, call *command.Spec, args [][]byte)

	// ExecRefused is called when an EXEC may not run. It returns the error to reply. Only one feature may have it.
	ExecRefused func(cl *client.Client, why error) error

	// Names returns the names of users in a new client's certificate. The client's loop calls it outside the turn. Only
	// one feature may have it.
	Names func(cl *client.Client) []string

	Attack func(cl *client.Client)              // cl speaks HTTP; it is about to be closed
	Frozen func()                               // a view was taken
	Lent   func()                               // a command has lent the turn, or such a command has ended
	Laden  func()                               // reclaimers need another thread, or no longer do
	Gone   func(cl *client.Client)              // a client has left
	Denied func(cl *client.Client, e acl.Entry) // a call or an AUTH of cl was refused; e lacks its Client

	// OtherMemory returns the bytes used in addition to data and clients, and how many of them count towards no limit.
	OtherMemory func() (used, spared int64)

	// ManyCodes is called when clients have made up so many error codes that errorstats stops.
	ManyCodes func(codes []string)

	// Diverged is called when a command from our primary or from a replica has failed here. spec may be nil.
	Diverged func(cl *client.Client, spec *command.Spec, err error)

	// Answered is called when a command of a replica had a reply. The replica is about to be closed. spec may be nil.
	Answered func(cl *client.Client, spec *command.Spec)

	EvictingClient func(cl *client.Client) // cl is about to be closed because clients cost too much together
	Stuck          func()                  // clients cost too much together, but none of them may be evicted

	// Tick is called every 100 ms. Each call must take no more than some tens of µs.
	Tick func(nowMs int64)
}

// A Measure is the reason why a command is logged: its microseconds if it is slow, or the bytes of its request or
// reply.
type Measure struct {
	Log   CommandLog
	Value int64
}

// A CommandLog is one of the logs of COMMANDLOG.
type CommandLog uint8

const (
	Slow CommandLog = iota
	LargeRequest
	LargeReply
	CommandLogs
)

// An Order is a position among the listeners of one event.
type Order int

// These are the orders that listeners depend on.
const (
	// ForgetKeys: what a client watched, received and cached is forgotten before the streams forget the client.
	ForgetKeys Order = 10 * (iota + 1)
	Streams          // the stream to replicas, then the link to a primary
	Log              // the append-only file: after the stream has its bytes
	Saving           // save rules run after the streams have counted
	Ending           // a shutdown runs after saving has begun
	Later            // all that depends on none of the above
)

// An Events holds the listeners of all features, joined into one function for each event. So the core calls it
// directly.
type Events struct {
	Listeners
	Ticks []func(nowMs int64)

	all []Listeners
}

// Add subscribes l. Call it before the first turn.
func (e *Events) Add(l Listeners) {
	at := len(e.all)
	for at > 0 && e.all[at-1].Order > l.Order {
		at--
	}
	all := slices.Insert(e.all, at, l)
	*e = Events{all: all}
	for i := range all {
		e.join(&all[i])
	}
}

// join makes the listeners of l run after those joined so far.
func (e *Events) join(l *Listeners) {
	e.Touched = both2(e.Touched, l.Touched)
	e.Emptying, e.Swapping = both1(e.Emptying, l.Emptying), both2(e.Swapping, l.Swapping)
	e.Renewing, e.Emptied = both(e.Renewing, l.Renewing), both1(e.Emptied, l.Emptied)
	e.Logged, e.Latency = both3(e.Logged, l.Logged), both2(e.Latency, l.Latency)
	e.Wrote, e.Read = both1(e.Wrote, l.Wrote), both3(e.Read, l.Read)
	e.Attack, e.Frozen, e.Lent, e.Laden = both1(e.Attack, l.Attack), both(e.Frozen, l.Frozen), both(e.Lent, l.Lent),
		both(e.Laden, l.Laden)
	e.Gone, e.Denied, e.ManyCodes = both1(e.Gone, l.Gone), both2(e.Denied, l.Denied), both1(e.ManyCodes, l.ManyCodes)
	e.Diverged, e.Answered = both3(e.Diverged, l.Diverged), both2(e.Answered, l.Answered)
	e.EvictingClient, e.Stuck = both1(e.EvictingClient, l.EvictingClient), both(e.Stuck, l.Stuck)
	if l.Tick != nil {
		e.Ticks = append(e.Ticks, l.Tick)
	}
	if f, g := e.OtherMemory, l.OtherMemory; f == nil {
		e.OtherMemory = g
	} else if g != nil {
		e.OtherMemory = func() (used, spared int64) {
			used, spared = f()
			u, s := g()
			return used + u, spared + s
		}
	}
	if l.Publish != nil {
		invariant.That(e.Publish == nil, "two features publish keyspace events")
		e.Publish, e.Heard = l.Publish, l.Heard
	}
	if l.Names != nil {
		invariant.That(e.Names == nil, "two features name the users of connections")
		e.Names = l.Names
	}
	if l.ExecRefused != nil {
		invariant.That(e.ExecRefused == nil, "two features answer for EXEC")
		e.ExecRefused = l.ExecRefused
	}
}

// both returns a function that calls f, then g. If one of them is nil, it returns the other.
func both(f, g func()) func() {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func() { f(); g() }
}

func both1[A any](f, g func(A)) func(A) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(a A) { f(a); g(a) }
}

func both2[A, B any](f, g func(A, B)) func(A, B) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(a A, b B) { f(a, b); g(a, b) }
}

func both3[A, B, C any](f, g func(A, B, C)) func(A, B, C) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(a A, b B, c C) { f(a, b, c); g(a, b, c) }
}
