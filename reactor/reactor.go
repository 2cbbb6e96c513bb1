// Package reactor is the event loops: sockets, connections, bytes in and bytes out.
//
// Owner: N loops, each a goroutine that alone touches its connections. Other goroutines use the loop's mailbox. The
// first loop, or a goroutine, accepts for all.
// Never: knows what a command means, keeps request bytes past Handler.Serve, or lets anything grow without a bound.
// Start at conn.go and serving.go, where a request enters and its reply leaves. loop.go has the iteration, mail.go the
// mailbox, output.go the bytes to send, chunk.go the bytes to serve. gnet.go, epoll.go, uring.go and netpoll.go are the
// backends, and own.go has the code that epoll and io_uring share. Each backend delivers bytes, reports when a socket
// can take more, and runs loop.turn once an iteration.
//
// Without io-threads the number of loops that serve chooses itself: choice.go decides, chooser.go and machine.go
// measure, and move.go moves connections. A connection is on one loop at a time.
package reactor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"spindle/protocol"
	"spindle/reactor/uring"
)

// Backend names the kind of loop.
type Backend int

const (
	Gnet    Backend = iota // github.com/panjf2000/gnet
	Epoll                  // a loop without a library
	Netpoll                // github.com/cloudwego/netpoll: a goroutine per readiness
	IOUring                // the kernel's io_uring
)

// String returns the backend's name as in reactor-backend.
func (b Backend) String() string {
	return [...]string{"gnet", "epoll", "netpoll", "io_uring"}[b]
}

// Polls returns the kernel interface with which the backend waits.
func (b Backend) Polls() string {
	if b == IOUring {
		return "io_uring"
	}
	return "epoll"
}

// Options are what a Reactor is built from. Settings may change while it runs; the rest may not.
type Options struct {
	Handler  protocol.Handler
	Settings *Settings // nil: the defaults
	Backend  Backend
	Loops    int // io-threads; 0 means 1
	// Most, unless 0, means that the number of loops chooses itself, from 1 to Most. Loops is not used then.
	Most int
	// Active is called with the new number of loops that serve: before the number grows, and after it has shrunk. The
	// caller holds no turn and is no loop.
	Active func(loops int)
	// MaxClients, unless 0, is the greatest number of connections, whatever the settings say.
	MaxClients int64

	Bind       []string // "127.0.0.1", "::1", "*", "::*"; a leading '-' lets an address be missing
	Port       int      // 0: no TCP
	TLSPort    int      // 0: no TLS
	Backlog    int      // tcp-backlog; 0 means 511
	UnixSocket string   // "": none
	UnixPerm   uint32   // 0: what the umask leaves
	UnixGroup  string   // "": the group of the process
	Mark       int      // socket-mark-id; 0: none

	// TLS is the configuration for connections to TLSPort. SetTLS replaces it. TLS is not copied, and must not change.
	TLS *tls.Config
	// HandshakeLimit is how long a TLS handshake may take. 0 means 10 seconds.
	HandshakeLimit time.Duration
	// Handshaking is called on its own goroutine when a TLS handshake begins and no other is running.
	Handshaking func()

	// Logf writes a log line for the operator.
	Logf func(level Level, format string, args ...any)
	// OutputLimit is called for a connection that is closed because its output passed a limit, before Closed. It runs
	// on the connection's loop, outside any turn.
	OutputLimit func(session any, class protocol.Class, bytes int)
	// QueryLimit is called for a connection that is closed because of its unserved input, in the same way as
	// OutputLimit. begin is lent: up to 64 bytes of that input.
	QueryLimit func(session any, begin []byte)

	// Gate holds back the output of turns that are not durable yet. nil means that nothing is held back.
	Gate *protocol.Gate

	names *names // the reactor's own

	beats   <-chan time.Time // when the chooser looks; nil: once a second. Tests set it, and measure
	measure func(now time.Time) (idle, others float64, ok bool)
}

// A Level is the importance of a log line: Redis's four.
type Level int

const (
	Debug Level = iota
	Verbose
	Notice
	Warning
)

// A Reactor owns the loops and the listeners.
type Reactor struct {
	options  Options
	settings *Settings
	handler  protocol.Handler
	loops    []*loop // empty for netpoll, whose connections have one each
	back     backend
	acceptor *acceptor
	watcher  *watcher
	chooser  *chooser     // nil: the number of loops is fixed
	active   atomic.Int32 // the first loops, to which new connections go
	shaking  *handshakes
	names    names
	keeper   gatekeeper

	open     atomic.Int64 // connections accepted and not yet closed
	accepted atomic.Uint64
	rejected atomic.Uint64
	outLimit atomic.Uint64
	inLimit  atomic.Uint64
	next     atomic.Uint64
	brimful  atomic.Int32 // mailboxes past mailMost
	stopping atomic.Bool
	count    counters
	timings  timings
	gone     sync.WaitGroup // one for each open connection
	running  context.Context
	halt     context.CancelFunc // ends running
}

