package proxy

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/reactor"
)

// WAIT and WAITAOF wait until replicas have the writes of a connection. A client's writes are on connections that it
// shares, and those must not wait. There are two ways.
//
//	a redis-server  any command of a connection makes its WAIT one for all writes before it. So PING and WAIT go to each
//	                shard on a connection of their own.
//	spindle         a WAIT is for the writes of its connection alone. Inside a transaction it answers at once. So the
//	                proxy asks on the shared connections, again and again, until it is enough or the time is over.
//	                A user without the right to MULTI and EXEC asks with a timeout of 1 ms.
//
// proxy.W1. A count covers all writes of the client to that shard, and writes of others: it may come late, and is never
// too high. The client gets the least count of all shards.
type replicaWait struct {
	s      *session
	number uint64
	ask    []byte      // the request with a timeout of 1 ms, which a transaction does not wait for
	inTx   bool        // the user may ask inside a transaction
	whole  []byte      // the request as the client sent it
	own    []*upstream // connections on which it waits
	want   []int64
	until  time.Time // zero: no end
	pause  time.Duration

	missing int
	least   []int64
	err     *protocol.Error
}

const (
	firstPause = time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// waitForReplicas is WAIT numreplicas timeout, and WAITAOF numlocal numreplicas timeout.
func (s *session) waitForReplicas(args [][]byte) bool {
	numbers := make([]int64, len(args)-1)
	for i, a := range args[1:] {
		n, err := strconv.ParseInt(string(a), 10, 64)
		switch {
		case err != nil && i == len(numbers)-1:
			s.fail(errTimeoutNumber)
			return true
		case err != nil:
			s.fail(protocol.ErrNotInteger)
			return true
		}
		numbers[i] = n
	}
	last := len(numbers) - 1
	if numbers[last] < 0 || numbers[last] > math.MaxInt64/int64(time.Millisecond) {
		s.fail(errTimeoutNegative)
		return true
	}
	if !s.wait() {
		return false
	}
	w := &replicaWait{s: s, want: numbers[:last], pause: firstPause}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	w.whole = encode(words...)
	words[len(words)-1] = "1"
	w.ask = encode(words...)
	if timeout := numbers[last]; timeout > 0 {
		w.until = time.Now().Add(time.Duration(timeout) * time.Millisecond)
	}
	s.barrier = true
	w.number = s.expect()
	s.setBlocked(true)
	s.replicas = w
	if s.shardsRemember() {
		w.round()
	} else {
		w.probe()
	}
	return true
}

// shardsRemember reports whether WAIT of a connection is for all writes before it.
func (s *session) shardsRemember() bool { return s.w.p.table().Find([]byte("spindle")) == nil }

// probe learns on a connection that no other client uses whether the user may MULTI and EXEC, and begins.
func (w *replicaWait) probe() {
	u, err := w.s.upstream(-1)
	if err != nil {
		w.end(err)
		return
	}
	own := w.s.access.own(w.s, u.at)
	w.own = append(w.own, own)
	own.push(call{to: ignored{}, slot: -1, fixed: true}, multiRequest)
	own.push(call{to: (*probed)(w), slot: -1, fixed: true}, execRequest)
}

// A probed takes the reply to EXEC of an empty transaction.
type probed replicaWait

func (p *probed) take(u *upstream, _ *call, _ []byte, refusal scan.Refusal, err *protocol.Error) {
	w := (*replicaWait)(p)
	w.own = nil
	if w.inTx = err == nil && refusal == scan.NotRefused; w.inTx {
		u.access.giveBack(u)
	} else if err == nil {
		u.close() // it may be inside a transaction
	}
	w.round()
}

var pingRequest = encode("PING")

// leave closes the connections on which a client waits that has gone.
func (w *replicaWait) leave() {
	for _, u := range slices.Clone(w.own) {
		u.close()
	}
}

// round asks all shards.
func (w *replicaWait) round() {
	s := w.s
	if s.closed || s.replicas != w {
		return
	}
	n := len(s.w.topology.Shards)
	if w.missing, w.least, w.err = n, nil, nil; n == 0 {
		w.end(errNoShard)
		return
	}
	remembers := s.shardsRemember()
	for i := range n {
		u, err := s.upstreamOf(i)
		if err != nil {
			w.count(nil, err)
			continue
		}
		if remembers {
			own := s.access.own(s, u.at)
			w.own = append(w.own, own)
			own.push(call{to: ignored{}, slot: -1, fixed: true}, pingRequest)
			own.push(call{to: w, slot: -1, fixed: true, patient: true}, w.whole)
			continue
		}
		if !w.inTx {
			u.push(call{to: w, slot: -1, fixed: true}, w.ask)
			continue
		}
		u.push(call{to: ignored{}, slot: -1, fixed: true}, multiRequest)
		u.push(call{to: ignored{}, slot: -1, fixed: true}, w.ask)
		u.push(call{to: w, slot: -1, fixed: true}, execRequest)
	}
}

// take takes a shard's reply: count or [local, count], and in an array if it is EXEC's.
func (w *replicaWait) take(u *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	if err == nil && refusal != scan.NotRefused {
		err = errorOf(p)
	}
	var counts []int64
	if err == nil {
		if counts = countsIn(p); len(counts) != len(w.want) {
			err = errNoCount(u.at)
		}
	}
	if err != nil && err.Code == "NOPERM" && w.inTx && u != nil {
		u.cut(err) // the user has lost the right to EXEC, and the connection is inside a transaction
	}
	if i := slices.Index(w.own, u); i >= 0 {
		if w.own = slices.Delete(w.own, i, i+1); err == nil {
			u.access.giveBack(u)
		} else {
			u.close()
		}
	}
	w.count(counts, err)
}

// countsIn reads the integers of such a reply. nil: there are none.
func countsIn(p []byte) (counts []int64) {
	lines := bytes.Split(bytes.TrimSuffix(p, []byte("\r\n")), []byte("\r\n"))
	for _, line := range lines {
		if string(line) == "*1" || string(line) == "*2" {
			continue
		}
		n, err := strconv.ParseInt(string(bytes.TrimPrefix(line, []byte(":"))), 10, 64)
		if err != nil || len(counts) == 2 {
			return nil
		}
		counts = append(counts, n)
	}
	return counts
}

func (w *replicaWait) count(counts []int64, err *protocol.Error) {
	if w.s.replicas != w { // it has been ended
		return
	}
	w.missing--
	switch {
	case err != nil:
		w.err = err
	case w.least == nil:
		w.least = counts
	default:
		for i, n := range counts {
			w.least[i] = min(w.least[i], n)
		}
	}
	if w.missing > 0 || w.s.closed {
		return
	}
	enough := true
	for i, n := range w.least {
		enough = enough && n >= w.want[i]
	}
	now := time.Now()
	if w.err != nil || enough || !w.until.IsZero() && !now.Before(w.until) {
		w.end(w.err)
		return
	}
	if w.s.shardsRemember() { // the shards' own time is over a little before
		w.end(nil)
		return
	}
	w.hurry()
	pause := w.pause
	if !w.until.IsZero() {
		pause = min(pause, w.until.Sub(now))
	}
	w.pause = min(2*w.pause, lastPause)
	time.AfterFunc(pause, func() { reactor.Run(w.s.w.loop, w.round) })
}

// hurry has the shards ask their replicas how far they are: a WAIT that blocks does that. It runs on connections that
// no other client waits for.
func (w *replicaWait) hurry() {
	s := w.s
	for _, shard := range s.w.topology.Shards {
		if shard.Primary != "" && !s.w.breaker(shard.Primary).isOpen(s.w.now()) {
			u := s.access.own(s, shard.Primary)
			u.push(call{to: hurried{}, slot: -1, fixed: true}, hurryRequest)
		}
	}
}

var hurryRequest = encode("WAIT", "100000", "1")

// A hurried gives the connection of hurry back.
type hurried struct{}

func (hurried) take(u *upstream, _ *call, _ []byte, _ scan.Refusal, err *protocol.Error) {
	if err == nil && u.calls.n == 0 {
		u.access.giveBack(u)
	}
}

// unblock ends the wait, as if its time were over or with an error.
func (w *replicaWait) unblock(withError bool) {
	if withError {
		w.end(errUnblocked)
		w.leave()
		return
	}
	w.until = time.Now() // the next round is the last one
	for _, u := range w.own {
		if u.clientID == 0 { // its WAIT is on its way
			w.s.w.after(1, func() {
				if w.s.replicas == w {
					w.unblock(false)
				}
			})
		} else {
			u.unblocks = true
			w.s.w.mover().to(u.at)[0].push(call{slot: -1, to: ignored{}, fixed: true},
				encode("CLIENT", "UNBLOCK", strconv.FormatInt(u.clientID, 10), "TIMEOUT"))
		}
	}
}

func (w *replicaWait) end(err *protocol.Error) {
	s := w.s
	s.replicas = nil
	s.setBlocked(false)
	r := protocol.Reply{RESP3: s.access.id.resp3}
	switch {
	case err != nil:
		r.Error(err)
	case len(w.least) == 1:
		r.Int(w.least[0])
	default:
		r.Array(len(w.least))
		for _, n := range w.least {
			r.Int(n)
		}
	}
	s.answer(w.number, r.B)
}
