package proxy

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"spindle/internal/invariant"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
	"spindle/proxy/topology"
	"spindle/reactor"
)

// A worker is the proxy on one loop: its sessions, and their connections to shards. The loop alone touches it.
type worker struct {
	p         *Proxy
	loop      protocol.Loop
	sessions  map[*session]struct{}
	accesses  map[identity]*access
	privates  map[*access]struct{} // of single sessions
	listeners map[identity]*access // that read hot keys, each in RESP3
	hot       []hotCount           // reads of keys; nil: none was counted
	breakers  map[string]*breaker
	ups       map[*upstream]struct{} // all that are not down

	topology *topology.Map // what requests are routed by; the same during one batch
	states   *slotStates   // of topology; nil: all slots are simply served
	holding  []*session    // held because of a slot's state
	epoch    uint64        // grows when requests may take another connection than before (proxy.O3)
	later    []delayed
	ticking  bool
	lookedAt int64 // when deadlines were last looked at, ns
	clock    int64 // ns since the proxy's start
	figures  figures
	scripts  scriptViews
	scans    scanOrder

	checks    map[checkKey]*check
	opening   map[string]int     // attempts of checks that open a connection, by address (proxy.I2)
	unchecked map[string][]place // of checks that wait until fewer do

	buffers [][]byte
	plan    route.Plan
	rules   []*rule // as of the batch; nil: none
	detours *detours
	targets []int             // by target: the index of its shard; -1: there is none; or ownTarget
	extras  []*topology.Shard // targets that are not in the map; their indexes follow its shards'
	byUser  map[string][]route.Detour
	keys    []int  // scratch memory of rules
	scratch []byte // a request that has to be made
}

// An identity is what a shard's connection is opened with.
type identity struct {
	user, password string // "", "": none is given
	resp3          bool
	db             int
	replica        bool // READONLY is sent
}

// An access is the connections of one identity on one loop.
type access struct {
	w        *worker
	id       identity
	sessions int
	held     bool                   // the proxy itself uses it
	shared   map[string][]*upstream // by address
	spare    map[string][]*upstream // connections of one session each, which it has given back
	byShard  [][]*upstream          // shared, by shard of the map
	of       *topology.Map          // whose shards these are
	private  *session               // it is one session's own: CLIENT TRACKING
	tracking *tracking              // of a private access
	confirm  taker                  // of a private access: takes the first answer to its CLIENT TRACKING
	listens  bool                   // it reads hot keys, and hears when they change
	deaf     int64                  // of one that listens: until when it is not used, ns of the worker's clock
	readers  *access                // the same identity's connections to replicas; nil: none were needed
}

// tick is how often a busy worker looks at its deadlines.
const tick = 20 * time.Millisecond

func newWorker(p *Proxy, loop protocol.Loop) *worker {
	return &worker{
		p: p, loop: loop, sessions: map[*session]struct{}{}, accesses: map[identity]*access{},
		privates: map[*access]struct{}{}, listeners: map[identity]*access{}, breakers: map[string]*breaker{},
		ups: map[*upstream]struct{}{}, checks: map[checkKey]*check{},
		opening: map[string]int{}, unchecked: map[string][]place{},
	}
}

// now returns the time in ms since the proxy's start, as of the last readClock. It is above 0.
func (w *worker) now() int64 { return 1 + w.clock/1e6 }

// readClock reads the clock: once for each batch, each read of a connection, and each tick.
func (w *worker) readClock() { w.clock = int64(time.Since(w.p.started)) }

// accessOf returns the access of an identity, and counts one more session.
func (w *worker) accessOf(id identity) *access {
	a := w.accesses[id]
	if a == nil {
		a = w.newAccess(id)
		w.accesses[id] = a
	}
	a.sessions++
	return a
}

func (w *worker) newAccess(id identity) *access {
	return &access{w: w, id: id, shared: map[string][]*upstream{}, spare: map[string][]*upstream{}}
}

