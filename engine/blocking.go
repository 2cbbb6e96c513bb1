package engine

import (
	"container/heap"
	"slices"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
	"spindle/protocol"
)

// Blocking parks a client until a key is ready, time runs out, another client unblocks it, or it leaves. A parked
// client's connection reads on only to notice a hang-up; its next requests stay unread (client.Blocked stops run).

// waiting is every parked client.
//
// engine.W1. A client is in byClient exactly while client.Blocked is set and it is not merely paused.
// engine.W2. Per key, clients stand in the order in which they blocked: first come, first served.
// engine.W3. A client stands in a key's line once, also when it names the key twice. No line is empty.
// engine.W4. byType counts the clients that stand in a line, each once.
type waiting struct {
	byClient map[*client.Client]*parked
	byKey    map[keyName]*line
	timeouts deadlineHeap
	ready    []keyName
	isReady  map[keyName]bool
	byType   [value.Module + 1]int // by what their keys are to hold (engine.W4)
	onGone   int                   // lines in which somebody asked to hear of the key's going
	busy     int                   // who of byClient is client.Busy
}

// A line is who waits for one key; a stand is one client's place in it, so that leaving costs O(1) however long the
// line.
type line struct {
	first, last *stand
	gone        int // who asked to hear of the key's going (command.Wait.Gone)
}

type stand struct {
	p          *parked
	key        keyName
	gone       bool // p asked to hear of the key's going
	prev, next *stand
}

func (l *line) add(s *stand) {
	if s.prev = l.last; s.prev != nil {
		s.prev.next = s
	} else {
		l.first = s
	}
	l.last = s
	if s.gone {
		l.gone++
	}
}

func (l *line) remove(s *stand) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		l.last = s.prev
	}
	if s.gone {
		l.gone--
	}
}

type keyName struct {
	db  int
	key string
}

// parked is one client's wait, with a copy of its request (R2).
type parked struct {
	cl     *client.Client
	wait   command.Wait
	spec   *command.Spec
	args   [][]byte
	db     int
	stands []stand
	key    []byte // gateSlot's, of a command that returns
	index  int    // in timeouts; -1 if it waits forever

	unbooked bool  // its call is booked when the wait ends
	took     int64 // by the command until it waited, in nanos
}

func (w *waiting) init() {
	w.byClient, w.byKey, w.isReady = map[*client.Client]*parked{}, map[keyName]*line{}, map[keyName]bool{}
}

// Block implements command.Core: the client of ctx waits. The handler returns right after, without a reply.
func (c *Core) Block(ctx *command.Context, w command.Wait) {
	c.assertHeld()
	cl := ctx.Client
	p := &parked{cl: cl, wait: w, spec: ctx.Spec, db: cl.DB, index: -1}
	for _, a := range ctx.Args {
		p.args = append(p.args, append([]byte{}, a...)) // an empty one too is there
	}
	c.waiting.enter(p)
	c.space.Blocking = len(c.waiting.byKey)
	p.wait.Keys = nil // lent
	cl.Flags |= client.Blocked
	if w.Busy {
		cl.Flags |= client.Busy
	}
	cl.Wait = p
}

// parkBusy has cl wait for a command of its own that goes on beside others (Lend).
func (c *Core) parkBusy(cl *client.Client, args [][]byte, spec *command.Spec) *parked {
	c.assertHeld()
	p := &parked{cl: cl, wait: command.Wait{Busy: true}, spec: spec, db: cl.DB, index: -1}
	for _, a := range args {
		p.args = append(p.args, append([]byte{}, a...))
	}
	c.waiting.enter(p)
	cl.Flags |= client.Blocked | client.Busy
	cl.Wait = p
	return p
}

// enter has p stand in the lines of its wait's keys, and in the other lists (engine.W1 to engine.W4).
func (ws *waiting) enter(p *parked) {
	w := &p.wait
	p.stands = make([]stand, 0, len(w.Keys)) // never grows: lines point into it
	for _, k := range w.Keys {
		name := keyName{p.db, string(k)}
		l := ws.byKey[name]
		if l == nil {
			l = &line{}
			ws.byKey[name] = l
		} else if l.last.p == p {
			continue // engine.W3
		}
		p.stands = append(p.stands, stand{p: p, key: name, gone: w.Gone})
		if l.add(&p.stands[len(p.stands)-1]); w.Gone && l.gone == 1 {
			ws.onGone++
		}
	}
	if len(p.stands) > 0 {
		ws.byType[w.Type]++
	}
	ws.byClient[p.cl] = p
	if w.DeadlineMs != 0 {
		heap.Push(&ws.timeouts, p)
	}
	if w.Busy {
		ws.busy++
	}
}

