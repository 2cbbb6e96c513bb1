package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spindle/internal/version"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
	"spindle/proxy/store"
	"spindle/proxy/topology"
	"spindle/reactor"
)

// A product is the proxy's part of a product in the store. It follows the table of slots, and confirms each table once
// it acts on it.
//
//	store ── table ─▶ adopt: the map and the states of slots ─▶ each loop uses them
//	                                    calls by older tables are answered │
//	store ◀─ confirmed ────────────────────────────────────────────────────┘
//
// proxy.M1. A revision is confirmed when no call that was routed by an older table is under way (store.C2).
// proxy.M2. Requests for a held slot wait. For a slot that moves, the keys of a request move first. Then the request
// goes to the new group.
// proxy.M3. The store is not on the way: without it the last table stays in force.
type product struct {
	client *store.Client
	tables <-chan *store.Table
	first  *store.Table
	static *topology.Static
	ctx    context.Context
	cancel context.CancelFunc
	id     string

	replaced chan struct{} // holds a token if another process has this proxy's ID, and moves wait for that one alone

	peers atomic.Pointer[[]posed] // the product's proxies, if this one poses as a cluster; nil: not known
}

// slotStates are the slots of a table that are not simply served.
type slotStates struct {
	held   map[int]bool
	source map[int]string // by slot that moves: the address that its keys come from
}

// followProduct begins to follow a product, and waits for its first table.
func (h *host) followProduct(p *Proxy) error {
	s, err := store.Open(&h.store)
	if err != nil {
		return err
	}
	r := &product{id: h.own.ProxyID.Get(), replaced: make(chan struct{}, 1)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.client = store.NewClient(s, h.store.Prefix.Get(), h.own.Product.Get(), func(err error) {
		if h.log.Warning("%v", err); errors.Is(err, store.ErrReplaced) && r.static != nil {
			r.replaced <- struct{}{} // this is told once
		}
	})
	r.tables = r.client.Follow(r.ctx)
	r.first = <-r.tables
	p.product = r
	of := &r.first.Product
	if of.Hash == store.HashCRC32 {
		p.hasher = route.Codis
	}
	if of.Kind == store.KindCluster {
		every := time.Duration(h.own.Refresh.Get()) * time.Millisecond
		p.finder = topology.New(topology.Options{Seeds: of.Seeds, Access: p.access, Every: every, Lag: h.lag(), Log: h.log})
		return nil
	}
	r.static = topology.NewStatic(of.Slots)
	p.finder = handed{r.static}
	if lag := h.lag(); lag > 0 {
		r.static.MeasureLag(p.access, lag, h.log)
	}
	return r.adopt(p, r.first)
}

// join registers the proxy, and acts on later tables. No request has been sent to a shard yet (store.C1). address is
// that of its listener.
func (r *product) join(p *Proxy, address string) error {
	host, _ := os.Hostname()
	if r.id == "" {
		r.id = defaultID(host, address)
	}
	if announced := p.settings.Announce.Get(); announced != "" {
		address = announced
	}
	info := store.Proxy{Schema: store.SchemaProxy, ID: r.id, Address: address, Admin: p.settings.Admin.Get(), Host: host,
		PID: os.Getpid(), Version: version.Spindle, Started: time.Now().UTC()}
	if err := r.client.Register(r.ctx, info); err != nil {
		return fmt.Errorf("registering as %s: %w", r.id, err)
	}
	select {
	case newer, ok := <-r.tables: // that of the registration: moves since then have waited for this proxy
		if ok {
			r.first = newer
			if r.static != nil {
				if err := r.adopt(p, newer); err != nil {
					return err
				}
			}
		}
	default:
	}
	r.client.Confirm(r.first.Revision)
	go r.findPeers(p)
	go func() {
		for t := range r.tables {
			if r.static != nil {
				if err := r.adopt(p, t); err != nil {
					p.log.Warning("Revision %d of the table is not used: %v", t.Revision, err)
					continue
				}
				p.settle()
			}
			r.client.Confirm(t.Revision)
		}
	}()
	return nil
}

// defaultID makes a proxy's name of its host and its listener. Proxies on one host differ in the address or the port.
func defaultID(host, listener string) string {
	ip, port, err := net.SplitHostPort(listener)
	if err != nil { // a unix socket
		return host + strings.ReplaceAll(listener, "/", "-")
	}
	if parsed := net.ParseIP(ip); ip == "" || parsed != nil && parsed.IsUnspecified() {
		return host + "-" + port
	}
	return host + "-" + ip + "-" + port
}

// leave takes the proxy from the store.
func (r *product) leave() {
	r.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = r.client.Unregister(ctx) // an operator can remove it, too
}

// adopt makes a map of a table.
func (r *product) adopt(p *Proxy, t *store.Table) error {
	groups := make([]*store.Group, 0, len(t.Groups))
	for _, g := range t.Groups {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *store.Group) int { return cmp.Compare(a.ID, b.ID) })
	index, replicas := map[string]uint16{}, replicasOf(r.static.Current())
	var shards []*topology.Shard
	for _, g := range groups {
		if g.Primary == "" {
			continue
		}
		index[g.ID] = uint16(len(shards))
		shard := &topology.Shard{ID: g.ID, Primary: g.Primary}
		for _, s := range g.Servers {
			if s.Address != g.Primary {
				replica := replicas[[2]string{g.ID, s.Address}]
				if replica == nil {
					replica = &topology.Replica{Addr: s.Address}
				}
				shard.Replicas = append(shard.Replicas, replica)
			}
		}
		shards = append(shards, shard)
	}
	owners := make([]uint16, len(t.Slots))
	states := &slotStates{held: map[int]bool{}, source: map[int]string{}}
	for slot, s := range t.Slots {
		owners[slot] = topology.None
		if i, there := index[s.Group]; there {
			owners[slot] = i
		}
		if s.Held {
			states.held[slot] = true
		}
		if s.Source != "" {
			if from, there := t.Groups[s.Source]; there && from.Primary != "" {
				states.source[slot] = from.Primary
			} else {
				states.held[slot] = true // its keys cannot be had now
			}
		}
	}
	p.moves.noteStates(p.states.Swap(states), states)
	return r.static.Set(shards, owners)
}

