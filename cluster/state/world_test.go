package state

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
)

// A world is a cluster in virtual time: real states, and a network, disks and clocks that fail by seed.
type world struct {
	t     testing.TB
	rng   *rand.Rand
	now   int64 // ms, of the world; each node's clock is off by its skew
	seq   int
	queue timeline
	hosts []*host
	cut   map[[2]int]bool // pairs of hosts that do not hear each other

	ungated bool // messages do not wait for the disk: a bug put in on purpose

	votes  map[vote]string   // whom a node has voted for in an epoch
	claims map[claim]string  // who has claimed a slot with an epoch
	said   map[string]string // what each node has claimed last
	wrong  string            // the first rule that was broken

	trace func(format string, args ...any)
}

type vote struct {
	by    string
	epoch uint64
}

type claim struct {
	slot  int
	epoch uint64
}

// A host is a machine with one node.
type host struct {
	w       *world
	at      int // in hosts
	s       *State
	up      bool
	life    int   // counts starts: what was under way before a crash is lost
	frozen  int64 // until when the process is stopped
	late    []func()
	skew    int64
	disk    string // nodes.conf as it outlasts a crash
	durable uint64
	held    []heldMessage
	saving  int // counts what was to be written
	saved   int // the last that is on disk

	offset   int64
	follows  int   // a host; -1: none
	heardMs  int64 // of its primary
	pausedMs int64 // writes are held back until then
}

type heldMessage struct {
	l     *Link
	p     []byte
	needs uint64
}

// A pipe is one connection; ends are its links, that of the host who dialled first.
type pipe struct {
	hosts  [2]*host
	links  [2]*Link
	life   [2]int
	open   bool
	silent bool     // it has lost something: nothing more comes through
	last   [2]int64 // when the last message to each end arrives
}

type happening struct {
	at  int64
	seq int
	f   func()
}

type timeline []happening

func (q timeline) Len() int { return len(q) }
func (q timeline) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q timeline) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timeline) Push(x any)   { *q = append(*q, x.(happening)) }
func (q *timeline) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

const worldTimeout = 2000

func newWorld(t testing.TB, seed uint64, hosts int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 77)), now: 1_700_000_000_000, cut: map[[2]int]bool{},
		votes: map[vote]string{}, claims: map[claim]string{}, said: map[string]string{}}
	w.trace = func(string, ...any) {}
	for i := range hosts {
		h := &host{w: w, at: i, follows: -1}
		w.hosts = append(w.hosts, h)
		h.start()
	}
	return w
}

func (w *world) after(ms int64, f func()) {
	w.seq++
	heap.Push(&w.queue, happening{w.now + ms, w.seq, f})
}

// run goes on until the world's time is end.
func (w *world) run(ms int64) {
	end := w.now + ms
	for len(w.queue) > 0 && w.queue[0].at <= end && w.wrong == "" {
		h := heap.Pop(&w.queue).(happening)
		w.now = h.at
		h.f()
	}
	w.now = end
}

func ip(i int) string { return fmt.Sprintf("10.0.0.%d", i+1) }

func (h *host) terms() Terms {
	return Terms{NodeTimeout: worldTimeout, ReplicationPing: 1000, ValidityFactor: 10, MigrationBarrier: 1, AllowMigration: true,
		FullCoverage: true, Port: 7000, BusPort: 17000}
}

func (h *host) clock() int64 { return h.w.now + h.skew }

