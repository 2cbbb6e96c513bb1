package server

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/family/conn"
	"spindle/engine/family/observe"
	"spindle/internal/info"
	"spindle/internal/logging"
	"spindle/internal/number"
	"spindle/protocol"
	"spindle/reactor"
)

// The admin lane: an address for RESP whose clients are served whatever holds the turn, and however many other clients
// there are. It has a loop of its own, and its handler stands before the core.
//
//	batch ──▶ the turn can be had soon ──▶ the core, like any batch
//	   └────▶ it cannot: stuck ──▶ answered beside the turn, from what was last published, or held until the turn is free
//
// server.L1. Beside the turn nothing of the core is read but what was published in a turn, and atomics. What a client
// changes of itself there (AUTH, HELLO) is told to the core at its next turn.
// server.L2. stuck is set by the loop that could not have the turn, and unset when it could have had it. So at most one
// goroutine waits for the turn on the lane's behalf.
type lane struct {
	in      *instance
	reactor *reactor.Reactor
	report  *observe.Report // turn only
	visit   int64           // client id to go on from; turn only
	ticks   int             // turn only

	view atomic.Pointer[laneView]

	mu    sync.Mutex
	stuck bool                   // server.L2
	held  map[protocol.Conn]bool // who waits for the turn
	known map[int64]laneClient   // by id
	open  map[protocol.Conn]*laneSession
}