// leave counts a session off. The last one closes the connections.
func (a *access) leave() {
	a.sessions--
	if a.sessions > 0 {
		return
	}
	switch {
	case a.private != nil:
		delete(a.w.privates, a)
		a.private = nil
	case a.listens:
	case a.id == a.w.p.guest():
		return // the next client will want them
	case a.w.accesses[a.id] == a:
		delete(a.w.accesses, a.id)
		a.w.closeListener(a.id)
	}
	if a.readers != nil {
		a.readers.leave()
	}
	for _, all := range []map[string][]*upstream{a.shared, a.spare} {
		for _, ups := range all {
			for _, u := range slices.Clone(ups) {
				u.close()
			}
		}
	}
}

// forget removes a connection that is down.
func (a *access) forget(u *upstream) {
	delete(a.w.ups, u)
	drop := func(all map[string][]*upstream) {
		ups := all[u.at]
		if i := slices.Index(ups, u); i >= 0 {
			ups = slices.Delete(slices.Clone(ups), i, i+1)
		}
		if len(ups) == 0 {
			delete(all, u.at)
		} else {
			all[u.at] = ups
		}
	}
	drop(a.shared)
	drop(a.spare)
	a.of = nil
}

// shard returns the connection that a session uses for a shard of the current map. nil: the shard has no primary.
func (a *access) shard(s *session, index int) *upstream {
	w := a.w
	if a.of != w.topology {
		a.of = w.topology
		a.byShard = make([][]*upstream, len(a.of.Shards)+len(w.extras))
	}
	ups := a.byShard[index]
	if ups == nil {
		at := w.shard(index).Primary
		if at == "" {
			return nil
		}
		ups = a.to(at)
		a.byShard[index] = ups
	}
	return ups[s.id%int64(len(ups))]
}

// reader returns the connection to a replica of a shard for reads, or nil if no replica is near enough to its primary.
// Sessions spread over the replicas.
func (a *access) reader(s *session, index int) *upstream {
	w := a.w
	replicas := w.shard(index).Replicas
	limit := time.Duration(w.p.settings.ReplicaLag.Get()) * time.Millisecond
	for i := range replicas {
		r := replicas[(int(s.id)+i)%len(replicas)]
		if lag, known := r.Lag(); !known || lag > limit || w.breaker(r.Addr).isOpen(w.now()) {
			continue
		}
		if a.readers == nil {
			id := a.id
			id.replica = true
			a.readers = w.newAccess(id)
			a.readers.sessions = 1
		}
		ups := a.readers.to(r.Addr)
		return ups[s.id%int64(len(ups))]
	}
	return nil
}

// to returns the shared connections to an address. They are opened if there are none.
func (a *access) to(at string) []*upstream {
	ups := a.shared[at]
	for want := int(a.w.p.settings.Connections.Get()); len(ups) < want; {
		ups = append(ups, a.w.open(a, at))
	}
	a.shared[at] = ups
	return ups
}

// own returns a connection to an address that s alone uses.
func (a *access) own(s *session, at string) *upstream {
	spare := a.spare[at]
	var u *upstream
	if n := len(spare); n > 0 {
		u = spare[n-1]
		a.spare[at] = spare[:n-1]
	} else {
		u = a.w.openOwn(a, at)
	}
	u.owner = s
	return u
}

// giveBack takes a connection of one session for the next one that needs its own.
func (a *access) giveBack(u *upstream) {
	invariant.That(u.calls.n == 0, "proxy: a connection with calls is given back")
	u.owner = a.private
	if u.state == down {
		return
	}
	if a.sessions <= 0 || len(a.spare[u.at]) >= spareMost || u.unblocks {
		u.close()
		return
	}
	a.spare[u.at] = append(a.spare[u.at], u)
}

// spareMost is how many connections of single sessions are kept for later ones, for each server and identity.
const spareMost = 64

// open begins a connection that sessions share.
func (w *worker) open(a *access, at string) *upstream {
	return w.begin(&upstream{w: w, access: a, at: at, figure: w.figures.shard(at)})
}

// openOwn begins a connection of one session.
func (w *worker) openOwn(a *access, at string) *upstream {
	return w.begin(&upstream{w: w, access: a, at: at, figure: w.figures.shard(at), own: true})
}

