// Package lane is the admin lane: an address for RESP that replies to operators even while a command holds the turn.
//
// Its only loop owns the sessions, and replies from the last view that a turn has published. It waits for a free turn
// no longer than patience. The core does not know the lane's clients.
//
// Owner: the lane's loop, unless a method says otherwise.
// Start at Serve; view.go publishes, answers.go has the commands.
package lane

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"spindle/engine"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/diagnose"
	"spindle/engine/family/conn"
	"spindle/engine/family/introspect"
	"spindle/internal/info"
	"spindle/protocol"
	"spindle/reactor"
)

// Clients is the maximum number of clients. Newcomers is how many more may wait until others are closed for them.
const (
	Clients   = 64
	Newcomers = 32
)

const (
	patience = 3 * time.Millisecond // the wait for a turn
	slice    = 2 * time.Millisecond // how long one client's requests run before others are served
	unread   = 64 << 20             // bytes of replies that a client may leave unread
)

// Parts are the parts of the server that the lane uses.
type Parts struct {
	Core       *engine.Core
	Came       func()                         // a client has connected
	Full       func()                         // a client is closed for its unread replies
	Kill       func(isEval bool) error        // SCRIPT KILL or FUNCTION KILL; any goroutine
	End        func(asks protocol.Conn)       // ends the process without a turn
	Shutdown   func(refuse func(error)) error // SHUTDOWN NOSAVE; turn only, and so is refuse
	Connection conn.Deps                      // turn only; Mode and Modules: any goroutine

	Refusals  *acl.Inbox
	Logs      *diagnose.CommandLogs
	Catalogue *command.Catalogue
	Sections  []info.Section
}

// A Lane is the address and its clients.
type Lane struct {
	Parts
	Reactor *reactor.Reactor
	open    map[protocol.Conn]*session
	serving *session // only during Serve

	report *introspect.Report // turn only, like the next two
	ticks  int
	copies *client.Copies
	view   atomic.Pointer[view]
}

// A session is a client of the lane.
type session struct {
	protocol.Limiter // of cl; the reactor must not see the other interfaces of a client of the core
	cl               *client.Client
	quits            bool
	ending           chan error // a SHUTDOWN waits for replicas; it gets the error if the shutdown is given up
}

// Address returns a session's address for the hooks of the reactor.
func Address(s any) string { return s.(*session).cl.Conn.RemoteAddr() }

// Open publishes the first view, and serves on the addresses of o.
func Open(p Parts, o reactor.Options) (l *Lane, err error) {
	l = &Lane{Parts: p, open: map[protocol.Conn]*session{}, copies: client.NewCopies()}
	o.Handler, o.MaxClients, o.Backend, o.Loops = l, Clients+Newcomers, reactor.Gnet, 1
	if l.Reactor, err = reactor.New(o); err != nil {
		return nil, err
	}
	l.Core.Do(func() {
		l.report = introspect.NewReport(l.Sections)
		l.publish()
	})
	l.Reactor.Serve()
	return l, nil
}

// Open implements protocol.Handler. A full lane closes a client to admit the newcomer: first one without a password,
// then the one that has been idle longest.
func (l *Lane) Open(c protocol.Conn) (any, []byte) {
	cl, refusal := l.Core.NewClient(c)
	if cl == nil {
		return nil, refusal
	}
	cl.ID, cl.CreatedMs = l.Connection.Clients.NextID(), time.Now().UnixMilli()
	cl.User, cl.Authenticated = l.Connection.Users.Default(), l.Connection.Users.DefaultIsOpen()
	if len(l.open) >= Clients {
		victim := slices.MinFunc(slices.Collect(maps.Values(l.open)), func(a, b *session) int {
			return cmp.Compare(a.worth(), b.worth())
		})
		l.Closed(victim)
		victim.cl.Conn.Close(false)
	}
	s := &session{Limiter: cl, cl: cl}
	l.open[c] = s
	l.Came()
	return s, nil
}

// worth orders the sessions: the one with the least worth is closed first. Times in ms have fewer than 62 bits.
func (s *session) worth() int64 {
	worth := max(s.cl.CreatedMs, s.cl.Conn.LastActive())
	if s.cl.Authenticated {
		worth |= 1 << 62
	}
	return worth
}

// Closed implements protocol.Handler.
func (l *Lane) Closed(s any) { delete(l.open, s.(*session).cl.Conn) }

// Malformed implements protocol.Handler.
func (l *Lane) Malformed(any, *protocol.Error) protocol.Verdict { return protocol.Tell }

// Reserve implements protocol.Handler: large arguments stay on the Go heap.
func (l *Lane) Reserve(any, int) (*protocol.Bulk, *protocol.Error) { return nil, nil }

// Serve implements protocol.Handler.
func (l *Lane) Serve(b *protocol.Batch) {
	s, began, mark := b.Session.(*session), time.Now(), b.Reply.Mark()
	l.serving, b.Reply.RESP3 = s, s.cl.Protocol == 3
	for ; b.Done < len(b.Requests) && !s.quits; b.Done++ {
		if b.Done > 0 && time.Since(began) > slice {
			s.cl.Conn.Resume()
			return
		}
		if b.Reply.Since(mark)+s.cl.Conn.Usage().Output > unread {
			l.Full()
			b.Done = len(b.Requests)
			s.cl.Conn.Close(false)
			return
		}
		c := &command.Context{Client: s.cl, Args: slices.Clone(b.Requests[b.Done].Args), Reply: b.Reply,
			Now: time.Now().UnixMilli()}
		if err := l.run(s, c); err == errWaits {
			return // the same request is served again
		} else if err != nil {
			b.Reply.Error(err)
		}
	}
	if s.quits {
		b.Done = len(b.Requests)
		s.cl.Conn.Close(true)
	}
}

// run runs one request. The user's rights are those of the last published users.
func (l *Lane) run(s *session, c *command.Context) error {
	if s.ending != nil {
		return s.ended()
	}
	spec, err := l.Catalogue.Resolve(l.Catalogue.Lookup(c.Args[0]), c.Args)
	if err != nil {
		return err
	}
	users, rights := l.view.Load().users, s.cl.User.(*acl.User).Rights()
	if !s.cl.Authenticated && spec.Flags&command.NoAuth == 0 && !users.DefaultIsOpen() {
		return protocol.ErrNoAuth
	}
	s.cl.LastCommand, s.cl.LastMs, c.Spec = spec.Full, c.Now, spec
	if d := users.Check(rights, spec, c.Args, acl.Place{DB: s.cl.DB}); d.Refused() {
		l.deny(d.Reason, d.Object(spec, c.Args), s.cl.UserName())
		return d.Error(rights, spec)
	}
	return l.call(c)
}