// replicasOf returns the replicas of m by the IDs of their shards and their addresses. A new map shares them, so that
// their lag stays known.
func replicasOf(m *topology.Map) map[[2]string]*topology.Replica {
	all := map[[2]string]*topology.Replica{}
	for _, s := range m.Shards {
		for _, r := range s.Replicas {
			all[[2]string{s.ID, r.Addr}] = r
		}
	}
	return all
}

// settle has each loop use the current map, and returns when no call by an older one is under way. A call whose reply
// has begun has run. A client that does not read such a reply, and has later calls on the same connection, is closed
// after proxy-timeout.
func (p *Proxy) settle() {
	var asked sync.WaitGroup
	waiting := map[*worker][]*mark{}
	for loop, w := range p.workers {
		asked.Add(1)
		var marks []*mark
		reactor.Run(loop, func() {
			defer asked.Done()
			w.use(p.finder.Current())
			for u := range w.ups {
				if u.calls.n > 0 {
					marks = append(marks, &mark{u, u.answers + uint64(u.calls.n)})
				}
			}
			for s := range w.sessions {
				s.moveAway()
			}
			waiting[w] = marks
		})
		asked.Wait() // one after the other: they share waiting
	}
	began := time.Now()
	for loop, w := range p.workers {
		for len(waiting[w]) > 0 {
			asked.Add(1)
			reactor.Run(loop, func() {
				defer asked.Done()
				waiting[w] = slices.DeleteFunc(waiting[w], func(m *mark) bool { return m.isSettled() })
				if time.Since(began).Milliseconds() > p.settings.Timeout.Get() {
					for _, m := range waiting[w] {
						m.u.stopWaiting()
					}
				}
				for s := range w.sessions {
					s.moveAway()
				}
			})
			if asked.Wait(); len(waiting[w]) > 0 {
				time.Sleep(2 * time.Millisecond)
			}
		}
	}
}

// A mark is the last call of an older map on a connection.
type mark struct {
	u     *upstream
	until uint64 // of u.answers
}

// isSettled reports whether the call and all earlier ones have run, or will not run by the older map.
func (m *mark) isSettled() bool {
	u := m.u
	return u.state == down || u.answers >= m.until || u.passing && u.answers+1 >= m.until || u.isBlocked()
}

// isBlocked reports whether the connection's only call waits for data of a slot that is where it was.
func (u *upstream) isBlocked() bool {
	return u.owner != nil && u.owner.isBlocked && !u.owner.isAway()
}

// isAway reports whether the slot of the session's pin is held or belongs to another server than the pin's.
func (s *session) isAway() bool {
	if s.pin == nil || s.pinned < 0 {
		return false
	}
	w := s.w
	if w.states != nil && w.states.held[s.pinned] {
		return true
	}
	index := w.indexOf(s.pinned, 0)
	return index < 0 || w.shard(index).Primary != s.pin.at
}

