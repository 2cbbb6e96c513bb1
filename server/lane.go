package server

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/family/conn"
	"spindle/engine/family/observe"
	"spindle/engine/part"
	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/protocol"
	"spindle/reactor"
)

// The admin lane: an address for RESP whose clients are served whatever holds the turn, and however many other clients
// there are. It has a loop of its own, and its handler stands before the core.
//
//	what operators need ──▶ the turn can be had soon, and is nobody's ──▶ the core, like any batch
//	                 └────▶ it cannot, or a script has lent it ──▶ answered beside the turn, from what was last published
//	anything else ──▶ carried: a goroutine takes it to the core, so that nothing a client asks for holds up the loop
//	        └────▶ the turn cannot be had: held until it is free
//
// server.L1. Beside the turn nothing of the core is read but what was published in a turn, and atomics. What a client
// changes of itself there (AUTH, HELLO) is told to the core at its next turn.
// server.L2. stuck is set by who could not have the turn, and unset when it could have been had. At most one goroutine
// a client, and the loop's, wait for the turn on the lane's behalf.
// server.L3. While a session is carried its loop leaves it alone: it belongs to the goroutine that carries it.
type lane struct {
	in      *instance
	reactor *reactor.Reactor
	report  *observe.Report // turn only
	visit   int64           // client id to go on from; turn only
	ticks   int             // turn only
	ticked  time.Time       // turn only

	view atomic.Pointer[laneView]

	mu    sync.Mutex
	stuck bool                   // server.L2
	held  map[protocol.Conn]bool // who waits for the turn
	known map[int64]laneClient   // by id
	open  map[protocol.Conn]*laneSession
	// What ACL LOG has yet to hear of: as many as it keeps, the newest last. unlisted are how many there were before.
	refused  []laneRefusal
	unlisted int64
}

const (
	lanePatience = 3 * time.Millisecond // for the turn, before a batch is answered beside it
	laneSlice    = 2 * time.Millisecond // after which a client's further requests wait for those of others
	laneClients  = 64                   // at most on the lane, when who is over has gone
	laneComing   = 32                   // who come before others go
	laneVisits   = 128                  // clients whose lines are renewed in a tick, and a twentieth of all
	laneMost     = 1000                 // of those: a tick must not grow with the clients
	laneEvery    = 10                   // ticks between two reports
	laneTick     = 100 * time.Millisecond
	laneUnread   = 64 << 20 // bytes of replies made beside the turn that a client may leave unread
)

// A laneView is what was published in a turn. It is not written again.
type laneView struct {
	at    time.Time
	info  []observe.SectionText
	slow  *observe.Slowlog
	users map[string]*acl.User
	role  string
}

// A laneClient is a client as CLIENT LIST showed it lately, and how it can be closed.
type laneClient struct {
	conn              protocol.Conn
	line              []byte
	addr, laddr, user string
}

// A laneSession is a client of the lane. Its loop owns it (server.L3).
type laneSession struct {
	lane *lane
	conn protocol.Conn
	own  *laneConn // conn as the core sees it
	cl   *client.Client

	begun   bool // the core was given something of it
	entered bool // the core has taken it in; turn only
	gone    bool // turn only

	carrying bool // lane.mu; server.L3
	again    bool // lane.mu: it was resumed meanwhile
	carried  int  // lane.mu: requests that are done, and that the loop is going to offer again
	stalled  bool // lane.mu: what was carried last could not go on, and the core resumes it

	user     *acl.User // as the core has it, or is going to
	authed   atomic.Bool
	bound    bool             // its state is the core's alone to know: a transaction, a wait
	verdict  protocol.Verdict // of the core on what is no request; Wait: none yet. lane.mu
	resp3    bool
	told     laneNews // what the core has yet to hear of
	quitting bool
}

// A laneRefusal is wrong passwords that were given beside the turn.
type laneRefusal struct {
	acl.Entry
	cl   *client.Client
	user *acl.User // that the client was
	resp int
}

