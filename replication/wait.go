package replication

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// Waits are the clients parked by WAIT, by the number of replicas that each wants. Those of WAITAOF are kept apart:
// they wait for the replicas' disks.
//
//	byWant   1: offset 120, 310, 500     the nearest offset first, as a heap
//	         3: offset 120
//
// Clients that want n replicas wait for the n-th greatest acknowledged offset. So an acknowledgement looks at one
// client of each number, and at those that it wakes.
//
// replication.F4. A client is in the heap of its number exactly while WAIT has parked it. No heap is empty.
type waits struct {
	byWant map[int64]*waitHeap
	served []int64 // acknowledged offsets: memory for serveBy
}

func newWaits() waits { return waits{byWant: map[int64]*waitHeap{}} }

// A waiter is one parked client: want replicas must have the stream up to offset.
type waiter struct {
	cl           *client.Client
	offset, want int64
	at           int // its index in the heap; -1: in none
}

func (ws *waits) add(w *waiter) {
	h := ws.byWant[w.want]
	if h == nil {
		h = &waitHeap{}
		ws.byWant[w.want] = h
	}
	heap.Push(h, w)
}

func (ws *waits) remove(w *waiter) {
	if w.at < 0 {
		return
	}
	h := ws.byWant[w.want]
	if heap.Remove(h, w.at); len(*h) == 0 {
		delete(ws.byWant, w.want)
	}
	w.at = -1
}

// count returns the number of parked clients.
// Proof: only tests call it, to check that no client is left (replication.F4).
func (ws *waits) count() (n int) {
	for _, h := range ws.byWant {
		n += len(*h)
	}
	return n
}

// Waiters are the clients in WAIT and WAITAOF.
type waiters struct {
	core             *engine.Core
	settings         *Settings
	stream           *stream
	roster           *roster
	waits, diskWaits waits
	asking           bool // the replicas are asked for acknowledgements at the end of this turn
}

// serve wakes the clients whose replicas have acknowledged enough.
func (p *waiters) serve() {
	p.serveBy(&p.waits, applied)
	p.serveBy(&p.diskWaits, onDisk)
}

func (p *waiters) serveBy(ws *waits, far func(*replica) int64) {
	if len(ws.byWant) == 0 {
		return
	}
	acked := ws.served[:0]
	for _, r := range p.roster.replicas {
		if r.state == online {
			acked = append(acked, far(r))
		}
	}
	slices.SortFunc(acked, func(a, b int64) int { return cmp.Compare(b, a) })
	for i, offset := range acked {
		for h := ws.byWant[int64(i+1)]; h != nil && len(*h) > 0 && (*h)[0].offset <= offset; {
			p.core.Wake((*h)[0].cl) // its Retry removes it
		}
	}
	ws.served = acked
}

// askForAcks requests acknowledgements from the replicas, at the end of this turn.
func (p *waiters) askForAcks() { p.asking = len(p.roster.replicas) > 0 && !p.stream.following }

// WaitFamily has WAIT and WAITAOF, which Redis lists among the generic commands.
func (p *waiters) WaitFamily() command.Family {
	return command.Family{Name: "generic", Rows: []command.Spec{
		{Name: "wait", Arity: 3, Flags: command.Blocking, ACL: command.ACLConnection,
			Tips: []string{"request_policy:all_shards", "response_policy:agg_min"}, Run: p.wait},
		{Name: "waitaof", Arity: 4, Flags: command.Blocking, ACL: command.ACLConnection,
			Tips: []string{"request_policy:all_shards", "response_policy:agg_min"}, Run: p.waitaof},
	}}
}