func (w *worker) begin(u *upstream) *upstream {
	w.ups[u] = struct{}{}
	w.greet(u)
	w.dial(u.at, u)
	return u
}

// dial opens a connection to a server.
func (w *worker) dial(at string, to reactor.Sink) {
	network := "tcp"
	if at[0] == '/' {
		network = "unix"
	}
	w.p.reactor.Dial(w.loop, reactor.Dialing{Network: network, Address: at, TLS: w.p.shardTLS(),
		Limit: time.Duration(w.p.settings.ConnectLimit.Get()) * time.Millisecond}, to)
}

// greet sends what makes a fresh connection one of its identity.
func (w *worker) greet(u *upstream) {
	id := u.access.id
	say := func(to taker, words ...string) {
		u.push(call{to: to, slot: -1, fixed: true}, encode(words...))
	}
	if id.password != "" || id.user != "" {
		if id.user == "" {
			say(proof{}, "AUTH", id.password)
		} else {
			say(proof{}, "AUTH", id.user, id.password)
		}
		u.proofs++
	}
	if id.resp3 {
		say(spoken{}, "HELLO", "3")
	}
	if id.db != 0 {
		say(proof{}, "SELECT", itoa(id.db))
		u.proofs++
	}
	if u.own {
		u.push(call{to: (*numbered)(u), slot: -1, fixed: true}, encode("CLIENT", "ID"))
	}
	if id.replica {
		say(ignored{}, "READONLY")
	}
	if a := u.access; a.private != nil {
		u.owner, u.hears = a.private, true
		to := taker(tracksToo{})
		if a.confirm != nil {
			to, a.confirm = a.confirm, nil
		}
		u.push(call{to: to, slot: -1, fixed: true}, a.tracking.request)
	} else if a.listens {
		u.push(call{to: hotTracks{}, slot: -1, fixed: true}, trackingOn)
	}
	u.greets = u.sent
}

// ignored is a taker of replies that do not matter: a failure shows in those that follow. AUTH and SELECT have proof.
type ignored struct{}

func (ignored) take(*upstream, *call, []byte, scan.Refusal, *protocol.Error) {}

// A numbered takes the reply to CLIENT ID.
type numbered upstream

func (n *numbered) take(_ *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	if err != nil || refusal != scan.NotRefused {
		return
	}
	for _, c := range p {
		if c >= '0' && c <= '9' {
			n.clientID = 10*n.clientID + int64(c-'0')
		}
	}
}

// watch has deadlines looked at while calls are under way.
func (w *worker) watch() {
	if !w.ticking {
		w.ticking, w.lookedAt = true, w.clock
		time.AfterFunc(tick, func() { reactor.Run(w.loop, w.look) })
	}
}

// look looks at deadlines, and sends again what is due.
func (w *worker) look() {
	w.ticking = false
	w.readClock()
	busy := w.endSilent()
	now := w.now()
	due := w.later
	w.later = nil
	for _, r := range due {
		if r.at > now {
			w.later = append(w.later, r)
		} else {
			r.f()
		}
	}
	if waits := w.hurryChecks(); busy || waits || len(w.later) > 0 {
		w.watch()
	}
}

// endSilent ends the connections on which a call has waited for too long. It reports whether others have calls.
func (w *worker) endSilent() (busy bool) {
	w.forgive(w.clock - w.lookedAt - int64(2*tick))
	w.lookedAt = w.clock
	now, limit := w.now(), w.p.settings.Timeout.Get()
	for u := range w.ups {
		if u.calls.n == 0 || u.slow != nil {
			continue
		}
		busy = true
		if c := u.calls.at(0); c.patient && u.isForsaken(limit) {
			u.cut(errTimeout(u.at, limit))
		} else if c.patient {
			u.sound(limit)
		} else if !c.patient && (w.clock-max(c.at, u.heardAt))/1e6 > limit {
			w.breaker(u.at).failed(now)
			w.breaker(u.at).silent = true
			u.cut(errTimeout(u.at, limit))
		} else if u.owner == nil && !u.retiring && (w.clock-c.at)/1e6 > scriptLimit && w.isScript(c) {
			u.sideline()
		}
	}
	return busy
}