// start begins the node, from its disk if there is something.
func (h *host) start() {
	h.up, h.life, h.saving, h.saved = true, h.life+1, 0, 0
	h.held, h.late = nil, nil
	h.s = New(h, h.terms(), h.clock(), rand.New(rand.NewPCG(h.w.rng.Uint64(), uint64(h.at))))
	if h.disk == "" {
		h.s.Begin()
		save := h.s.Settle()
		h.disk, h.durable = string(save.Text), save.Count
	} else {
		if err := h.s.Load(h.disk); err != nil {
			h.w.t.Fatalf("%v\n%s", err, h.disk)
		}
		h.durable = 0
		h.s.Followed()
		h.follows = h.find(h.s.Me().Primary)
	}
	h.heardMs = h.w.now
	life := h.life
	var tick func()
	tick = func() {
		if h.life == life {
			h.do(func() { h.s.Tick() })
			h.replicate()
			h.w.after(TickMs, tick)
		}
	}
	h.w.after(int64(h.w.rng.IntN(TickMs)), tick)
}

func (h *host) find(n *Node) int {
	if n == nil {
		return -1
	}
	for i := range h.w.hosts {
		if ip(i) == n.IP {
			return i
		}
	}
	return -1
}

// crash ends the node. What is not on disk is lost.
func (h *host) crash() {
	h.up = false
	h.life++
	for _, n := range h.s.Nodes() {
		for _, l := range []*Link{n.Link, n.Incoming} {
			if l != nil {
				l.Handle.(*pipe).close(h)
			}
		}
	}
}

// do uses the state now, or when the process goes on.
func (h *host) do(f func()) {
	if !h.up {
		return
	}
	if h.frozen > h.w.now {
		h.late = append(h.late, f)
		return
	}
	h.s.At(h.clock())
	f()
	h.finish()
}

func (h *host) finish() {
	if save := h.s.Settle(); save != nil {
		h.saving++
		life, text, count, no := h.life, string(save.Text), save.Count, h.saving
		h.w.after(1+h.w.rng.Int64N(20), func() {
			if h.life == life && h.up && no > h.saved { // one after the other
				h.saved, h.disk, h.durable = no, text, count
				h.flush()
			}
		})
	}
	h.flush()
}

// flush lets go the messages that have what they need on disk.
func (h *host) flush() {
	for len(h.held) > 0 && (h.held[0].needs <= h.durable || h.w.ungated) {
		m := h.held[0]
		h.held = h.held[1:]
		if !m.l.Closed() {
			m.l.Handle.(*pipe).send(h, m.p)
		}
	}
}

// replicate moves offsets: primaries are written to, replicas follow.
func (h *host) replicate() {
	if !h.up || h.frozen > h.w.now {
		return
	}
	if h.follows < 0 {
		if h.pausedMs < h.w.now {
			h.offset += h.w.rng.Int64N(100)
		}
		return
	}
	if p := h.w.hosts[h.follows]; p.up && p.frozen <= h.w.now && p.follows < 0 && !h.w.isCut(h, p) {
		h.offset, h.heardMs = p.offset, h.w.now
	}
}

func (w *world) isCut(a, b *host) bool {
	return w.cut[[2]int{min(a.at, b.at), max(a.at, b.at)}]
}

// The host as the state's Outside.

func (h *host) Dial(l *Link) {
	p := &pipe{hosts: [2]*host{h, nil}, links: [2]*Link{l, nil}, life: [2]int{h.life, 0}, open: true}
	l.Handle = p
	target := h.find(l.Node)
	h.w.after(1+h.w.rng.Int64N(5), func() {
		if !p.open {
			return
		}
		var to *host
		if target >= 0 {
			to = h.w.hosts[target]
		}
		switch {
		case to == nil, !to.up:
			p.close(nil)
		case h.w.isCut(h, to), to.frozen > h.w.now: // no answer
		default:
			p.hosts[1], p.life[1] = to, to.life
			to.s.At(to.clock())
			p.links[1] = to.s.Accept(ip(h.at), ip(to.at), p, nil)
			l.Peer, l.Local = ip(to.at), ip(h.at)
			h.do(func() { h.s.Connected(l) })
		}
	})
}

