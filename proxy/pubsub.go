package proxy

import (
	"bytes"
	"slices"
	"strconv"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/reactor"
)

// The part of a session in publish and subscribe. hub.go has the connections to shards.

// subscriptions are a session's.
type subscriptions struct {
	topics [3]map[string]account // by name: whose topic it is
}

func (s *subscriptions) count() int { return len(s.topics[channelKind]) + len(s.topics[patternKind]) }

func (s *session) subs() *subscriptions {
	if s.sub == nil {
		s.sub = &subscriptions{}
		for i := range s.sub.topics {
			s.sub.topics[i] = map[string]account{}
		}
	}
	return s.sub
}

// isSubscriber reports whether the client may send little else than subscriptions: RESP2 alone has that rule.
func (s *session) isSubscriber() bool {
	return s.sub != nil && !s.access.id.resp3 && s.sub.count()+len(s.sub.topics[shardKind]) > 0
}

// subscribe is SUBSCRIBE, PSUBSCRIBE and SSUBSCRIBE.
func (s *session) subscribe(kind topicKind, args [][]byte, slot int) bool {
	if s.tx != nil {
		s.refuse(errInMulti(kindWords[kind].on))
		return true
	}
	of, at := account{s.access.id.user, s.access.id.password}, ""
	if kind == shardKind {
		u, err := s.upstream(slot)
		if err != nil {
			s.refuse(err)
			return true
		}
		at = u.at
	}
	h := s.w.p.hub
	r, count, begun := &joinings{}, s.countTopics(kind), map[string]bool{}
	for _, a := range args[1:] {
		key := topicKey{of, topicName{kind, string(a)}}
		if has := begun[key.name]; !has {
			begun[key.name] = true
			if s.sub != nil {
				_, has = s.sub.topics[kind][key.name]
			}
			if !has {
				count++
			}
		}
		r.all = append(r.all, &joining{s: s, topicKey: key, number: s.expectPush(), count: count, of: r})
	}
	s.barrier, s.joins, r.left = true, r, len(r.all)
	for _, j := range r.all {
		h.run(func() { h.join(at, j) })
	}
	return true
}

// refuse notes why the client does not hear a topic.
func (j *joining) refuse(err *protocol.Error) {
	j.s.on(func() {
		if j.of.err == nil {
			j.of.err = err
		}
		j.decided()
	})
}

// decided answers the request when the shards have decided about all of its topics. If one was refused, the client
// hears none, and gets one error.
func (j *joining) decided() {
	s, r := j.s, j.of
	if r.left--; r.left > 0 {
		return
	}
	s.joins = nil
	if r.err != nil {
		r.leave()
		for _, j := range r.all[1:] {
			s.answer(j.number, nil)
		}
		s.answerOr(r.all[0].number, nil, r.err)
		return
	}
	for _, j := range r.all {
		if s.listens(j.kind, j.name) && !s.listensAs(j.topicKey) {
			s.part(j.topicName)
		}
		s.subs().topics[j.kind][j.name] = j.account
	}
	s.conn.SetClass(protocol.ClassPubSub)
	for _, j := range r.all {
		s.answer(j.number, s.subscribed(kindWords[j.kind].on, []byte(j.name), j.count))
	}
}

// leave gives up the topics of a request that are heard. Those of earlier requests stay.
func (r *joinings) leave() {
	for _, j := range r.all {
		if s := j.s; j.heard && !s.listensAs(j.topicKey) {
			h := s.w.p.hub
			h.run(func() { h.leave(j.topicKey, s) })
		}
	}
}

// on calls f on the session's loop, unless the client has gone.
func (s *session) on(f func()) {
	reactor.Run(s.w.loop, func() {
		if !s.closed {
			f()
		}
	})
}

// subscribed makes a confirmation. name nil: there was nothing to unsubscribe from.
func (s *session) subscribed(word string, name []byte, count int) []byte {
	r := protocol.Reply{RESP3: s.access.id.resp3}
	r.Push(3)
	r.BulkString(word)
	if name == nil {
		r.Null()
	} else {
		r.Bulk(name)
	}
	r.Int(int64(count))
	return r.B
}

// countTopics counts what a confirmation of a kind tells of: sharded channels, or channels and patterns.
func (s *session) countTopics(kind topicKind) int {
	switch {
	case s.sub == nil:
		return 0
	case kind == shardKind:
		return len(s.sub.topics[shardKind])
	}
	return s.sub.count()
}

