package engine

import (
	"container/heap"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/reading"
	"spindle/internal/invariant"
)

// waiting holds all parked clients.
//
// engine.W1. A client is in byClient exactly while client.Blocked is set and it is not merely paused.
// engine.W2. Per key, clients are served in the order in which they blocked: first come, first served.
// engine.W3. A client is in a key's line once, even if it names the key twice. No line is empty.
// engine.W4. byType counts the clients that are in a line, each once.
type waiting struct {
	byClient map[*client.Client]*parked
	byKey    map[keyName]*line
	timeouts deadlineHeap
	ready    []keyName
	isReady  map[keyName]bool
	byType   [value.Module + 1]int // by the type that their keys must hold (engine.W4)
	onGone   int                   // lines in which a client's wait has Gone
	busy     int                   // how many of byClient are client.Busy
}

// A line is the queue of clients that wait for one key. A stand is one client's place in it. To leave a line costs
// O(1), whatever its length.
type line struct {
	first, last *stand
	gone        int // number of clients whose wait has Gone (command.Wait)
}

type stand struct {
	p          *parked
	key        keyName
	gone       bool // p's wait has Gone
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

	againMs int64 // when Retry runs even if no key is ready, Unix ms; 0 means never
	over    bool  // EndWait was called

	unbooked bool  // its call is recorded when the wait ends
	took     int64 // by the command until it waited, in nanos

	reading *reading.Job // the long read that it waits for, or nil
	pushes  []byte       // pushes to the client after the reply of the long read (engine.X2)
	weight  float64      // of the long read as a sample; 0 means that it is none
}

// readingOf returns the wait of a client whose command reads outside the turn. It returns nil if there is none.
func readingOf(cl *client.Client) *parked {
	if !cl.Is(client.Busy) {
		return nil
	}
	if p, is := cl.Wait.(*parked); is && p.reading != nil {
		return p
	}
	return nil
}

func (w *waiting) init() {
	w.byClient, w.byKey, w.isReady = map[*client.Client]*parked{}, map[keyName]*line{}, map[keyName]bool{}
}

// enter adds p to the lines of its wait's keys, and to the other lists (engine.W1 to engine.W4).
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
	if p.dueMs() != 0 {
		heap.Push(&ws.timeouts, p)
	}
	if w.Busy {
		ws.busy++
	}
}

// leave removes p from every list to which enter added it.
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

// dueMs returns the time, in Unix ms, at which p's wait ends, or its command tries again, whichever is first. 0 means
// never.
func (p *parked) dueMs() int64 {
	if p.againMs != 0 && (p.wait.DeadlineMs == 0 || p.againMs < p.wait.DeadlineMs) {
		return p.againMs
	}
	return p.wait.DeadlineMs
}

// postpone sets when p's command is to try again. 0 means never.
func (ws *waiting) postpone(p *parked, againMs int64) {
	if p.againMs == againMs {
		return
	}
	if p.index >= 0 {
		heap.Remove(&ws.timeouts, p.index)
	}
	if p.againMs = againMs; p.dueMs() != 0 {
		heap.Push(&ws.timeouts, p)
	}
}

// blocked returns the number of parked clients, without those that are busy.
func (ws *waiting) blocked() int { return len(ws.byClient) - ws.busy }

// nextEnd returns the deadline, in Unix ms, of the wait that ends first. It returns 0 if no wait has a deadline.
func (ws *waiting) nextEnd() int64 {
	if len(ws.timeouts) == 0 {
		return 0
	}
	return ws.timeouts[0].dueMs()
}

// anybodyFor reports whether any client waits for a value of type t, at any key.
func (w *waiting) anybodyFor(t value.Type) bool { return w.byType[t]+w.byType[value.None] > 0 }

// offer adds a key to the ready keys, unless it is among them.
func (w *waiting) offer(name keyName) {
	if !w.isReady[name] {
		w.isReady[name] = true
		w.ready = append(w.ready, name)
	}
}

// deadlineHeap orders waits by their deadline, the soonest first.
type deadlineHeap []*parked

func (h deadlineHeap) Len() int { return len(h) }

func (h deadlineHeap) Less(i, j int) bool { return h[i].dueMs() < h[j].dueMs() }

func (h deadlineHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }

func (h *deadlineHeap) Push(x any) { p := x.(*parked); p.index = len(*h); *h = append(*h, p) }

func (h *deadlineHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	*h, p.index = old[:len(old)-1], -1
	return p
}