// wait runs WAIT numreplicas timeout. Its reply is the number of replicas that have the client's writes.
func (p *waiters) wait(c *command.Context) error {
	if p.stream.following {
		return errWait
	}
	want, err := command.Int(c.Args[1])
	if err != nil {
		return err
	}
	deadlineMs, err := waitDeadline(c.Args[2], c.Now)
	if err != nil {
		return err
	}
	offset := c.Client.StreamOffset
	if n := p.roster.ackedBy(offset, applied); n >= replicaCount(want) || c.Client.Is(client.DenyBlocking|client.Multi) {
		c.Reply.Int(n)
		return nil
	}
	answer := func(c *command.Context) { c.Reply.Int(p.roster.ackedBy(offset, applied)) }
	w := &waiter{cl: c.Client, offset: offset, want: replicaCount(want)}
	p.waits.add(w)
	c.Core.Block(c, command.Wait{
		DeadlineMs: deadlineMs, Timeout: answer, Left: func() { p.waits.remove(w) },
		Retry: func(c *command.Context) error {
			answer(c)
			return nil
		},
	})
	p.askForAcks()
	return nil
}

// waitaof runs WAITAOF numlocal numreplicas timeout. Its reply is [fsynced here, replicas that have fsynced].
func (p *waiters) waitaof(c *command.Context) error {
	if p.stream.following {
		return errWaitAOF
	}
	local, err := bit(c.Args[1])
	if err != nil {
		return err
	}
	want, err := command.Int(c.Args[2])
	if err != nil || want < 0 {
		return errNotPositive
	}
	deadlineMs, err := waitDeadline(c.Args[3], c.Now)
	if err != nil {
		return err
	}
	disk := p.settings.Disk
	if local && !disk.On() {
		return errNoAOF
	}
	w := &waiter{cl: c.Client, offset: c.Client.StreamOffset, want: replicaCount(want), at: -1}
	answer := func(c *command.Context) {
		c.Reply.Array(2)
		c.Reply.Int(number(disk.Synced(c.Client)))
		c.Reply.Int(p.roster.ackedBy(w.offset, onDisk))
	}
	enough := func(c *command.Context) bool {
		if p.roster.ackedBy(w.offset, onDisk) < w.want {
			return false
		}
		p.diskWaits.remove(w)
		return !local || disk.Synced(c.Client)
	}
	if enough(c) || c.Client.Is(client.DenyBlocking|client.Multi) {
		answer(c)
		return nil
	}
	forget := func() {}
	if local {
		forget = disk.Await(c.Client)
	}
	if w.want > 0 {
		p.diskWaits.add(w)
	}
	c.Core.Block(c, command.Wait{
		DeadlineMs: deadlineMs, Timeout: answer,
		Left: func() {
			p.diskWaits.remove(w)
			forget()
		},
		Retry: func(c *command.Context) error {
			switch {
			case local && !disk.On():
				return errNoAOF
			case enough(c):
				answer(c)
			case w.at < 0 && p.roster.ackedBy(w.offset, onDisk) < w.want: // a replica that had confirmed has left
				p.diskWaits.add(w)
			}
			return nil
		},
	})
	p.askForAcks()
	return nil
}

// bit reads a 0 or a 1.
func bit(arg []byte) (bool, error) {
	n, err := command.Int(arg)
	if err == nil && n != 0 && n != 1 {
		err = errNotBit
	}
	return n == 1, err
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// replicaCount returns the number of replicas that a client means: Redis uses the lower 32 bits of n, with their sign.
func replicaCount(n int64) int64 { return int64(int32(n)) }

var getAck = protocol.AppendCommand(nil, [][]byte{[]byte("REPLCONF"), []byte("GETACK"), []byte("*")})

// waitDeadline reads a timeout in ms and returns a deadline in Unix ms, or 0 for none.
func waitDeadline(timeout []byte, now int64) (deadlineMs int64, err error) {
	timeoutMs, err := command.Int(timeout)
	switch {
	case err != nil:
		return 0, errTimeout
	case timeoutMs < 0:
		return 0, errNegative
	case timeoutMs == 0:
		return 0, nil
	case timeoutMs > math.MaxInt64-now:
		return 0, errTooLong
	}
	return now + timeoutMs, nil
}

// waitHeap orders waiters by their offset, the nearest first.
type waitHeap []*waiter

func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].offset < h[j].offset }
func (h waitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *waitHeap) Push(x any)        { w := x.(*waiter); w.at = len(*h); *h = append(*h, w) }
func (h *waitHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return w
}
