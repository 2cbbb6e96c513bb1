package engine

import (
	"time"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
)

// Hooks are what other packages want to be told by the core, inside the turn. Nil ones are not called.
type Hooks struct {
	// Publish sends a keyspace event through pub/sub; both are lent. Heard tells whether anybody may hear it; nil:
	// somebody may.
	Publish func(channel, payload []byte)
	Heard   func() bool

	// Slow: a command took longer than slowlog-log-slower-than. Latency: an event took longer than
	// latency-monitor-threshold.
	Slow    func(cl *client.Client, args [][]byte, took time.Duration)
	Latency func(event string, took time.Duration)

	Wrote       func(cl *client.Client)                  // the sinks have got effects of a command of cl's
	Attack      func(cl *client.Client)                  // cl speaks HTTP; it is about to be closed
	ExecRefused func(cl *client.Client, why error) error // an EXEC that may not run: what to answer
	Frozen      func()                                   // a view was taken
	Lent        func()                                   // a command has lent the turn, or is over
	Laden       func()                                   // reclaimers need a thread of their own, or no longer
	Gone        func(cl *client.Client)                  // a client left: watches, subscriptions, replicas
	Denied      func(cl *client.Client, e acl.Entry)     // a call or an AUTH of cl's was refused; e lacks Client

	// Read: a command of a client with client.Tracking has run.
	Read func(cl *client.Client, call *command.Spec, args [][]byte)

	// OtherMemory gives the bytes that count as used beside data and clients, and how many of them count towards no
	// limit.
	OtherMemory func() (used, spared int64)

	// ManyCodes: clients have made up so many error codes that errorstats stop.
	ManyCodes func(codes []string)

	// Diverged: a command of our primary's or of a replica's failed here; spec may be nil.
	Diverged func(cl *client.Client, spec *command.Spec, err error)

	// Answered: a replica's command had a reply, and the replica is about to be closed; spec may be nil.
	Answered func(cl *client.Client, spec *command.Spec)

	EvictingClient func(cl *client.Client) // cl is about to be closed because clients cost too much together
	Stuck          func()                  // they still do, and none of them may be evicted

	Tick []func(nowMs int64) // every 100 ms, each bounded to some tens of µs
}

// SetHooks tells the core who wants to hear of what. Before the first Serve.
func (c *Core) SetHooks(h Hooks) { c.hooks, c.meter.manyCodes = h, h.ManyCodes }

// OnTick adds to what is done ten times a second. Before the first Serve.
func (c *Core) OnTick(f func(nowMs int64)) { c.hooks.Tick = append(c.hooks.Tick, f) }