// unsubscribe is UNSUBSCRIBE, PUNSUBSCRIBE and SUNSUBSCRIBE.
func (s *session) unsubscribe(kind topicKind, args [][]byte) bool {
	if s.tx != nil {
		s.refuse(errInMulti(kindWords[kind].off))
		return true
	}
	if !s.wait() {
		return false
	}
	var names [][]byte
	if names = args[1:]; len(names) == 0 && s.sub != nil {
		for name := range s.sub.topics[kind] {
			names = append(names, []byte(name))
		}
	}
	off := kindWords[kind].off
	if len(names) == 0 {
		s.answer(s.expectPush(), s.subscribed(off, nil, s.countTopics(kind)))
		return true
	}
	for _, name := range names {
		if s.sub != nil {
			s.part(topicName{kind, string(name)})
		}
		s.answer(s.expectPush(), s.subscribed(off, name, s.countTopics(kind)))
	}
	if s.sub != nil && !s.isPubSub() {
		s.leaveChannels()
	}
	return true
}

// part ends one subscription.
func (s *session) part(name topicName) {
	of, has := s.sub.topics[name.kind][name.name]
	if !has {
		return
	}
	delete(s.sub.topics[name.kind], name.name)
	h := s.w.p.hub
	h.run(func() { h.leave(topicKey{of, name}, s) })
}

// leaveChannels ends all subscriptions. The client is one without any again.
func (s *session) leaveChannels() {
	if s.joins != nil {
		s.joins.leave()
	}
	if s.sub == nil {
		return
	}
	for kind := range s.sub.topics {
		for name := range s.sub.topics[kind] {
			s.part(topicName{topicKind(kind), name})
		}
	}
	s.sub = nil
	if !s.closed {
		s.conn.SetClass(protocol.ClassNormal)
	}
}

// publish is PUBLISH, and SPUBLISH with a slot. The client reads how many clients get the message: those of this proxy,
// and those that the shard sends it to itself. As in a cluster, subscribers at other shards and proxies do not count.
func (s *session) publish(kind topicKind, slot int, channel, raw []byte) bool {
	u, err := s.upstream(slot)
	if err != nil {
		s.refuse(err)
		return true
	}
	if u.isFull() {
		u.waiting = append(u.waiting, s)
		return false
	}
	c := call{s: s, number: s.expect(), slot: int32(slot)}
	if s.w.p.hub.count.Load() > 0 {
		c.to = &published{s, topicName{kind, string(channel)}}
	}
	u.push(c, raw)
	return true
}

// A published takes a shard's count of receivers.
type published struct {
	s    *session
	name topicName
}

func (p *published) take(u *upstream, c *call, reply []byte, refusal scan.Refusal, err *protocol.Error) {
	s, number := p.s, c.number
	if err != nil || refusal != scan.NotRefused || len(reply) < 4 || reply[0] != ':' {
		s.answerOr(number, reply, err)
		return
	}
	count, _ := strconv.Atoi(string(reply[1 : len(reply)-2]))
	h, at := s.w.p.hub, u.at
	h.run(func() {
		listeners, links := h.audience(p.name, at)
		s.on(func() {
			var r protocol.Reply
			r.Int(int64(max(0, count-links) + listeners))
			s.answer(number, r.B)
		})
	})
}

// listens reports whether the client has a subscription still.
func (s *session) listens(kind topicKind, name string) bool {
	if s.sub == nil {
		return false
	}
	_, has := s.sub.topics[kind][name]
	return has
}

// listensAs reports whether the client has a subscription still that it made as that user.
func (s *session) listensAs(key topicKey) bool {
	return s.listens(key.kind, key.name) && s.sub.topics[key.kind][key.name] == key.account
}

// hear gives the client a message, or another push (proxy.B2).
func (s *session) hear(p []byte) {
	if s.owed.n > 0 && s.owed.at(0).begun {
		s.heard, s.heardBytes = append(s.heard, bytes.Clone(p)), s.heardBytes+len(p)
		s.bound()
		return
	}
	s.emit(p)
}

// stringsIn returns the bulk strings of an array or push of them. The integers of confirmations count as "".
func stringsIn(p []byte) (words [][]byte) {
	if p[0] != '*' && p[0] != '>' {
		return nil
	}
	at := bytes.IndexByte(p, '\n') + 1
	for at > 0 && at < len(p) {
		end := bytes.IndexByte(p[at:], '\n')
		if end < 1 {
			return nil
		}
		head := p[at : at+end-1]
		at += end + 1
		switch head[0] {
		case '$':
			n := 0
			for _, c := range head[1:] {
				if c < '0' || c > '9' {
					n = -1
					break
				}
				n = 10*n + int(c-'0')
			}
			if n < 0 { // null
				words = append(words, nil)
				continue
			}
			words = append(words, slices.Clip(p[at:at+n]))
			at += n + 2
		default:
			words = append(words, nil)
		}
	}
	return words
}