// A backend makes loops and gives them sockets.
type backend interface {
	// start makes the loops and runs them.
	start(r *Reactor) error
	// accept arranges that a.accept is called whenever a.poll is readable. It returns at once.
	accept(a *acceptor) error
	// adopt gives c, with a connected nonblocking socket, to c's loop, which opens c. The backend then owns the socket.
	// a.accept calls adopt; for TLS any goroutine does.
	adopt(c *conn)
	// each calls f with every loop.
	each(f func(*loop))
	// stop ends the loops after their connections are closed.
	stop()
}

// A host is the part of a backend that a loop uses.
type host interface {
	// wake makes the loop run turn soon. Any goroutine; it is called once until the loop clears armed.
	wake()
	// watchWrite makes the loop call c.writable once the socket can take more. On the loop.
	watchWrite(c *conn)
	// drop forgets c and closes its socket. On the loop.
	drop(c *conn)
}

// ErrBackend is the error for an unknown reactor-backend.
var ErrBackend = errors.New("reactor-backend must be gnet, epoll, netpoll or io_uring")

// Usable returns b if this machine supports b. Otherwise it returns gnet, and the reason.
func Usable(b Backend) (Backend, error) {
	if b != IOUring {
		return b, nil
	}
	ring, err := uring.New()
	if err != nil {
		return Gnet, err
	}
	ring.Close()
	return b, nil
}

// New opens the listeners and starts the loops. Connections wait in the backlog until Serve.
func New(o Options) (*Reactor, error) {
	if o.Settings == nil {
		o.Settings = &Settings{}
		o.Settings.Rows()
	}
	if o.Loops <= 0 || o.Most > 0 {
		o.Loops = 1
	}
	if o.Backlog <= 0 {
		o.Backlog = 511
	}
	if o.Logf == nil {
		o.Logf = func(Level, string, ...any) {}
	}
	r := &Reactor{options: o, settings: o.Settings, handler: o.Handler}
	r.options.names = &r.names
	if o.Most > 1 && o.Backend != Netpoll {
		r.chooser = newChooser(r, &o)
	}
	r.running, r.halt = context.WithCancel(context.Background())
	if o.Gate != nil {
		o.Gate.OnOpen(r.keeper.opened)
	}
	switch o.Backend {
	case Gnet:
		r.back = &gnetBackend{}
	case Epoll:
		r.back = &ownBackend{make: newEpollHost}
	case Netpoll:
		r.back = &netpollBackend{}
	case IOUring:
		r.back = &ownBackend{make: newUringHost}
	default:
		return nil, ErrBackend
	}
	listeners, err := listenAll(&r.options)
	if err != nil {
		return nil, err
	}
	if r.acceptor, err = newAcceptor(r, listeners); err != nil {
		closeAll(listeners)
		return nil, err
	}
	r.watcher, r.shaking = &watcher{}, newHandshakes(r)
	if err := r.back.start(r); err != nil {
		r.acceptor.close()
		return nil, fmt.Errorf("starting %s loops: %w", o.Backend, err)
	}
	r.chooser.start()
	return r, nil
}

// Serve starts accepting and returns at once.
func (r *Reactor) Serve() {
	if err := r.acceptor.begin(); err != nil {
		r.options.Logf(Warning, "Accepting connections: %v", err)
	}
}

// Rebind replaces the listeners of TCP and TLS, for CONFIG SET bind, port and tls-port. Connections stay, and so do
// listeners whose address stays. On an error the old listeners stay too.
func (r *Reactor) Rebind(bind []string, port, tlsPort int) error {
	return r.acceptor.rebind(bind, port, tlsPort)
}

// SetTLS sets the configuration of later handshakes. Any goroutine.
func (r *Reactor) SetTLS(config *tls.Config) { r.shaking.config.Store(config) }

// A Kind is the kind of connections that a listener accepts.
type Kind int

// The kinds, with INFO's numbers.
const (
	TCP Kind = iota
	Unix
	TLS
)

// String returns the kind's name in INFO.
func (k Kind) String() string { return [...]string{"tcp", "unix", "tls"}[k] }

// A Listening is the listeners of one kind.
type Listening struct {
	Kind  Kind
	Names []string // addresses as the configuration has them, or a path
	Port  int      // 0 of Unix sockets
}

// Listeners returns the present listeners, by kind.
func (r *Reactor) Listeners() []Listening { return r.acceptor.listening() }

// Handshakes returns how many TLS handshakes are running, how many have begun, and how many have failed. Any goroutine.
func (r *Reactor) Handshakes() (running, begun, failed int64) {
	return int64(r.shaking.count()), r.shaking.begun.Load(), r.shaking.failed.Load()
}