// laneNews is what a client has changed of itself beside the turn.
type laneNews struct {
	user *acl.User // nil: no other
	resp int       // 0: no other
}

// Limits implements protocol.Limiter.
func (s *laneSession) Limits() protocol.Limits {
	return protocol.Limits{MaxBulk: int(s.cl.MaxBulk.Get()), Unauthenticated: !s.authed.Load()}
}

// hasLane says whether the configuration asks for a lane.
func (in *instance) hasLane() bool {
	return (in.own.LanePort.Get() != 0 || in.own.LaneSocket.Get() != "") && !in.asSentinel
}

// startLane opens the lane, if there is one.
func (in *instance) startLane() error {
	if !in.hasLane() {
		return nil
	}
	l := &lane{
		in: in, held: map[protocol.Conn]bool{}, known: map[int64]laneClient{}, open: map[protocol.Conn]*laneSession{},
	}
	var err error
	l.reactor, err = reactor.New(reactor.Options{
		Handler: l, Settings: &in.network, MaxClients: laneClients + laneComing,
		Backend: reactor.Gnet, Loops: 1, Gate: in.gate,
		Bind: in.own.LaneBind.Get(), Port: int(in.own.LanePort.Get()),
		UnixSocket: in.own.LaneSocket.Get(), UnixPerm: uint32(in.own.LaneSocketPerm.Get()),
		Logf: func(level reactor.Level, format string, args ...any) {
			in.log.At(logging.Level(level), format, args...)
		},
		OutputLimit: func(session any, _ protocol.Class, _ int) {
			in.log.Warning("Client of the admin lane %s scheduled to be closed ASAP for overcoming of output buffer limits.",
				session.(*laneSession).conn.RemoteAddr())
		},
		QueryLimit: func(session any, begin []byte) {
			in.log.Warning("Closing client of the admin lane that reached max query buffer length: %s (qbuf initial bytes: %s)",
				session.(*laneSession).conn.RemoteAddr(), setting.Quote(string(begin)))
		},
	})
	if err != nil {
		return err
	}
	in.core.Do(func() {
		l.report = observe.NewReport(in.sections)
		l.publish()
		in.lane.Store(l)
		in.core.Subscribe(part.Listeners{Order: part.Later, Gone: l.gone, Tick: func(int64) { l.tick() }})
	})
	l.reactor.Serve()
	for _, address := range l.reactor.Addrs() {
		in.log.Notice("Admin lane on %s", address)
	}
	return nil
}

// tick publishes what may be asked for beside the turn. Turn only.
func (l *lane) tick() {
	l.ticked = time.Now()
	l.book()
	if l.ticks++; l.ticks%laneEvery == 0 {
		l.publish()
	} else if users := l.in.core.Users(); !users.Are(l.view.Load().users) {
		next := *l.view.Load()
		next.users = users.All()
		l.view.Store(&next)
	}
	clients, now := l.in.clients, l.in.core.Now()
	left := min(max(laneVisits, clients.Len()/20), laneMost)
	l.mu.Lock()
	defer l.mu.Unlock()
	for cl := range clients.From(l.visit) {
		if left--; left < 0 {
			l.visit = cl.ID
			return
		}
		if cl.Conn != nil {
			l.known[cl.ID] = laneClient{cl.Conn, conn.AppendLine(l.known[cl.ID].line[:0:0], cl, now, l.in.hub.Count),
				cl.Conn.RemoteAddr(), cl.Conn.LocalAddr(), cl.UserName()}
		}
	}
	l.visit = 0
}

// refresh is tick for when turns can be had and duties stand still, because a script has lent the turn. Turn only.
func (l *lane) refresh() {
	if time.Since(l.ticked) < laneTick {
		return
	}
	if time.Since(l.view.Load().at) >= laneEvery*laneTick {
		l.ticks = laneEvery - 1 // the next one reports
	}
	l.tick()
}

// publish makes a new view. Turn only.
func (l *lane) publish() {
	role := "master"
	if l.in.follower.Following() {
		role = "replica"
	}
	l.view.Store(&laneView{
		at: time.Now(), info: l.report.Texts(), slow: l.in.slowlog.Copy(), users: l.in.core.Users().All(), role: role,
	})
}

