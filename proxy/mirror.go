package proxy

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spindle/internal/info"
	"spindle/internal/logging"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
	"spindle/proxy/topology"
)

// A mirror sends each write to a second cluster, after its shard has answered it without an error.
//
//	loops ── offer: request and reply ─▶ queue ─▶ one goroutine: a window of requests ─▶ second cluster
//	                 no room: dropped                          replies are compared ◀──────────┘
//
// proxy.C1. A client's request never waits for the mirror. Past the bound of the queue, writes are dropped and counted.
// proxy.C2. Requests leave in the order in which their replies came. Those of one slot take one connection, also when
// the slot moves. A request may only be late if it is refused with ASK or TRYAGAIN, or if its script has to be loaded.
// proxy.C3. A request that may have run at the second cluster is not sent again.
// proxy.C4. A command that blocks goes inside a transaction, where it does not block.
type mirror struct {
	p      *Proxy
	finder *topology.Finder
	access topology.Access
	count  mirrorCounts
	wake   chan struct{} // holds one token while there may be something to do

	mu    sync.Mutex
	queue []copied
	bytes int // of the queue and of the window that is under way

	links map[string]*mirrorLink // of the goroutine
}

// mirrorCounts are the mirror's figures. Any goroutine.
type mirrorCounts struct {
	answered, differ, dropped, lost, skipped atomic.Int64
}

// reset is CONFIG RESETSTAT's share.
func (c *mirrorCounts) reset() {
	for _, n := range []*atomic.Int64{&c.answered, &c.differ, &c.dropped, &c.lost, &c.skipped} {
		n.Store(0)
	}
}

// tell writes INFO's lines.
func (m *mirror) tell(w *info.Writer) {
	w.Int("mirror_queued_bytes", int64(m.queued()))
	w.Int("mirror_answered", m.count.answered.Load())
	w.Int("mirror_differences", m.count.differ.Load())
	w.Int("mirror_dropped", m.count.dropped.Load())
	w.Int("mirror_lost", m.count.lost.Load())
	w.Int("mirror_skipped", m.count.skipped.Load())
}

// A copied is a write for the second cluster.
type copied struct {
	raw     []byte // one request, or MULTI, requests and EXEC
	row     *route.Row
	slot    int  // -1: of all shards
	replies int  // to raw; the last one is compared
	wrapped bool // raw is one request inside MULTI and EXEC
	resp3   bool
	reply   []byte // of the shard; nil: it is not compared
	ask     string // the node that it is sent to next, after ASKING
}

func (c *copied) size() int { return len(c.raw) + len(c.reply) + 100 }

const (
	mirrorWindow      = 512 // requests that are under way at once
	mirrorWindowBytes = 1 << 20
	mirrorLogged      = 100 // differences that the log names
)

var errMirrorSelf = errors.New("proxy-mirror-cluster names the cluster that the proxy serves")

// startMirror starts the mirror that the settings ask for; nil: none.
func (h *host) startMirror(p *Proxy) (*mirror, error) {
	own := &h.own
	if len(own.MirrorCluster.Get()) == 0 {
		return nil, nil
	}
	m := &mirror{p: p, wake: make(chan struct{}, 1), links: map[string]*mirrorLink{}}
	m.access = topology.Access{User: own.MirrorUser.Get(), Password: own.MirrorPassword.Get(), TLS: p.tls}
	m.finder = topology.New(topology.Options{Seeds: own.MirrorCluster.Get(), Access: m.access,
		Every: time.Duration(own.Refresh.Get()) * time.Millisecond, Log: h.log})
	for _, s := range m.finder.Current().Shards {
		if p.finder.Current().Find(s.Primary) != nil {
			m.finder.Close()
			return nil, errMirrorSelf
		}
	}
	go m.run()
	return m, nil
}

// mirrored reports whether calls of a row may write.
func mirrored(row *route.Row) bool {
	if row.Write {
		return row.Name != "migrate"
	}
	return row.MayReplicate && !row.PubSub && row.Name != "pfcount"
}

// mirroredEverywhere reports whether a request to all shards is one for the second cluster.
func mirroredEverywhere(row *route.Row) bool {
	switch row.Name {
	case "script|load", "script|flush", "function|load", "function|delete", "function|flush", "function|restore":
		return true
	}
	return row.Write
}

// offer takes the oldest call of u, which the shard has answered without an error. p is its reply, lent; nil: it has
// gone to the client in parts. On the loop.
func (m *mirror) offer(u *upstream, c *call, p []byte) {
	rows := m.p.table().Rows()
	if c.row == 0 || c.slot < 0 || c.slot >= firstTarget || int(c.row) > len(rows) {
		return
	}
	row := rows[c.row-1]
	if !mirrored(row) {
		return
	}
	one := copied{row: row, slot: int(c.slot), replies: 1, resp3: u.access.id.resp3 && !u.old}
	if row.Blocking && c.patient {
		if p != nil && isNothing(p) {
			return
		}
		one.replies, one.wrapped = 3, true
		one.raw = slices.Concat(multiRequest, u.request(), execRequest)
	} else {
		one.raw = bytes.Clone(u.request())
	}
	m.put(one, u.access.id.db, p)
}

