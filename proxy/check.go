package proxy

import (
	"spindle/protocol"
	"spindle/protocol/scan"
)

// A check asks a shard whether an identity is good, for all sessions that want to be of it by the same request.
//
//	asks ─▶ next ─▶ asking: the request is under way ─▶ each session gets the answer
//
// proxy.I1. A loop has one request of a check under way to each shard. Sessions that ask the same shard meanwhile share
// the next request, because the answer may have changed. So a storm of new clients sends few requests on connections of
// known clients. A shard that does not answer holds up only the sessions that ask it.
// proxy.I2. A check of an identity without a connection opens one. A loop runs at most checksMost of those at once, and
// the others wait in order. So clients with wrong passwords do not use up the shards' connections.
type check struct {
	w            *worker
	key          checkKey
	old          []byte // is sent instead to a shard that does not know HELLO; nil: nothing is
	isOld        bool   // that request is under way
	asking, next []*becoming
	opens        bool // it counts in the worker's opening
}

// A checkKey is what sessions of one check have in common.
type checkKey struct {
	id      identity
	request string
	shard   int // the place of the shard that a session asks first
}

// checksMost is how many identities without a connection a loop checks at once.
const checksMost = 64

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
	if len(b.next.shared) == 0 {
		w.unchecked = append(w.unchecked, k)
		w.askMore()
		return
	}
	k.ask()
}

// askMore begins checks that open a connection, as many as may run.
func (w *worker) askMore() {
	for len(w.unchecked) > 0 && w.opening < checksMost {
		k := w.unchecked[0]
		w.unchecked = w.unchecked[1:]
		k.opens = true
		w.opening++
		k.ask()
	}
}

// ask sends the request for the sessions that wait, or ends the check if none does.
func (k *check) ask() {
	w := k.w
	for k.asking = nil; len(k.asking) == 0 && len(k.next) > 0; {
		for _, b := range k.next {
			if b.s.closed {
				b.next.leave()
			} else {
				k.asking = append(k.asking, b)
			}
		}
		k.next = nil
		if len(k.asking) == 0 {
			break
		}
		first := k.asking[0]
		u, err := first.next.any(first.s)
		if err == nil {
			u.push(call{number: uint64(first.s.id), slot: -1, to: k}, []byte(k.key.request))
			return
		}
		k.tell(nil, scan.OtherError, err)
	}
	delete(w.checks, k.key)
	if k.opens {
		w.opening--
	}
}

// tell gives the answer to the sessions that have asked.
func (k *check) tell(p []byte, refusal scan.Refusal, err *protocol.Error) {
	asking := k.asking
	k.asking = nil
	for _, b := range asking {
		b.end(p, refusal, err)
	}
}

// take implements taker.
func (k *check) take(u *upstream, c *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	if k.old != nil && !k.isOld && err == nil && isUnknown(p) { // form.go makes RESP3 of its replies
		k.isOld = true
		u.push(call{number: c.number, slot: -1, to: k}, k.old)
		return
	}
	k.isOld = false
	k.tell(p, refusal, err)
	k.ask()
	k.w.askMore()
}

// any returns the shared connection of a session to a shard that can be reached.
func (a *access) any(s *session) (u *upstream, err *protocol.Error) {
	w := a.w
	n := len(w.topology.Shards)
	if n == 0 {
		return nil, errNoShard
	}
	for i := range n {
		index := int((uint64(s.id) + uint64(i)) % uint64(n))
		u = a.shard(s, index)
		if u == nil {
			err = errNoPrimary(w.topology.Shards[index].ID)
			continue
		}
		if b := w.breaker(u.at); u.state == up || !b.isOpen(w.now()) {
			return u, nil
		}
		err = errBroken(u.at, w.breaker(u.at).until-w.now())
	}
	return nil, err
}