// book puts what was refused beside the turn into ACL LOG and the counts of errors. Turn only.
func (l *lane) book() {
	l.mu.Lock()
	refused, n := l.refused, l.unlisted
	l.refused, l.unlisted = nil, 0
	l.mu.Unlock()
	l.in.denials.Count(acl.DeniedAuth, n)
	for i := range refused {
		r := &refused[i]
		n += r.Count
		if l.in.denials.Keeps() {
			r.Client = r.describe(l.in)
		}
		l.in.denials.Merge(r.Entry)
	}
	if n > 0 {
		l.in.core.CountErrors(errLanePassword, n)
	}
}

// describe is the client as it was when it gave the password. Turn only.
func (r *laneRefusal) describe(in *instance) string {
	cl := r.cl
	user, resp, command := cl.User, cl.Protocol, cl.LastCommand
	cl.User, cl.Protocol, cl.LastCommand = r.user, r.resp, strings.ToLower(r.Object)
	defer func() { cl.User, cl.Protocol, cl.LastCommand = user, resp, command }()
	return in.describe(cl)
}

// gone forgets a client. Turn only.
func (l *lane) gone(cl *client.Client) {
	l.mu.Lock()
	delete(l.known, cl.ID)
	l.mu.Unlock()
}

// connected is how many clients the lane has. Any goroutine.
func (l *lane) connected() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Open implements protocol.Handler. The core takes the client in with its first batch that has the turn.
func (l *lane) Open(c protocol.Conn) (session any, refusal []byte) {
	own := &laneConn{Conn: c}
	cl, refusal := l.in.core.NewClient(own)
	if cl == nil {
		return nil, refusal
	}
	cl.Flags |= client.NoEvict
	cl.ID, cl.CreatedMs = l.in.clients.NextID(), time.Now().UnixMilli() // which HELLO tells before the core knows it
	users := l.in.core.Users()
	s := &laneSession{lane: l, conn: c, own: own, cl: cl, user: users.Default(), verdict: protocol.Wait}
	s.authed.Store(users.DefaultIsOpen())
	l.mu.Lock()
	goes := l.makeRoom()
	l.open[c] = s
	l.mu.Unlock()
	if goes != nil {
		goes.conn.Close(false)
	}
	l.in.threads.spare()
	return s, nil
}

// makeRoom is who goes if the lane is full, and counts it off. A client whose peer has left goes first, then one that
// has given no password, then any. Among equals it is the one that has been idle longest. On the loop, which has all of
// them; l.mu is held.
func (l *lane) makeRoom() (goes *laneSession) {
	if len(l.open) < laneClients {
		return nil
	}
	var claim int    // of goes
	var active int64 // of goes, Unix ms
	for _, s := range l.open {
		mine, at := 2, max(s.cl.CreatedMs, s.conn.LastActive())
		switch {
		case hasLeft(s.conn.FD()):
			mine = 0
		case !s.authed.Load():
			mine = 1
		}
		if goes == nil || mine < claim || mine == claim && at < active {
			goes, claim, active = s, mine, at
		}
	}
	delete(l.open, goes.conn)
	return goes
}

// hasLeft says whether the peer of a socket has ended the connection.
func hasLeft(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p[:], 0)
	return err == nil && n == 1 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}

// Closed implements protocol.Handler.
func (l *lane) Closed(session any) {
	s := session.(*laneSession)
	l.mu.Lock()
	delete(l.open, s.conn)
	delete(l.held, s.conn)
	l.mu.Unlock()
	if s.begun {
		go s.leave() // which waits for the turn
	}
}

// leave tells the core that the client is gone, whether it is still carried or not.
func (s *laneSession) leave() {
	core, entered := s.lane.in.core, false
	core.Do(func() { s.gone, entered = true, s.entered })
	if entered {
		core.Closed(s.cl)
	}
}