// moveAway takes a session's pin from a slot that is not where it was. A transaction starts again, a watched key counts
// as changed, and a blocked command is ended at the server and sent again.
func (s *session) moveAway() {
	if !s.isAway() {
		return
	}
	switch {
	case s.isBlocked:
		s.unblock()
	case s.tx != nil && s.tx.ended: // EXEC is on its way
	case s.tx != nil && !s.tx.watched && s.tx.bytes <= transactionMost:
		s.startAgain(0)
	case !s.unpinning:
		s.watchLost = true
		s.dropPin()
		if s.tx != nil {
			s.tx.placed = false
			s.tx.confirm(s)
		}
	}
}

// unblock ends the blocked command of a session at its server, on a shared connection: the reply tells whether it had
// data. See unblocked.take.
func (s *session) unblock() {
	if s.isEnding || s.pin.clientID == 0 {
		return
	}
	s.isEnding, s.pin.unblocks = true, true
	s.w.mover().to(s.pin.at)[0].push(call{slot: -1, to: (*ending)(s), fixed: true},
		encode("CLIENT", "UNBLOCK", strconv.FormatInt(s.pin.clientID, 10), "TIMEOUT"))
}

// An ending takes the reply to CLIENT UNBLOCK. After a failure the client is unblocked again.
type ending session

func (e *ending) take(_ *upstream, _ *call, _ []byte, refusal scan.Refusal, err *protocol.Error) {
	if err != nil || refusal != scan.NotRefused {
		e.isEnding = false
	}
}

// isHeld reports whether requests for a slot wait. The session is told when the table changes, or when it has waited
// for too long. Then the request is refused.
func (s *session) isHeld(slot int) (held bool, err *protocol.Error) {
	w := s.w
	if w.states == nil || slot < 0 || !w.states.held[slot] {
		return false, nil
	}
	limit := w.p.settings.Timeout.Get()
	if s.heldAt == 0 {
		s.heldAt = w.now()
		w.after(limit, s.goOn)
	}
	if w.now()-s.heldAt >= limit {
		s.heldAt = 0
		return false, errSlotHeld
	}
	w.holding = append(w.holding, s)
	return true, nil
}

// source returns the address that the keys of a slot have to be moved from; "": there is none.
func (w *worker) source(slot int) string {
	if w.states == nil || slot < 0 {
		return ""
	}
	return w.states.source[slot]
}

// keysOf copies the keys of a request.
func (s *session) keysOf(row *route.Row, args [][]byte) (keys [][]byte) {
	for _, at := range s.w.p.table().AppendKeys(nil, row, args) {
		keys = append(keys, slices.Clone(args[at]))
	}
	return keys
}

// lift moves keys of one slot to the slot's group, and calls do then (proxy.M2). The caller has nothing owed, and
// serves no other request before do.
//
// A key that the target has already counts as moved: the source's is older. It may be that of a replica that took over,
// or of a MIGRATE whose end the source has not learned.
func (s *session) lift(slot int, keys [][]byte, do func(err *protocol.Error)) {
	s.liftAs(&lifted{s: s, slot: slot, keys: keys, do: do, since: s.w.now()})
}

func (s *session) liftAs(l *lifted) {
	w, slot, do := s.w, l.slot, l.do
	to, err := s.upstream(slot)
	if err != nil && w.indexOf(slot, uint64(s.id)) >= 0 && !w.isSilent(slot, uint64(s.id)) && !l.isLate() {
		s.barrier = true
		l.again() // the target may serve again soon
		return
	}
	if source := w.source(slot); err != nil || source == "" || source == to.at { // it may have moved meanwhile
		do(err)
		return
	}
	host, port, ok := cutAddress(to.at)
	if !ok {
		do(errNoSlot)
		return
	}
	words := []string{"MIGRATE", host, port, "", itoa(s.access.id.db), itoa(int(w.p.settings.Timeout.Get()))}
	if password, user := w.p.access.Password, w.p.access.User; user != "" {
		words = append(words, "AUTH2", user, password)
	} else if password != "" {
		words = append(words, "AUTH", password)
	}
	words = append(words, "KEYS")
	args := make([][]byte, 0, len(words)+len(l.keys))
	for _, word := range words {
		args = append(args, []byte(word))
	}
	args = append(args, l.keys...)
	s.barrier = true
	s.retries++                                             // nothing else is served meanwhile
	from := w.moverIn(s.access.id.db).to(w.source(slot))[0] // MIGRATE takes keys of the connection's own database
	from.push(call{s: s, to: l, slot: -1, fixed: true}, protocol.AppendCommand(nil, args))
}

