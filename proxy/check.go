package proxy

import (
	"bytes"
	"slices"

	"spindle/protocol"
	"spindle/protocol/scan"
)

// A check asks a shard whether an identity is good, for all sessions that want to be of it by the same request.
//
//	next ─▶ asking: attempts at one shard after the other ─▶ each session gets the first answer
//
// proxy.I1. The sessions of one round share one answer, which was given after the request of each. Sessions that come
// meanwhile are of the next round, because the answer may have changed. So a storm of new clients sends few requests on
// connections of known clients.
// proxy.I2. An attempt of an identity without a connection to the shard opens one. A loop has at most checksMost of
// those under way to each shard, and other checks wait in order. So clients with wrong passwords do not use up the
// shards' connections.
// proxy.I3. A check that has waited for checkPatience at one shard goes to the next one too, round and round. It keeps
// its places in the queues of the shards before. So a shard that does not answer holds up no login that another one can
// answer, also if that one comes back later.
type check struct {
	w            *worker
	key          checkKey
	old          []byte // is sent instead to a shard that does not know HELLO; nil: nothing is
	asking, next []*becoming

	// Of the round:
	round   int
	since   int64           // when it began, ms of the worker's clock
	tried   int             // shards that it has gone to, or passed over
	movedAt int64           // when it looked at the last one
	at      []string        // addresses of the shards where it has an attempt or a place in unchecked
	sent    bool            // there was an attempt
	waited  bool            // it has waited for a shard
	why     *protocol.Error // why the last attempt has failed
}

// A checkKey is what sessions of one check have in common.
type checkKey struct {
	id      identity
	request string
	shard   int // the place of the shard that a session asks first
}

const (
	checksMost    = 64  // checks of a loop that open a connection to one shard at once
	checkPatience = 200 // ms
)

// check has a shard asked whether b's session may be of its next identity.
func (w *worker) check(b *becoming, request, old []byte) {
	key := checkKey{b.next.id, string(request), int(uint64(b.s.id) % uint64(max(1, len(w.topology.Shards))))}
	k := w.checks[key]
	if k != nil {
		k.next = append(k.next, b)
		return
	}
	k = &check{w: w, key: key, old: old, next: []*becoming{b}}
	w.checks[key] = k
	k.begin()
}

// begin begins a round for the sessions that wait. It ends the check if none does.
func (k *check) begin() {
	w := k.w
	for _, b := range k.next {
		if b.s.closed {
			b.next.leave()
		} else {
			k.asking = append(k.asking, b)
		}
	}
	k.next = nil
	if len(k.asking) == 0 {
		delete(w.checks, k.key)
		return
	}
	k.round++
	k.since, k.tried, k.at, k.sent, k.waited, k.why = w.now(), 0, nil, false, false, nil
	k.goOn()
}

// A place is a check's place in a shard's queue.
type place struct {
	k     *check
	round int
	index int // of the shard
}

// goOn goes to the next shard that can be reached. If none is left, and the check is at no shard, it waits or fails, as
// a request does.
func (k *check) goOn() {
	w := k.w
	k.movedAt = w.now()
	for n := len(w.topology.Shards); k.tried < n; {
		k.tried++
		if k.goTo((k.key.shard + k.tried - 1) % n) {
			return
		}
	}
	switch round := k.round; {
	case len(k.at) > 0:
	case !k.sent && !k.waited || w.now()-k.since > w.p.settings.Timeout.Get():
		if k.why == nil {
			k.why = errNoShard
		}
		k.end(nil, scan.OtherError, k.why)
	default:
		w.after(pauseFirst, func() {
			if k.round == round && len(k.asking) > 0 && len(k.at) == 0 {
				w.catchUp()
				k.tried = 0
				k.goOn()
			}
		})
	}
}