// leave takes p out of every list that enter put it into.
func (ws *waiting) leave(p *parked) {
	delete(ws.byClient, p.cl)
	if p.index >= 0 {
		heap.Remove(&ws.timeouts, p.index)
	}
	if len(p.stands) > 0 {
		ws.byType[p.wait.Type]--
	}
	for i := range p.stands {
		s := &p.stands[i]
		l := ws.byKey[s.key]
		if l.remove(s); s.gone && l.gone == 0 {
			ws.onGone--
		}
		if l.first == nil {
			delete(ws.byKey, s.key)
		}
	}
	if p.wait.Busy {
		ws.busy--
	}
	invariant.That(len(ws.byKey) > 0 || ws.byType == [value.Module + 1]int{},
		"engine.W4: no line, and by type %v", ws.byType)
}

// blocked counts those who wait, without those that are busy.
func (ws *waiting) blocked() int { return len(ws.byClient) - ws.busy }

// nextEnd is the deadline, in Unix ms, of the wait that ends first; 0 when none ends.
func (ws *waiting) nextEnd() int64 {
	if len(ws.timeouts) == 0 {
		return 0
	}
	return ws.timeouts[0].wait.DeadlineMs
}

// Ready says that key may now serve a client that waits for it; they are tried when the unit is complete. What nobody
// at all waits for makes no key ready, also if somebody waits there for something else: such a key's turn comes with
// what serves somebody.
func (c *Core) Ready(db int, key []byte) {
	c.assertHeld()
	if len(c.waiting.byKey) == 0 {
		return
	}
	name := keyName{db, string(key)}
	if c.waiting.byKey[name] != nil && c.waiting.anybodyFor(c.space.DB(db).Peek(key).Type()) {
		c.waiting.offer(name)
	}
}

// anybodyFor says whether somebody waits for a value of type t, wherever.
func (w *waiting) anybodyFor(t value.Type) bool { return w.byType[t]+w.byType[value.None] > 0 }

// offer puts a key behind those that are ready, unless it stands there.
func (w *waiting) offer(name keyName) {
	if !w.isReady[name] {
		w.isReady[name] = true
		w.ready = append(w.ready, name)
	}
}

// gone is Ready when a stream has left its key: for those who want to hear of that.
func (c *Core) gone(db int, key []byte) {
	c.assertHeld()
	name := keyName{db, string(key)}
	if l := c.waiting.byKey[name]; l != nil && l.gone > 0 {
		c.waiting.offer(name)
	}
}