// Malformed implements protocol.Handler. The core says what becomes of a client whose state it alone knows: a goroutine
// asks, and then the loop offers the same bytes again.
func (l *lane) Malformed(session any, err *protocol.Error) protocol.Verdict {
	s := session.(*laneSession)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case s.carrying:
		s.again = true
		return protocol.Wait
	case !s.bound:
		return protocol.Tell
	case s.verdict != protocol.Wait:
		return s.verdict
	}
	s.carrying, s.again = true, false
	go func() {
		verdict := l.in.core.Malformed(s.cl, err)
		l.mu.Lock()
		s.carrying, s.verdict = false, verdict
		resume := s.again || verdict != protocol.Wait
		l.mu.Unlock()
		if resume {
			s.conn.Resume()
		}
	}()
	return protocol.Wait
}

// Reserve implements protocol.Handler: large arguments are kept on the Go heap.
func (l *lane) Reserve(any, int) (*protocol.Bulk, *protocol.Error) { return nil, nil }

// Serve implements protocol.Handler.
func (l *lane) Serve(b *protocol.Batch) {
	s, all := b.Session.(*laneSession), b.Requests
	l.mu.Lock()
	if s.carrying {
		s.again = true
		b.Soon = !s.stalled // as carry has said
		l.mu.Unlock()
		return
	}
	b.Done = min(s.carried, len(all))
	s.carried -= b.Done
	l.mu.Unlock()
	for from := b.Done; b.Done < len(all) && !s.quitting; {
		n, busy := l.run(s, all[b.Done:])
		b.Requests = all[:b.Done+n]
		if n > 0 {
			l.serve(s, b, busy)
		}
		more := n == 0 || b.Done < len(b.Requests)
		switch b.Requests = all; {
		case s.quitting || !more:
		case b.Done > from: // what was answered leaves first
			s.conn.Resume()
			return
		default:
			l.carry(s, b)
			return
		}
	}
	if s.quitting {
		b.Done = len(all)
		s.conn.Close(true)
	}
}

// laneVerbs are the commands that the lane answers whatever holds the turn.
var laneVerbs = map[string]bool{
	"ping": true, "quit": true, "auth": true, "hello": true, "info": true, "slowlog|get": true, "client|list": true,
	"client|kill": true, "script|kill": true, "function|kill": true, "shutdown": true,
}

// run is how many of the requests, from the first on, are verbs of the lane that are alike: busy says whether the core
// runs them while a script has lent the turn.
func (l *lane) run(s *laneSession, requests []protocol.Request) (n int, busy bool) {
	for ; n < len(requests) && !s.bound; n++ {
		args := requests[n].Args
		spec, err := l.in.catalogue.Resolve(l.in.catalogue.Lookup(args[0]), args)
		if err != nil || spec == nil || !laneVerbs[spec.Full] {
			break
		}
		allowed := spec.Flags&command.AllowBusy != 0
		if n > 0 && allowed != busy {
			break
		}
		busy = allowed
	}
	return n, busy
}

// serve runs verbs of the lane: in the turn, or beside it. Some may be left: those that only the core can answer, and
// those that have to wait for other clients of the lane.
func (l *lane) serve(s *laneSession, b *protocol.Batch, busy bool) {
	l.mu.Lock()
	stuck := l.stuck
	l.mu.Unlock()
	if !stuck {
		s.begun = true
		before := func() *client.Client {
			if _, paused := l.in.core.Paused(); paused || !busy && l.in.core.Lent() {
				l.refresh()
				return nil
			}
			return s.before()
		}
		if _, ran := l.in.core.ServeWithin(lanePatience, b, before, s.after, l.stick, l.free); ran {
			return
		}
	}
	mark, began, first := b.Reply.Mark(), time.Now(), b.Done
	for b.Reply.RESP3 = s.resp3; b.Done < len(b.Requests) && !s.quitting; b.Done++ {
		if b.Reply.Since(mark)+s.conn.Usage().Output > laneUnread {
			l.in.log.Notice("A client of the admin lane is closed: it does not read what it asks for.")
			b.Done = len(b.Requests)
			s.conn.Close(false)
			return
		}
		if b.Done > first && time.Since(began) > laneSlice || !l.answer(s, b.Requests[b.Done].Args, b.Reply) {
			return
		}
	}
}