// sound sends PING to the server of a blocked command, unless it was heard, or that was done, in the last half of limit
// ms. No other request may tell that the server has stopped.
func (u *upstream) sound(limit int64) {
	now, b := u.w.now(), u.w.breaker(u.at)
	if heard := max(u.calls.at(0).at, u.heardAt) / 1e6; u.state != up || now-max(heard, b.sounded) < limit/2 {
		return
	}
	b.sounded = now
	u.access.to(u.at)[0].push(call{to: sounded{}, slot: -1, fixed: true}, pingRequest)
}

// A sounded takes the reply to such a PING.
type sounded struct{}

func (sounded) take(u *upstream, _ *call, _ []byte, _ scan.Refusal, err *protocol.Error) {
	if err == nil {
		u.w.breaker(u.at).closed()
	}
}

// isForsaken reports whether a blocked command has waited for limit ms at a server that serves it no more. That is one
// that does not answer others, or that has lost the slot. A table of the product would wait for it for ever (proxy.M1).
func (u *upstream) isForsaken(limit int64) bool {
	s := u.owner
	if s == nil || !u.w.breaker(u.at).silent && (s.pin != u || !s.isAway()) {
		u.goneAt = 0
		return false
	}
	if u.goneAt == 0 {
		u.goneAt = u.w.clock
	}
	return (u.w.clock-u.goneAt)/1e6 > limit
}

// forgive takes a time in which this loop did not run, in ns, from the silence of the servers. Their bytes may have
// arrived meanwhile and are not read yet. A stopped proxy would otherwise blame them all.
func (w *worker) forgive(stopped int64) {
	if stopped <= 0 {
		return
	}
	for u := range w.ups {
		if u.calls.n > 0 {
			u.heardAt = min(w.clock, max(u.calls.at(0).at, u.heardAt)+stopped)
			if u.goneAt > 0 {
				u.goneAt = min(w.clock, u.goneAt+stopped)
			}
		}
	}
}

// scriptLimit is how long a script may hold a shared connection, in ms.
const scriptLimit = 100

// sideline has another connection take the place of a shared one on which a long script runs, or a slow client's reply
// is under way. Calls that are on it already wait for that. Later ones are served, or read BUSY, as at the server
// itself. The new epoch keeps each client's order (proxy.O3).
func (u *upstream) sideline() {
	ups := u.access.shared[u.at]
	i := slices.Index(ups, u)
	if i < 0 {
		return
	}
	u.retiring = true
	ups = slices.Clone(ups)
	ups[i] = u.w.open(u.access, u.at)
	u.access.shared[u.at], u.access.of = ups, nil
	u.w.epoch++
	waiting := u.waiting
	u.waiting = nil
	for _, s := range waiting {
		s.goOn()
	}
}

// catchUp has the worker route by the newest map.
func (w *worker) catchUp() {
	if m := w.p.finder.Current(); m != w.topology {
		w.use(m)
	}
}

// use has the worker route by m.
func (w *worker) use(m *topology.Map) {
	w.topology, w.states = m, w.p.states.Load()
	w.aim()
	w.epoch++
	w.release()
	for a := range w.eachAccess() {
		a.closeUnused()
	}
	for a := range w.privates {
		a.openAll()
	}
	w.forgetServers()
}

// forgetServers forgets the breakers and figures of servers that have left the map, once no connection to them is left.
func (w *worker) forgetServers() {
	used := map[string]bool{}
	for u := range w.ups {
		used[u.at] = true
	}
	for _, s := range w.extras {
		used[s.Primary] = true
	}
	gone := func(at string) bool { return !used[at] && w.topology.Find(at) == nil }
	maps.DeleteFunc(w.breakers, func(at string, _ *breaker) bool { return gone(at) })
	maps.DeleteFunc(w.figures.shards, func(at string, _ *shardFigure) bool { return gone(at) })
}