// mover is the access of the proxy itself, which may MIGRATE whatever the clients may do.
func (w *worker) mover() *access { return w.moverIn(0) }

// moverIn is mover for one database.
func (w *worker) moverIn(db int) *access {
	id := identity{user: w.p.access.User, password: w.p.access.Password, db: db}
	a := w.accesses[id]
	if a == nil || !a.held {
		a = w.accessOf(id)
		a.held = true // it outlives its sessions
	}
	return a
}

// A lifted takes the reply to MIGRATE. Without a reply, or if a server does not serve yet, it sends MIGRATE again,
// until proxy-timeout. Keys that have moved by then are not at their source any more. If both servers have a key, the
// target's copy is the right one.
type lifted struct {
	s     *session
	slot  int
	keys  [][]byte
	do    func(err *protocol.Error)
	since int64 // when the keys were first to move, ms of the worker's clock
	tries int
}

func (l *lifted) take(_ *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := l.s
	s.retries--
	if s.closed {
		return
	}
	defer s.goOn()
	if err != nil && !l.isLate() {
		l.again()
		return
	}
	if err == nil && refusal != scan.NotRefused {
		answer := errorOf(p)
		switch {
		case isNotYet(refusal, answer) && !l.isLate():
			l.again()
			return
		case !strings.Contains(answer.Text, "BUSYKEY"):
			err = errNotMoved(answer)
		case len(l.keys) > 1: // the other keys' errors are not told
			l.oneByOne()
			return
		}
	}
	l.do(err)
}

// isNotYet reports whether MIGRATE may have moved nothing because its source or its target does not serve now. The
// source reports the target's refusal in its own words, and IOERR if the target does not answer.
func isNotYet(refusal scan.Refusal, answer *protocol.Error) bool {
	switch refusal {
	case scan.Loading, scan.ReadOnly, scan.PrimaryDown:
		return true
	}
	return strings.Contains(answer.Text, ": LOADING ") || answer.Code == "IOERR"
}

func (l *lifted) isLate() bool { return l.s.w.now()-l.since >= l.s.w.p.settings.Timeout.Get() }

// again sends MIGRATE again after a pause, by the table of then. A slot that is held by then has to be served first.
func (l *lifted) again() {
	s, w := l.s, l.s.w
	s.retries++
	w.after(min(int64(pauseAgain)<<min(l.tries, 5), 500), func() {
		s.retries--
		l.tries++
		if s.closed {
			return
		}
		defer s.goOn()
		w.catchUp()
		switch {
		case w.states == nil || !w.states.held[l.slot]:
			s.liftAs(l)
		case l.isLate():
			l.do(errSlotHeld)
		default:
			l.again()
		}
	})
}

// oneByOne moves each key alone.
func (l *lifted) oneByOne() {
	left := len(l.keys)
	var failed *protocol.Error
	for _, key := range l.keys {
		l.s.lift(l.slot, [][]byte{key}, func(err *protocol.Error) {
			failed = cmp.Or(failed, err)
			if left--; left == 0 {
				l.do(failed)
			}
		})
	}
}

// liftAndForward moves the keys of a request, and then passes the request on.
func (s *session) liftAndForward(q *protocol.Request, raw []byte) bool {
	if !s.wait() {
		return false
	}
	pl := &s.w.plan
	slot, row, number, blocks, byHash := pl.Slot, s.row(), s.expect(), pl.Blocks, pl.Row.Script == route.ByHash
	raw = slices.Clone(raw)
	s.lift(slot, s.keysOf(pl.Row, q.Args), func(err *protocol.Error) {
		var to *upstream
		if err == nil {
			to, err = s.upstream(slot)
		}
		if err != nil {
			s.answerOr(number, nil, err)
			return
		}
		c := call{s: s, number: number, slot: int32(slot), row: row, byHash: byHash}
		if blocks {
			to = s.access.own(s, to.at)
			s.pin, s.pinned, s.unpinning = to, slot, true
			s.blocked = blockedCommand{raw, slot, row}
			s.setBlocked(true)
			c.patient, c.to = true, (*unblocked)(s)
		}
		to.push(c, raw)
	})
	return true
}