// offerAll takes a request that all shards have run. p is the reply that the client gets.
func (m *mirror) offerAll(s *session, row *route.Row, raw, p []byte) {
	m.put(copied{raw: raw, row: row, slot: -1, replies: 1, resp3: s.access.id.resp3}, s.access.id.db, p)
}

// offerTransaction takes a transaction that u's server has run. p is the reply to EXEC.
func (m *mirror) offerTransaction(u *upstream, s *session, t *transaction, p []byte) {
	one := copied{slot: -1, replies: 2 + len(t.requests), resp3: s.access.id.resp3 && !u.old}
	one.raw = append(one.raw, multiRequest...)
	for i := range t.requests {
		one.raw = append(one.raw, t.requests[i].raw...)
		one.slot = max(one.slot, t.requests[i].slot)
	}
	one.raw = append(one.raw, execRequest...)
	if one.row = t.writes; one.slot >= 0 && one.slot < firstTarget && one.row != nil && !isNothing(p) {
		m.put(one, s.access.id.db, p)
	}
}

// put queues a write, or drops it (proxy.C1).
func (m *mirror) put(one copied, db int, p []byte) {
	if db != 0 { // a cluster has one database
		m.count.skipped.Add(1)
		return
	}
	if p != nil && m.p.settings.MirrorCompare.Get() {
		one.reply = bytes.Clone(p)
	}
	m.mu.Lock()
	full := m.bytes+one.size() > int(m.p.settings.MirrorQueue.Get())
	if !full {
		m.queue = append(m.queue, one)
		m.bytes += one.size()
	}
	m.mu.Unlock()
	if full {
		m.count.dropped.Add(1)
		return
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// queued returns how many bytes wait.
func (m *mirror) queued() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// finish waits until nothing is queued, or for limit.
func (m *mirror) finish(limit time.Duration) {
	for until := time.Now().Add(limit); m.queued() > 0 && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
	}
	if n := m.queued(); n > 0 {
		m.p.log.Warning("%d bytes of writes have not reached the mirror", n)
	}
	m.finder.Close()
}

// run sends what is queued, for the life of the process.
func (m *mirror) run() {
	for range m.wake {
		for window := m.take(); len(window) > 0; window = m.take() {
			size := 0
			for i := range window {
				size += window[i].size()
			}
			m.play(window)
			m.mu.Lock()
			m.bytes -= size
			m.mu.Unlock()
		}
	}
}

// take takes the next window: some requests of single slots, or one of all shards.
func (m *mirror) take() (window []copied) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for size := 0; n < len(m.queue) && n < mirrorWindow && size < mirrorWindowBytes; n++ {
		if m.queue[n].slot < 0 {
			if n == 0 {
				n = 1
			}
			break
		}
		size += m.queue[n].size()
	}
	window = slices.Clone(m.queue[:n])
	clear(m.queue[:n])
	if m.queue = m.queue[n:]; len(m.queue) == 0 {
		m.queue = nil
	}
	return window
}

// play sends a window and takes its replies. Requests that were refused are sent again for a while.
func (m *mirror) play(window []copied) {
	if window[0].slot < 0 {
		m.playAll(&window[0])
		return
	}
	pending := make([]*copied, len(window))
	for i := range window {
		pending[i] = &window[i]
	}
	until := time.Now().Add(m.patience())
	for tries := 0; len(pending) > 0; tries++ {
		if tries > 0 {
			if time.Now().After(until) {
				m.count.lost.Add(int64(len(pending)))
				return
			}
			time.Sleep(time.Duration(min(int64(pauseAgain)<<min(tries-1, 5), 500)) * time.Millisecond)
		}
		pending = m.once(pending)
	}
}

func (m *mirror) patience() time.Duration {
	return time.Duration(m.p.settings.Timeout.Get()) * time.Millisecond
}

// playAll sends a request to all shards.
func (m *mirror) playAll(c *copied) {
	for _, s := range m.finder.Current().Shards {
		l, err := m.link(s.Primary)
		if err != nil {
			m.count.lost.Add(1)
			continue
		}
		c.reply = nil // of the whole cluster: it is not that of a shard
		l.write(c)
		l.flush(m.patience())
		p, refusal, err := l.answerTo(c)
		if err != nil {
			m.count.lost.Add(1)
			m.drop(s.Primary)
			continue
		}
		m.compare(c, p, refusal, s.Primary)
	}
}