// goTo asks a shard, or takes a place in its queue. It reports false if the shard cannot be reached, or the check is
// there already.
func (k *check) goTo(index int) bool {
	w, a := k.w, k.asking[0].next
	if index >= len(w.topology.Shards) { // the map has changed
		return false
	}
	at := w.topology.Shards[index].Primary
	if at == "" {
		k.why = errNoPrimary(w.topology.Shards[index].ID)
		return false
	}
	switch b := w.breaker(at); {
	case slices.Contains(k.at, at):
		return false
	case b.isOpen(w.now()) && !a.isUp(at):
		k.why = errBroken(at, b.until-w.now())
		return false
	case len(a.shared[at]) == 0 && w.opening[at] >= checksMost:
		k.at = append(k.at, at)
		k.waited = true
		w.unchecked[at] = append(w.unchecked[at], place{k, k.round, index})
	default:
		k.ask(index, at)
	}
	return true
}

// ask sends the request to a shard.
func (k *check) ask(index int, at string) {
	w, first := k.w, k.asking[0]
	t := &attempt{k: k, at: at, round: k.round, opens: len(first.next.shared[at]) == 0}
	if t.opens {
		w.opening[at]++
	}
	k.at = append(k.at, at)
	k.sent = true
	first.next.shard(first.s, index).push(call{number: uint64(first.s.id), slot: -1, fixed: true, to: t},
		[]byte(k.key.request))
}

// end gives an answer to the sessions that have asked, and begins the next round.
func (k *check) end(p []byte, refusal scan.Refusal, err *protocol.Error) {
	asking := k.asking
	k.asking = nil
	for _, b := range asking {
		b.end(p, refusal, err)
	}
	k.begin()
}

// An attempt is a check's request to one shard.
type attempt struct {
	k     *check
	at    string // the shard's address
	round int
	opens bool // it counts in the worker's opening
	isOld bool // the request is the check's old one
}

// take implements taker.
func (t *attempt) take(u *upstream, c *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	k := t.k
	w := k.w
	if k.old != nil && !t.isOld && err == nil && isUnknown(p) { // form.go makes RESP3 of its replies
		t.isOld = true
		u.push(call{number: c.number, slot: -1, fixed: true, to: t}, k.old)
		return
	}
	if t.opens {
		if w.opening[t.at]--; w.opening[t.at] == 0 {
			delete(w.opening, t.at)
		}
	}
	if t.round == k.round && len(k.asking) > 0 {
		k.leave(t.at)
		switch {
		case err != nil && u != nil && u.denied: // the shard has refused the identity in the greeting
			k.end(nil, scan.OtherError, err)
		case err != nil:
			k.why = err
			k.goOn()
		case refusal > scan.OtherError: // the shard is not ready
			k.why = errorOf(bytes.Clone(p))
			k.goOn()
		default:
			k.end(p, refusal, nil)
		}
	}
	w.askMore(t.at)
}

// askMore lets checks go to a shard that have waited for it, as many as may.
func (w *worker) askMore(at string) {
	for len(w.unchecked[at]) > 0 && w.opening[at] < checksMost {
		next := w.unchecked[at][0]
		w.unchecked[at] = w.unchecked[at][1:]
		if k := next.k; next.round == k.round && len(k.asking) > 0 { // otherwise it has its answer
			k.leave(at)
			if !k.goTo(next.index) {
				k.goOn()
			}
		}
	}
	if len(w.unchecked[at]) == 0 {
		delete(w.unchecked, at)
	}
}

// leave forgets that the check is at a shard.
func (k *check) leave(at string) {
	if i := slices.Index(k.at, at); i >= 0 {
		k.at = slices.Delete(k.at, i, i+1)
	}
}

// hurryChecks sends each check to its next shard after checkPatience. It reports whether a check waits.
func (w *worker) hurryChecks() (waits bool) {
	for _, k := range w.checks {
		n := len(w.topology.Shards)
		if len(k.asking) == 0 || len(k.at) == 0 || len(k.at) >= n {
			continue
		}
		waits = true
		if w.now()-k.movedAt > checkPatience {
			if k.tried >= n {
				k.tried = 0
			}
			k.goOn()
		}
	}
	return waits
}

// isUp reports whether the access has an open connection to an address.
func (a *access) isUp(at string) bool {
	for _, u := range a.shared[at] {
		if u.state == up {
			return true
		}
	}
	return false
}