// eachAccess yields the accesses.
func (w *worker) eachAccess() func(yield func(*access) bool) {
	return func(yield func(*access) bool) {
		for _, a := range w.accesses {
			if !yield(a) {
				return
			}
		}
		for a := range w.privates {
			if !yield(a) {
				return
			}
		}
		for _, a := range w.listeners {
			if !yield(a) {
				return
			}
		}
	}
}

// renewGuests tries a new connection for each shared one of clients without a user. A shard that has begun to ask for a
// password so asks every client, as it asks fresh connections. The others check the password of each AUTH.
func (w *worker) renewGuests() {
	a := w.accesses[w.p.guest()]
	if a == nil {
		return
	}
	w.readClock()
	for at, ups := range a.shared {
		for _, u := range ups {
			if u.state == up && !u.retiring {
				w.open(a, at).push(call{to: &trial{instead: u}, slot: -1, fixed: true}, pingRequest)
			}
		}
	}
}

// A trial takes the first reply on a new connection, which then takes the place of another one. Without a reply, or if
// the server has no room for it, the old connection stays.
type trial struct{ instead *upstream }

func (t *trial) take(u *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	if err != nil {
		return
	}
	a, old := u.access, t.instead
	ups := a.shared[u.at]
	i := slices.Index(ups, old)
	if i < 0 || refusal != scan.NotRefused && isCrowded(errorOf(p)) {
		u.retiring = true // rest closes it
		return
	}
	ups = slices.Clone(ups)
	ups[i] = u
	a.shared[u.at], a.of = ups, nil
	a.w.epoch++
	if old.retiring = true; old.calls.n == 0 {
		old.close()
	}
}

// closeUnused closes connections to servers that the map does not name, once they have no calls.
func (a *access) closeUnused() {
	for _, all := range []map[string][]*upstream{a.shared, a.spare} {
		for at, ups := range all {
			if a.isNamed(at) {
				continue
			}
			delete(all, at)
			for _, u := range ups {
				if u.retiring = true; u.calls.n == 0 {
					u.close()
				}
			}
		}
	}
	a.of = nil
	if a.readers != nil {
		a.readers.closeUnused()
	}
}

// isNamed reports whether the map has a server that the access may have to connect to.
func (a *access) isNamed(at string) bool {
	has := func(s *topology.Shard) bool {
		if a.id.replica {
			return slices.ContainsFunc(s.Replicas, func(r *topology.Replica) bool { return r.Addr == at })
		}
		return s.Primary == at
	}
	return slices.ContainsFunc(a.w.topology.Shards, has) || slices.ContainsFunc(a.w.extras, has)
}

func (w *worker) takeBuffer() []byte {
	if n := len(w.buffers); n > 0 {
		b := w.buffers[n-1]
		w.buffers = w.buffers[:n-1]
		return b
	}
	return make([]byte, 0, 256)
}

func (w *worker) giveBuffer(b []byte) {
	if cap(b) <= bufferKeep && cap(b) > 0 && len(w.buffers) < 4096 {
		w.buffers = append(w.buffers, b[:0])
	}
}

// A breaker keeps requests from a server that does not answer.
//
//	           failed                      its time is over
//	closed ──────────────▶ open for a while ─────────────▶ one connection tries ─▶ closed, or open for longer
type breaker struct {
	until  int64 // ms; no connection is tried until then
	wait   int64 // the next pause
	silent bool  // the server took requests and did not answer; otherwise it could not be reached

	sounded int64 // ms; when PING was last sent for a blocked command
}

const (
	pauseFirst = 50
	pauseMost  = 3000
)

func (w *worker) breaker(at string) *breaker {
	b := w.breakers[at]
	if b == nil {
		b = &breaker{}
		w.breakers[at] = b
	}
	return b
}

func (b *breaker) closed() { *b = breaker{sounded: b.sounded} }

// failed opens the breaker. Each time in a row the pause doubles, and a third of it is random.
func (b *breaker) failed(now int64) {
	b.wait = min(max(2*b.wait, pauseFirst), pauseMost)
	b.until = now + b.wait - rand.Int64N(b.wait/3)
}

func (b *breaker) isOpen(now int64) bool { return now < b.until }