func (h *host) Send(l *Link, p []byte, needs uint64) {
	h.held = append(h.held, heldMessage{l, p, needs})
}
func (h *host) HangUp(l *Link) { l.Handle.(*pipe).close(h) }
func (h *host) Keys(int) int   { return 1 }
func (h *host) Offset() int64  { return h.offset }
func (h *host) DataAge() int64 { return h.w.now - h.heardMs }

func (h *host) Log(level logging.Level, format string, args ...any) {
	h.w.trace("%d host %d: "+format, append([]any{h.w.now % 1_000_000, h.at}, args...)...)
}

func (h *host) Ask(e Errand) {
	life := h.life
	h.w.after(h.w.rng.Int64N(3), func() {
		if h.life != life {
			return
		}
		switch e.Kind {
		case Follow:
			h.follows = -1
			for i := range h.w.hosts {
				if ip(i) == e.Host {
					h.follows = i
				}
			}
		case Promote:
			h.follows = -1
		case Pause:
			h.pausedMs = h.w.now + 2*manualTimeout
			h.do(func() { h.s.Paused() })
		case Unpause:
			h.pausedMs = 0
		}
	})
}

// send carries a message to the other end, or to nobody.
func (p *pipe) send(from *host, message []byte) {
	w, side := from.w, 0
	if p.hosts[0] != from {
		side = 1
	}
	to := p.hosts[1-side]
	if to == nil || !p.open {
		return
	}
	w.check(from, message, to)
	if w.isCut(from, to) {
		p.silent = true
	}
	if p.silent {
		return
	}
	at := max(w.now+1+w.rng.Int64N(15), p.last[1-side])
	p.last[1-side] = at
	w.after(at-w.now, func() {
		if !p.open || p.silent || !to.up || to.life != p.life[1-side] || w.isCut(from, to) {
			p.silent = true
			return
		}
		m, err := bus.Parse(message)
		if err != nil {
			w.t.Fatal(err)
		}
		to.do(func() {
			if l := p.links[1-side]; !l.Closed() {
				to.s.Receive(l, m)
			}
		})
	})
}

// close ends the connection; the other end hears of it, if it hears anything. by is nil if it never stood.
func (p *pipe) close(by *host) {
	if !p.open {
		return
	}
	p.open = false
	for side, h := range p.hosts {
		if h == nil || h == by || p.links[side] == nil || by != nil && h.w.isCut(h, by) {
			continue
		}
		l, life := p.links[side], p.life[side]
		h.w.after(1, func() {
			if h.life == life {
				h.do(func() {
					if !l.Closed() {
						h.s.Lost(l)
					}
				})
			}
		})
	}
}

// check holds the rules that no failure may break, against what a host says. to is who hears it.
func (w *world) check(from *host, p []byte, to *host) {
	sender, epoch := string(p[40:80]), binary.BigEndian.Uint64(p[24:])
	if bus.Type(binary.BigEndian.Uint16(p[12:])) == bus.Vote {
		v := vote{sender, binary.BigEndian.Uint64(p[16:])}
		whom := ip(to.at)
		if before := w.votes[v]; before != "" && before != whom {
			w.fail("%s has voted in epoch %d for %s and for %s", sender, v.epoch, before, whom)
		}
		w.votes[v] = whom
	}
	if binary.BigEndian.Uint16(p[2250:])&uint16(bus.Primary) == 0 {
		return
	}
	said := string(p[24:32]) + string(p[80:2128])
	if w.said[sender] == said {
		return
	}
	w.said[sender] = said
	claimed := bus.Bitmap(p[80:2128])
	for slot := range slots.Count {
		if !claimed.Has(slot) {
			continue
		}
		c := claim{slot, epoch}
		if other := w.claims[c]; other != "" && other != sender {
			w.fail("slot %d is claimed with epoch %d by %s and by %s", slot, epoch, other, sender)
			return
		}
		w.claims[c] = sender
	}
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf("at %d: ", w.now%1_000_000) + fmt.Sprintf(format, args...)
	}
}