// wholly is Ready for keys of a database that has been emptied or swapped: those that are there, and those of whose
// going somebody asked to hear. By name, because they have no order of their own.
func (c *Core) wholly(db int) {
	c.assertHeld()
	var keys []string
	for name := range c.waiting.byKey {
		if name.db == db {
			keys = append(keys, name.key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		c.gone(db, []byte(key))
		c.Ready(db, []byte(key))
	}
}

// serveReady tries the clients that wait for ready keys, in the order of engine.W2, until no key is ready any more.
func (c *Core) serveReady() {
	c.assertHeld()
	w := &c.waiting
	if len(w.ready) == 0 {
		return
	}
	// The unit that made them ready may have taken its time: a key that has expired meanwhile serves nobody.
	c.readClock()
	for i := 0; i < len(w.ready); i++ { // serving one may make another ready
		name := w.ready[i]
		delete(w.isReady, name)
		l := w.byKey[name]
		if l == nil {
			continue
		}
		for s := l.first; s != nil; {
			p, next := s.p, s.next
			// It left while the one before was served: where the line went on from there, it no longer knows.
			if w.byClient[p.cl] != p {
				if s, l = nil, w.byKey[name]; l != nil {
					s = l.first // who was tried in vain is once more: each time somebody has left, so that it ends
				}
				continue
			}
			v := c.space.DB(name.db).Peek([]byte(name.key))
			if !v.Exists() && l.gone == 0 {
				break // the key is used up: those behind wait on
			}
			if p.wait.Gone || v.Exists() && (p.wait.Type == value.None || p.wait.Type == v.Type()) {
				switch v, err := c.admit(unblocked, p.cl, plainCall(p.spec, p.args)); v {
				case refuse:
					c.refuseParked(p, err)
				case run:
					c.retry(p) // with all its keys: it may find what it wants at another of them
				}
			}
			s = next
		}
	}
	clear(w.ready)
	w.ready = w.ready[:0]
}

// retry has a parked client's command try again.
func (c *Core) retry(p *parked) {
	c.answerParked(p, commandEvent(p.spec), func(ctx *command.Context) {
		if err := p.wait.Retry(ctx); err != nil {
			c.meter.failed(p.spec, err)
			ctx.Reply.Error(err)
		}
		if ctx.Reply.Len() > 0 {
			c.noteRead(p.cl, p.spec, p.args)
		}
	})
}

// refuseParked ends a wait with the error of a command that was never run: as such it is counted.
func (c *Core) refuseParked(p *parked, err error) {
	c.assertHeld()
	p.unbooked = false
	c.meter.rejected(p.spec, err)
	c.answerParked(p, unblocking, func(ctx *command.Context) { ctx.Reply.Error(err) })
}

// unblocking is what the latency monitor calls a reply that no key brought.
const unblocking = "command-unblocking"

// answerParked lets f reply for a parked client; if it replied, the client goes on, and its call is booked: with the
// time before the wait and the time for the reply. event is what the latency monitor calls the latter.
func (c *Core) answerParked(p *parked, event string, f func(*command.Context)) {
	c.assertHeld()
	cl, began := p.cl, c.wall.Nanos()
	reply := &protocol.Reply{RESP3: cl.Protocol == 3, Chunks: cl.Conn.Chunks()}
	outer, quiet := cl.Out, c.space.NoTouch
	cl.Out, c.space.NoTouch = reply, cl.Is(client.NoTouch)
	ctx := &c.stack.frames[c.stack.depth]
	c.stack.depth++
	ctx.Client, ctx.Args, ctx.Bulk, ctx.Reply, ctx.Spec = cl, p.args, nil, reply, p.spec
	ctx.DB, ctx.Now, ctx.Dirty = c.space.DB(p.db), c.nowMs, 0
	ctx.Effects.Unheard = len(c.sinks) == 0
	c.pushes.parked = true
	defer c.sendDeferred() // engine.O2
	f(ctx)
	if ctx.Dirty != 0 || ctx.Effects.Replaced {
		c.book(ctx)
	}
	c.stack.depth--
	if c.stack.depth == 0 && c.stack.unit.effects != 0 {
		c.flushUnit()
		if c.hooks.Wrote != nil {
			c.hooks.Wrote(cl)
		}
	}
	cl.Out, c.space.NoTouch = outer, quiet // reply is the loop's from here on
	if reply.Len() == 0 {
		reply.Discard()
		return
	}
	c.unpark(cl)
	if p.unbooked {
		took := c.wall.Nanos() - began
		c.count(p.spec, 1, p.took+took)
		c.watchSlowlog(cl, p.spec, p.args, p.took+took)
		c.watchLatency(event, took)
	}
	c.postReply(cl, reply, nil)
	cl.Conn.Resume()
}

// Unblock ends a client's wait from outside: CLIENT UNBLOCK, with the reply of a timeout or, if asError, an error.
// It answers false if the client waits for nothing that can be ended.
func (c *Core) Unblock(cl *client.Client, asError bool) bool {
	c.assertHeld()
	p := c.waiting.byClient[cl]
	if p == nil || p.wait.Timeout == nil {
		return false
	}
	if !asError {
		c.answerParked(p, unblocking, p.wait.Timeout)
		return true
	}
	c.meter.failed(p.spec, errUnblocked)
	c.answerParked(p, unblocking, func(ctx *command.Context) { ctx.Reply.Error(errUnblocked) })
	return true
}

// unpark ends a client's wait, if it waits.
func (c *Core) unpark(cl *client.Client) {
	c.assertHeld()
	p := c.waiting.byClient[cl]
	if p == nil {
		return
	}
	c.waiting.leave(p)
	c.space.Blocking = len(c.waiting.byKey)
	cl.Flags &^= client.Blocked | client.Busy
	cl.Wait = nil
	if p.wait.Left != nil {
		p.wait.Left()
	}
}

// expireWaits answers those whose time has run out, at most budget of them. A deadline's own millisecond is part of the
// wait: nobody is told too early.
func (c *Core) expireWaits(budget int) {
	c.assertHeld()
	w := &c.waiting
	for ; budget > 0 && len(w.timeouts) > 0 && w.timeouts[0].wait.DeadlineMs < c.nowMs; budget-- {
		p := w.timeouts[0]
		c.answerParked(p, unblocking, p.wait.Timeout)
		if w.byClient[p.cl] == p { // Timeout said nothing: that must not keep the heap's head
			c.unpark(p.cl)
			p.cl.Conn.Resume()
		}
	}
}

// BlockedClients counts the parked ones, save those that are busy, and those that a pause holds back.
func (c *Core) BlockedClients() int {
	c.assertHeld()
	return c.waiting.blocked() + c.pause.held.Len()
}

// BlockingKeysOnGone counts the keys of whose going somebody wants to hear.
func (c *Core) BlockingKeysOnGone() int {
	c.assertHeld()
	return c.waiting.onGone
}

// BlockingKeys counts the keys that somebody waits for.
func (c *Core) BlockingKeys() int {
	c.assertHeld()
	return len(c.waiting.byKey)
}

// deadlineHeap orders waits by their deadline, the soonest first.
type deadlineHeap []*parked

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].wait.DeadlineMs < h[j].wait.DeadlineMs }
func (h deadlineHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *deadlineHeap) Push(x any)        { p := x.(*parked); p.index = len(*h); *h = append(*h, p) }
func (h *deadlineHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	*h, p.index = old[:len(old)-1], -1
	return p
}

// Wake offers a parked client its Retry, for waits that no key ends: WAIT, WAITAOF.
func (c *Core) Wake(cl *client.Client) {
	c.assertHeld()
	if p := c.waiting.byClient[cl]; p != nil && p.wait.Retry != nil {
		c.retry(p)
	}
}

// Answer has f reply for a parked client, who goes on if it did.
func (c *Core) Answer(cl *client.Client, f func(*command.Context)) {
	c.assertHeld()
	if p := c.waiting.byClient[cl]; p != nil {
		c.answerParked(p, unblocking, f)
	}
}