// Handshaking reports whether a TLS handshake is running.
func (r *Reactor) Handshaking() bool { return r.shaking.count() > 0 }

// Addrs returns the addresses listened on: "127.0.0.1:6379", "[::1]:6379", "/run/redis.sock".
func (r *Reactor) Addrs() []string { return r.acceptor.addrs() }

// Stop ends the reactor in order: it stops accepting, sends the output, closes connections, and ends the loops.
// Connections that do not take their output within patience are closed, and the rest is not sent.
func (r *Reactor) Stop(patience time.Duration) {
	if r.stopping.Swap(true) {
		return
	}
	r.acceptor.close()
	r.halt()
	r.shaking.close()
	r.back.each(func(l *loop) { l.post(mail{kind: mailStop}) })
	done := make(chan struct{})
	go func() { r.gone.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		r.back.each(func(l *loop) { l.post(mail{kind: mailStopNow}) })
		<-done
	}
	r.back.stop()
	r.watcher.stop()
}

// eachShared calls f with every loop that connections share.
func (r *Reactor) eachShared(f func(*loop)) {
	for _, l := range r.loops {
		f(l)
	}
}

// Stats are counts since the start, or since ResetStats. They may lag by one iteration of a loop.
type Stats struct {
	Open              int64  // connected_clients and replicas
	Accepted          uint64 // total_connections_received
	Rejected          uint64 // rejected_connections
	OutputLimitCloses uint64 // client_output_buffer_limit_disconnections
	QueryLimitCloses  uint64 // client_query_buffer_limit_disconnections
	BytesIn, BytesOut int64  // total_net_input_bytes, total_net_output_bytes
	Reads, Writes     int64  // total_reads_processed, total_writes_processed
	ThreadedReads     int64  // io_threaded_reads_processed: on loops beyond the first
	ThreadedWrites    int64  // io_threaded_writes_processed
	PooledBytes       int64  // idle buffers
	MailBytes         int64  // unread bytes in mailboxes; a message for many counts once for each loop
}

// Stats returns the counts. Any goroutine.
func (r *Reactor) Stats() Stats {
	mail := int64(0)
	r.back.each(func(l *loop) {
		l.mailMu.Lock()
		mail += int64(l.held)
		l.mailMu.Unlock()
	})
	return Stats{
		MailBytes: mail,
		Open:      r.open.Load(), Accepted: r.accepted.Load(), Rejected: r.rejected.Load(),
		OutputLimitCloses: r.outLimit.Load(), QueryLimitCloses: r.inLimit.Load(),
		BytesIn: r.count.in.Load(), BytesOut: r.count.out.Load(),
		Reads: r.count.reads.Load(), Writes: r.count.writes.Load(), PooledBytes: r.count.pooled.Load(),
		ThreadedReads: r.count.threadedReads.Load(), ThreadedWrites: r.count.threadedWrites.Load(),
	}
}

// ResetStats sets the counts of Stats to 0, for CONFIG RESETSTAT. Any goroutine.
func (r *Reactor) ResetStats() {
	for _, n := range []*atomic.Uint64{&r.accepted, &r.rejected, &r.outLimit, &r.inLimit} {
		n.Store(0)
	}
	r.timings.reset()
	for _, n := range []*atomic.Int64{&r.count.in, &r.count.out, &r.count.reads, &r.count.writes, &r.count.threadedReads,
		&r.count.threadedWrites} {
		n.Store(0)
	}
}

// place chooses the loop for a new connection. It takes the active loops in rotation, so connections spread evenly.
func (r *Reactor) place() *loop {
	if len(r.loops) == 0 {
		return nil
	}
	return r.loops[r.next.Add(1)%uint64(r.active.Load())]
}

// makeLoops gives the reactor n loops without hosts.
func (r *Reactor) makeLoops(n int) {
	for i := range n {
		l := newLoop(r, i)
		l.kit, l.longReplies = newKit(1), &chunkStore{}
		if combiner, ok := r.handler.(protocol.Combiner); ok && n > 1 {
			l.combiner, l.outbox, l.combines = combiner, combiner.Join(l.notify), r.chooser == nil
		}
		l.measured, l.sleeps = r.chooser != nil, r.chooser != nil && i > 0
		r.loops = append(r.loops, l)
	}
	r.active.Store(int32(n))
	if r.chooser != nil {
		r.active.Store(1)
	}
}

// threads returns how many loops to make, at most eight times the number of CPUs.
func (r *Reactor) threads() int {
	if r.chooser != nil {
		return r.chooser.choice.most
	}
	return max(1, min(r.options.Loops, 8*runtime.NumCPU()))
}