// before readies the client for a batch in the turn; nil if it has left, or has to.
func (s *laneSession) before() *client.Client {
	core := s.lane.in.core
	if s.gone {
		return nil
	}
	if !s.entered {
		s.entered = true
		core.Enter(s.cl)
	}
	if u := s.told.user; u != nil {
		if core.Users().Find([]byte(u.Name())) != u { // deleted meanwhile, and its other clients with it
			s.quitting = true
			core.Expel(s.cl, false)
			return nil
		}
		core.SetUser(s.cl, u)
		s.cl.Authenticated = true
	}
	if s.told.resp != 0 {
		s.cl.Protocol = s.told.resp
	}
	s.told = laneNews{}
	return s.cl
}

// carry has a goroutine take what is left of a batch to the core. The loop offers the batch again when that is done.
func (l *lane) carry(s *laneSession, b *protocol.Batch) {
	l.mu.Lock()
	b.Soon = !s.stalled // of a client that has left, too, what was read runs (reactor.C2)
	if l.stuck {
		l.held[s.conn] = true
		l.mu.Unlock()
		return
	}
	s.carrying, s.again, s.begun = true, false, true
	l.mu.Unlock()
	load := &protocol.Batch{Session: s, Unread: b.Unread, Reply: &protocol.Reply{Chunks: s.conn.Chunks()}}
	for _, r := range b.Requests[b.Done:] {
		load.Requests = append(load.Requests, protocol.Request{Args: cloned(r.Args), End: r.End})
	}
	go l.deliver(s, load)
}

// cloned is a copy of a request's arguments, which are lent.
func cloned(args [][]byte) [][]byte {
	copies := make([][]byte, len(args))
	for i, a := range args {
		copies[i] = bytes.Clone(a)
	}
	return copies
}

// deliver runs what is carried, and has the loop go on.
func (l *lane) deliver(s *laneSession, b *protocol.Batch) {
	before := func() (cl *client.Client) {
		if cl = s.before(); cl != nil {
			s.own.hold()
		}
		return cl
	}
	after := func() {
		s.after()
		s.own.release(b.Turn, b.Reply) // in the turn: before anything that comes later
	}
	had, _ := l.in.core.ServeWithin(lanePatience, b, before, after, l.stick, l.free)
	l.mu.Lock()
	s.carrying, s.carried = false, b.Done
	resume := true
	switch {
	case !had:
		if resume = !l.stuck; l.stuck {
			l.held[s.conn] = true
		}
	case b.Done > 0:
		s.stalled = false
	case s.stalled || b.Soon:
		resume = s.again
	default: // once more, so that the loop hears of it: who waits like this and has left is closed
		s.stalled = true
	}
	l.mu.Unlock()
	if resume {
		s.conn.Resume()
	}
}

// after keeps what the batch has made of the client, for when it is answered beside the turn. Turn only.
func (s *laneSession) after() {
	s.user, _ = s.cl.User.(*acl.User)
	s.authed.Store(s.cl.Authenticated)
	s.resp3 = s.cl.Protocol == 3
	s.bound = s.cl.Is(client.Multi | client.Blocked | client.PubSub | client.Monitor | client.Replica | client.ReplyOff |
		client.ReplySkipNext | client.CloseASAP | client.CloseAfter)
}

// stick says that the turn could not be had. It comes before free.
func (l *lane) stick() {
	l.mu.Lock()
	l.stuck = true
	l.mu.Unlock()
}

// free says that the turn could be had again: who waits for it goes on.
func (l *lane) free() {
	l.mu.Lock()
	l.stuck = false
	held := slices.Collect(maps.Keys(l.held))
	clear(l.held)
	l.mu.Unlock()
	for _, c := range held {
		c.Resume()
	}
}