// once sends each request to where the map says, and takes the replies. It returns the requests that did not run and
// may run later, in their order.
func (m *mirror) once(pending []*copied) (again []*copied) {
	current, sent := m.finder.Current(), map[string][]*copied{}
	var order []string
	down := map[string]bool{"": true}
	for _, c := range pending {
		at := ""
		if s := current.Shard(m.slotOf(c)); s != nil {
			at = s.Primary
		}
		if c.ask != "" {
			at = c.ask
		}
		if down[at] {
			again = append(again, c)
			continue
		}
		l, err := m.link(at)
		if err != nil {
			m.p.log.Warning("The mirror's node %s cannot be reached: %v", at, err)
			down[at] = true
			m.finder.Refresh()
			again = append(again, c)
			continue
		}
		if c.ask != "" {
			l.before(asking)
			c.ask = ""
		}
		l.write(c)
		if sent[at] == nil {
			order = append(order, at)
		}
		sent[at] = append(sent[at], c)
	}
	for _, at := range order {
		m.links[at].flush(m.patience())
	}
	refused := map[*copied]bool{}
	for _, at := range order {
		for i, c := range sent[at] {
			p, refusal, err := m.links[at].answerTo(c)
			if err != nil { // proxy.C3
				m.count.lost.Add(int64(len(sent[at]) - i))
				m.p.log.Warning("The mirror's node %s: %v", at, err)
				m.drop(at)
				m.finder.Refresh()
				break
			}
			refused[c] = !m.settle(c, p, refusal, at)
		}
	}
	for _, c := range pending {
		if refused[c] {
			again = append(again, c)
		}
	}
	if len(again) > 1 { // those without a node came first
		place := map[*copied]int{}
		for i, c := range pending {
			place[c] = i
		}
		slices.SortFunc(again, func(a, b *copied) int { return place[a] - place[b] })
	}
	return again
}

// slotOf returns the slot that the second cluster has for a request.
func (m *mirror) slotOf(c *copied) int {
	if m.p.hasher == route.Redis {
		return c.slot
	}
	if key := m.keyOf(c); key != nil {
		return route.Redis.Slot(key)
	}
	return 0
}

// settle takes the reply to a request. It returns false if the request did not run, and may run later.
func (m *mirror) settle(c *copied, p []byte, refusal scan.Refusal, at string) bool {
	switch refusal {
	case scan.Moved:
		if slot, to, ok := target(errorOf(p), at); ok {
			m.finder.Moved(slot, to)
		}
		return false
	case scan.Ask:
		if _, to, ok := target(errorOf(p), at); ok && c.replies == 1 {
			c.ask = to
		}
		return false
	case scan.NoScript:
		if words := firstWords(c.raw, 2); len(words) == 2 && m.links[at].load(words[1], m.p.scripts.find(words[1])) {
			return false
		}
	case scan.TryAgain, scan.ClusterDown, scan.Loading, scan.PrimaryDown, scan.ReadOnly:
		m.finder.Refresh()
		return false
	}
	m.compare(c, p, refusal, at)
	return true
}

// compare compares the reply of the second cluster with that of the shard, which was no error.
func (m *mirror) compare(c *copied, p []byte, refusal scan.Refusal, at string) {
	m.count.answered.Add(1)
	what := ""
	switch {
	case refusal != scan.NotRefused:
		what = "the error " + errorOf(p).Code
	case c.reply == nil:
	case c.wrapped && !bytes.Equal(bytes.TrimPrefix(p, []byte("*1\r\n")), c.reply), !c.wrapped && !bytes.Equal(p, c.reply):
		what = "another reply"
	}
	if what == "" {
		return
	}
	if n := m.count.differ.Add(1); n <= mirrorLogged {
		m.p.log.Warning("The mirror's node %s has %s for %s of the key %q", at, what, strings.ToUpper(c.row.Name),
			logging.Data(m.keyOf(c)))
		if n == mirrorLogged {
			m.p.log.Warning("Further differences of the mirror are counted only, until CONFIG RESETSTAT")
		}
	}
}

// keyOf returns the first key of a request; nil if it has none. Of a transaction it is that of its first write.
func (m *mirror) keyOf(c *copied) []byte {
	raw := c.raw
	for i := 0; i < c.replies && len(raw) > 0; i++ {
		args, rest := cutRequest(raw)
		if raw = rest; len(args) == 0 {
			return nil
		}
		var pl route.Plan
		table := m.p.table()
		if table.Plan(args, &pl); pl.Row != c.row {
			continue
		}
		if keys := table.AppendKeys(nil, pl.Row, args); len(keys) > 0 {
			return args[keys[0]]
		}
		return nil
	}
	return nil
}

// cutRequest returns the words of the first request of p, and what comes after it.
func cutRequest(p []byte) (args [][]byte, rest []byte) {
	parser := protocol.NewParser(nil)
	n, err := parser.Parse(p)
	if err != nil || len(parser.Requests) == 0 {
		return nil, nil
	}
	if end := parser.Requests[0].End; end > 0 && end < n {
		n = end
	}
	return parser.Requests[0].Args, p[n:]
}

// link returns the connection to a node. It is opened if there is none.
func (m *mirror) link(at string) (*mirrorLink, error) {
	if l := m.links[at]; l != nil {
		return l, nil
	}
	c, err := m.access.Dial(at)
	if err != nil {
		return nil, err
	}
	l := &mirrorLink{conn: c.Conn()}
	m.links[at] = l
	return l, nil
}

// drop closes a connection.
func (m *mirror) drop(at string) {
	if l := m.links[at]; l != nil {
		_ = l.conn.Close()
		delete(m.links, at)
	}
}