const (
	lanePatience = 3 * time.Millisecond // for the turn, before a batch is answered beside it
	laneClients  = 64                   // at most on the lane
	laneVisits   = 128                  // clients whose lines are renewed in a tick, and a twentieth of all
	laneEvery    = 10                   // ticks between two reports
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

// A laneSession is a client of the lane. Its loop owns it.
type laneSession struct {
	lane  *lane
	conn  protocol.Conn
	cl    *client.Client
	known bool // the core has taken it in; turn only, or by the loop

	user     *acl.User // as the core has it, or is going to
	authed   bool
	bound    bool // its state is the core's alone to know: a transaction, a wait
	resp3    bool
	untold   []func() // changes that the core has yet to hear of
	quitting bool
}

// Limits implements protocol.Limiter.
func (s *laneSession) Limits() protocol.Limits {
	l := s.cl.Limits()
	l.Unauthenticated = !s.authed
	return l
}

// startLane opens the lane, if there is one.
func (in *instance) startLane() error {
	port, path := int(in.own.LanePort.Get()), in.own.LaneSocket.Get()
	if port == 0 && path == "" || in.asSentinel {
		return nil
	}
	l := &lane{in: in, held: map[protocol.Conn]bool{}, known: map[int64]laneClient{}, open: map[protocol.Conn]*laneSession{}}
	network := &reactor.Settings{}
	network.Rows()
	network.MaxClients.Set(laneClients)
	var err error
	l.reactor, err = reactor.New(reactor.Options{
		Handler: l, Settings: network, Backend: reactor.Gnet, Loops: 1, Gate: in.gate,
		Bind: in.own.LaneBind.Get(), Port: port, UnixSocket: path, UnixPerm: uint32(in.own.LaneSocketPerm.Get()),
		Logf: func(level reactor.Level, format string, args ...any) {
			in.log.At(logging.Level(level), format, args...)
		},
	})
	if err != nil {
		return err
	}
	in.core.Do(func() {
		l.report = observe.NewReport(in.sections)
		l.publish()
		in.lane.Store(l)
	})
	in.core.OnTick(func(int64) { l.tick() })
	l.reactor.Serve()
	for _, address := range l.reactor.Addrs() {
		in.log.Notice("Admin lane on %s", address)
	}
	return nil
}

// tick publishes what may be asked for beside the turn. Turn only.
func (l *lane) tick() {
	if l.ticks++; l.ticks%laneEvery == 0 {
		l.publish()
	} else if users := l.in.core.Users(); !users.Are(l.view.Load().users) {
		next := *l.view.Load()
		next.users = users.All()
		l.view.Store(&next)
	}
	clients, now := l.in.clients, l.in.core.Now()
	left := max(laneVisits, clients.Len()/20)
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
	cl, refusal := l.in.core.NewClient(c)
	if cl == nil {
		return nil, refusal
	}
	cl.Flags |= client.NoEvict
	users := l.in.core.Users()
	s := &laneSession{lane: l, conn: c, cl: cl, user: users.Default(), authed: users.DefaultIsOpen()}
	l.mu.Lock()
	l.open[c] = s
	l.mu.Unlock()
	l.in.threads.spare()
	return s, nil
}

// Closed implements protocol.Handler.
func (l *lane) Closed(session any) {
	s := session.(*laneSession)
	l.mu.Lock()
	delete(l.open, s.conn)
	delete(l.held, s.conn)
	l.mu.Unlock()
	if s.known {
		go l.in.core.Closed(s.cl) // which waits for the turn
	}
}

// Malformed implements protocol.Handler.
func (l *lane) Malformed(any, *protocol.Error) protocol.Verdict { return protocol.Tell }

// Reserve implements protocol.Handler: large arguments are kept on the Go heap.
func (l *lane) Reserve(any, int) (*protocol.Bulk, *protocol.Error) { return nil, nil }

// Serve implements protocol.Handler.
func (l *lane) Serve(b *protocol.Batch) {
	s := b.Session.(*laneSession)
	for {
		l.mu.Lock()
		stuck := l.stuck
		l.mu.Unlock()
		if !stuck {
			if l.in.core.ServeWithin(lanePatience, b, s.before, s.after, l.stick, l.free) {
				return
			}
		}
		for b.Reply.RESP3 = s.resp3; b.Done < len(b.Requests) && !s.quitting; b.Done++ {
			if !l.answer(s, b.Requests[b.Done].Args, b.Reply) {
				break
			}
		}
		if s.quitting {
			b.Done = len(b.Requests)
			s.conn.Close(true)
			return
		}
		if b.Done == len(b.Requests) {
			return
		}
		l.mu.Lock()
		if l.stuck {
			l.held[s.conn] = true
			l.mu.Unlock()
			return
		}
		l.mu.Unlock() // it has come free meanwhile
	}
}

// before readies the client for a batch in the turn.
func (s *laneSession) before() *client.Client {
	core := s.lane.in.core
	if !s.known {
		s.known = true
		core.Enter(s.cl)
	}
	for _, tell := range s.untold {
		tell()
	}
	s.untold = nil
	return s.cl
}

// after keeps what the batch has made of the client, for when it is answered beside the turn. Turn only.
func (s *laneSession) after() {
	s.user, _ = s.cl.User.(*acl.User)
	s.authed, s.resp3 = s.cl.Authenticated, s.cl.Protocol == 3
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

// answer answers a request beside the turn; false if it has to wait for it.
func (l *lane) answer(s *laneSession, args [][]byte, r *protocol.Reply) bool {
	spec, err := l.in.catalogue.Resolve(l.in.catalogue.Lookup(args[0]), args)
	if err != nil || spec == nil || s.bound {
		return false
	}
	switch {
	case spec.Flags&command.NoAuth != 0:
	case !s.authed:
		r.Error(protocol.ErrNoAuth)
		return true
	case s.user == nil || !s.user.Rights().Always(spec):
		return false // what may be said of it is the core's to say
	}
	switch spec.Full {
	case "ping":
		if len(args) == 1 {
			r.Simple("PONG")
		} else {
			r.Bulk(args[1])
		}
	case "quit":
		r.OK()
		s.quitting = true
	case "auth":
		return l.auth(s, args, r)
	case "hello":
		return l.hello(s, args, r)
	case "info":
		l.info(args, r)
	case "slowlog|get":
		return l.slowlog(args, r)
	case "client|list":
		return l.clientList(args, r)
	case "client|kill":
		return l.clientKill(s, args, r)
	case "script|kill", "function|kill":
		if err := l.in.scripts.KillBeside(spec.Full == "script|kill"); err != nil {
			r.Error(err)
		} else {
			r.OK()
		}
	case "shutdown":
		return l.shutdown(args)
	default:
		return false
	}
	return true
}

var errLanePassword = &protocol.Error{Code: "WRONGPASS", Text: "invalid username-password pair or user is disabled."}

// auth is AUTH [username] password.
func (l *lane) auth(s *laneSession, args [][]byte, r *protocol.Reply) bool {
	name := []byte(acl.DefaultName)
	switch {
	case len(args) > 3:
		return false
	case len(args) == 3:
		name = args[1]
	case l.in.core.Users().Default().Rights().NoPass():
		return false // an error, which the core words
	}
	if s.authenticate(name, args[len(args)-1]) {
		r.OK()
	} else {
		r.Error(errLanePassword)
	}
	return true
}

// authenticate makes the client that user, here and with the core's next turn for it.
func (s *laneSession) authenticate(name, password []byte) bool {
	user := s.lane.view.Load().users[string(name)]
	if user == nil || !user.Admits(password) {
		return false
	}
	s.user, s.authed = user, true
	s.untold = append(s.untold, func() {
		s.lane.in.core.SetUser(s.cl, user)
		s.cl.Authenticated = true
	})
	return true
}

// hello is HELLO [protover [AUTH username password]].
func (l *lane) hello(s *laneSession, args [][]byte, r *protocol.Reply) bool {
	version := int64(2)
	if s.resp3 {
		version = 3
	}
	if len(args) > 1 {
		n, ok := number.ParseInt(args[1])
		if !ok || n != 2 && n != 3 {
			return false
		}
		version = n
	}
	switch {
	case len(args) == 5 && command.Is(args[2], "AUTH"):
		if !s.authenticate(args[3], args[4]) {
			r.Error(errLanePassword)
			return true
		}
	case len(args) > 2 || !s.authed:
		return false
	}
	s.resp3 = version == 3
	s.untold = append(s.untold, func() { s.cl.Protocol = int(version) })
	r.RESP3 = s.resp3
	r.Map(7)
	r.BulkString("server")
	r.BulkString("redis")
	r.BulkString("version")
	r.BulkString(conn.Version)
	r.BulkString("proto")
	r.Int(version)
	r.BulkString("id")
	r.Int(s.cl.ID)
	r.BulkString("mode")
	r.BulkString(l.in.mode())
	r.BulkString("role")
	r.BulkString(l.view.Load().role)
	r.BulkString("modules")
	l.in.modules.Append(r)
	return true
}

// info is INFO [section …], as it was up to a second before the turn was taken. A section of its own says how old it
// is.
func (l *lane) info(args [][]byte, r *protocol.Reply) {
	v := l.view.Load()
	var w info.Writer
	observe.AppendTexts(&w, v.info, args[1:])
	w.B = append(w.B, "\r\n# Lane\r\n"...)
	w.Int("lane_answered_beside_turn", 1)
	w.Int("lane_report_age_ms", time.Since(v.at).Milliseconds())
	r.Verbatim("txt", unsafe.String(unsafe.SliceData(w.B), len(w.B)))
}

// slowlog is SLOWLOG GET [count].
func (l *lane) slowlog(args [][]byte, r *protocol.Reply) bool {
	count := int64(10)
	if len(args) > 2 {
		n, ok := number.ParseInt(args[2])
		if !ok || n < -1 || len(args) > 3 {
			return false
		}
		count = n
	}
	l.view.Load().slow.Append(r, count)
	return true
}

// clientList is CLIENT LIST [ID id …], of the clients as they were lately.
func (l *lane) clientList(args [][]byte, r *protocol.Reply) bool {
	var ids []int64
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(args) == 2:
		ids = slices.Sorted(maps.Keys(l.known))
	case len(args) > 3 && command.Is(args[2], "ID"):
		for _, a := range args[3:] {
			id, ok := number.ParseInt(a)
			if !ok {
				return false
			}
			ids = append(ids, id)
		}
	default:
		return false
	}
	var lines []byte
	for _, id := range ids {
		lines = append(lines, l.known[id].line...)
	}
	r.Verbatim("txt", string(lines))
	return true
}

var errNoClient = &protocol.Error{Code: "ERR", Text: "No such client"}

// clientKill is CLIENT KILL addr:port, and CLIENT KILL with ID, ADDR, LADDR, USER and SKIPME. A client whose loop
// stands still is closed when that goes on.
func (l *lane) clientKill(s *laneSession, args [][]byte, r *protocol.Reply) bool {
	var id int64
	var addr, laddr, user []byte
	skip := true
	old := len(args) == 3
	switch {
	case old:
		addr, skip = args[2], false
	case len(args)%2 != 0:
		return false
	}
	for i := 2; !old && i < len(args); i += 2 {
		switch v := args[i+1]; {
		case command.Is(args[i], "ID"):
			n, ok := number.ParseInt(v)
			if !ok || n < 1 {
				return false
			}
			id = n
		case command.Is(args[i], "ADDR"):
			addr = v
		case command.Is(args[i], "LADDR"):
			laddr = v
		case command.Is(args[i], "USER"):
			if user = v; l.view.Load().users[string(v)] == nil {
				return false
			}
		case command.Is(args[i], "SKIPME") && command.Is(v, "YES"):
			skip = true
		case command.Is(args[i], "SKIPME") && command.Is(v, "NO"):
			skip = false
		default:
			return false
		}
	}
	matches := func(text string, wanted []byte) bool { return wanted == nil || bytes.Equal([]byte(text), wanted) }
	killed := int64(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, c := range l.known {
		if id != 0 && at != id || skip && c.conn == s.conn ||
			!matches(c.addr, addr) || !matches(c.laddr, laddr) || !matches(c.user, user) {
			continue
		}
		killed++
		delete(l.known, at)
		if c.conn == s.conn {
			s.quitting = true
		} else {
			c.conn.Close(false)
		}
	}
	switch {
	case !old:
		r.Int(killed)
	case killed == 0:
		r.Error(errNoClient)
	default:
		r.OK()
	}
	return true
}

// shutdown is SHUTDOWN NOSAVE: it ends the process here and now. Nothing waits for the turn any more, so the log's
// writer gets no more than it has.
func (l *lane) shutdown(args [][]byte) bool {
	nosave := false
	for _, a := range args[1:] {
		switch {
		case command.Is(a, "NOSAVE"):
			nosave = true
		case !command.Is(a, "NOW") && !command.Is(a, "FORCE"):
			return false
		}
	}
	if !nosave {
		return false
	}
	in := l.in
	in.log.Warning("User requested shutdown on the admin lane, while the turn was held: ending without a save.")
	in.removeTemporary()
	removePidFile(in.pidFile)
	for _, path := range []string{in.sockets.UnixSocket.Get(), in.own.LaneSocket.Get()} {
		if path != "" {
			os.Remove(path)
		}
	}
	in.log.Warning("Redis is now ready to exit, bye bye...")
	os.Exit(0)
	return true
}
