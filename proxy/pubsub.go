package proxy

import (
	"bytes"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"spindle/internal/glob"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/reactor"
)

// Publish and subscribe. The proxy has one subscription for each channel and user, however many clients listen. One
// loop, the first, keeps them all in its hub.
//
//	session ── SUBSCRIBE ─▶ hub (first loop): topic ── the first listener ─▶ listener's connection ─▶ shard
//	   ▲                      │ the shard has confirmed                               │
//	   └──── confirmation ◀───┘                                                       │
//	   └──── message ◀──── each loop with listeners, once ◀───────────────────────────┘
//
// proxy.B1. A client reads a confirmation after the shard has confirmed. Afterwards it misses no message, unless the
// connection to the shard breaks. Then the hub subscribes again elsewhere.
// proxy.B2. A message goes between two replies, never into one.
type hub struct {
	w      *worker
	links  map[linkKey]*link
	topics atomic.Int64 // of all links; any goroutine reads it
}

// A linkKey is the connection that a topic is heard on. Ordinary channels are heard at any shard of a cluster: it
// spreads each message to all. Sharded channels are heard at the shard of their slot.
type linkKey struct {
	user, password string
	at             string // address, for sharded channels; "": any
}

// topicKind is one of the three kinds of subscriptions.
type topicKind uint8

const (
	channelKind topicKind = iota
	patternKind
	shardKind
)

var kindWords = [...]struct{ subscribe, unsubscribe, on, off, message string }{
	channelKind: {"SUBSCRIBE", "UNSUBSCRIBE", "subscribe", "unsubscribe", "message"},
	patternKind: {"PSUBSCRIBE", "PUNSUBSCRIBE", "psubscribe", "punsubscribe", "pmessage"},
	shardKind:   {"SSUBSCRIBE", "SUNSUBSCRIBE", "ssubscribe", "sunsubscribe", "smessage"},
}

type topicName struct {
	kind topicKind
	name string
}

// A topic is one channel or pattern of a link.
type topic struct {
	confirmed bool
	listeners map[*worker]map[*session]struct{}
	waiting   []*joining // for the confirmation
}

// A joining is a client's request that waits for its confirmation.
type joining struct {
	s      *session
	number uint64
	count  int // of the client's subscriptions afterwards
}

// A link is one connection for messages.
type link struct {
	hub     *hub
	key     linkKey
	at      string
	d       reactor.Direct // nil: it is not up
	scan    scan.Scanner
	part    []byte
	greets  int // replies to greetings that are still to come
	topics  map[topicName]*topic
	globs   int         // topics that are patterns
	asked   []topicName // subscribe requests without a reply, in order
	downs   int
	closing bool
}

// subscriptions are a session's.
type subscriptions struct {
	topics [3]map[string]linkKey
}

func (s *subscriptions) count() int { return len(s.topics[channelKind]) + len(s.topics[patternKind]) }

func (s *session) subs() *subscriptions {
	if s.sub == nil {
		s.sub = &subscriptions{}
		for i := range s.sub.topics {
			s.sub.topics[i] = map[string]linkKey{}
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
	key := linkKey{user: s.access.id.user, password: s.access.id.password}
	if kind == shardKind {
		u, err := s.upstream(slot)
		if err != nil {
			s.refuse(err)
			return true
		}
		key.at = u.at
	}
	h := s.w.p.hub
	count, begun := s.countTopics(kind), map[string]bool{}
	for _, a := range args[1:] {
		name := topicName{kind, string(a)}
		if has := begun[name.name]; !has {
			begun[name.name] = true
			if s.sub != nil {
				_, has = s.sub.topics[kind][name.name]
			}
			if !has {
				count++
			}
		}
		j := &joining{s, s.expectPush(), count}
		h.run(func() { h.join(key, name, j) })
	}
	s.barrier = true
	return true
}

// run calls f on the hub's loop.
func (h *hub) run(f func()) { reactor.Run(h.w.loop, f) }

// at calls f on w's loop: at once if that is the hub's.
func (h *hub) at(w *worker, f func()) {
	if w == h.w {
		f()
		return
	}
	reactor.Run(w.loop, f)
}

// on calls f on the session's loop, unless the client has gone.
func (s *session) on(f func()) {
	reactor.Run(s.w.loop, func() {
		if !s.closed {
			f()
		}
	})
}

// join adds a listener. On the hub's loop.
func (h *hub) join(key linkKey, name topicName, j *joining) {
	l := h.links[key]
	if l == nil {
		l = &link{hub: h, key: key, topics: map[topicName]*topic{}}
		h.links[key] = l
		l.dial()
	}
	t := l.topics[name]
	if t == nil {
		t = &topic{listeners: map[*worker]map[*session]struct{}{}}
		l.add(name, t)
		l.ask(name)
	}
	if !t.confirmed {
		t.waiting = append(t.waiting, j)
		return
	}
	l.confirm(name, t, j)
}

// add and remove keep the topics of a link, and the hub's count of all.
func (l *link) add(name topicName, t *topic) {
	l.topics[name] = t
	l.hub.topics.Add(1)
	if name.kind == patternKind {
		l.globs++
	}
}

func (l *link) remove(name topicName) {
	delete(l.topics, name)
	l.hub.topics.Add(-1)
	if name.kind == patternKind {
		l.globs--
	}
}

// confirm tells a client that it hears a topic.
func (l *link) confirm(name topicName, t *topic, j *joining) {
	s, key := j.s, l.key
	of := t.listeners[s.w]
	if of == nil {
		of = map[*session]struct{}{}
		t.listeners[s.w] = of
	}
	of[s] = struct{}{}
	h := l.hub
	h.at(s.w, func() {
		if s.closed {
			h.run(func() { h.leave(key, name, s) })
			return
		}
		s.subs().topics[name.kind][name.name] = key
		s.conn.SetClass(protocol.ClassPubSub)
		s.answer(j.number, s.subscribed(kindWords[name.kind].on, []byte(name.name), j.count))
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
	return true
}

// part ends one subscription.
func (s *session) part(name topicName) {
	key, has := s.sub.topics[name.kind][name.name]
	if !has {
		return
	}
	delete(s.sub.topics[name.kind], name.name)
	h := s.w.p.hub
	h.run(func() { h.leave(key, name, s) })
}

// leaveChannels ends all subscriptions.
func (s *session) leaveChannels() {
	if s.sub == nil {
		return
	}
	for kind := range s.sub.topics {
		for name := range s.sub.topics[kind] {
			s.part(topicName{topicKind(kind), name})
		}
	}
	s.sub = nil
}

// leave removes a listener; after the last one the topic ends. On the hub's loop.
func (h *hub) leave(key linkKey, name topicName, s *session) {
	l := h.links[key]
	if l == nil || l.topics[name] == nil {
		return
	}
	t := l.topics[name]
	delete(t.listeners[s.w], s)
	if len(t.listeners[s.w]) == 0 {
		delete(t.listeners, s.w)
	}
	if len(t.listeners) > 0 || len(t.waiting) > 0 || !t.confirmed {
		return
	}
	l.remove(name)
	if l.d != nil {
		l.d.Append(encode(kindWords[name.kind].unsubscribe, name.name))
	}
	if len(l.topics) == 0 {
		l.closing = true
		delete(h.links, key)
		if l.d != nil {
			l.d.Close(false)
		}
	}
}

// dial opens the link's connection.
func (l *link) dial() {
	h := l.hub
	if l.at = l.key.at; l.at == "" {
		m := h.w.p.finder.Current()
		if n := len(m.Shards); n > 0 {
			l.at = m.Shards[(l.downs+len(h.links))%n].Primary
		}
	}
	if l.at == "" {
		l.later()
		return
	}
	h.w.dial(l.at, l)
}

// later dials again after a pause. A sharded topic may have another shard by then.
func (l *link) later() {
	pause := min(pauseFirst*time.Millisecond<<min(l.downs, 6), pauseMost*time.Millisecond)
	l.downs++
	time.AfterFunc(pause, func() { l.hub.run(l.again) })
}

func (l *link) again() {
	if l.closing {
		return
	}
	if l.key.at != "" {
		l.hub.moveAll(l)
		return
	}
	l.dial()
}

// Up implements reactor.Sink.
func (l *link) Up(d reactor.Direct) {
	if l.closing {
		d.Close(false)
		return
	}
	l.d = d
	if k := l.key; k.password != "" || k.user != "" {
		words := []string{"AUTH", k.user, k.password}
		if k.user == "" {
			words = []string{"AUTH", k.password}
		}
		l.greets++
		d.Append(encode(words...))
	}
	names := make([]topicName, 0, len(l.topics))
	for name, t := range l.topics {
		t.confirmed = false
		names = append(names, name)
	}
	l.asked = nil
	for _, name := range names {
		l.ask(name)
	}
}

// ask subscribes to a topic, if the connection is up. Otherwise Up does.
func (l *link) ask(name topicName) {
	if l.d != nil {
		l.asked = append(l.asked, name)
		l.d.Append(encode(kindWords[name.kind].subscribe, name.name))
	}
}

// Received implements reactor.Sink.
func (l *link) Received(p []byte) {
	for len(p) > 0 {
		n, complete, err := l.scan.Scan(p)
		if err != nil {
			l.hub.w.p.log.Warning("Connection to %s for messages is closed: %v", l.at, err)
			l.d.Close(false)
			return
		}
		l.part = append(l.part, p[:n]...)
		p = p[n:]
		if complete {
			l.take(l.part)
			l.part = l.part[:0]
		}
	}
}

// take handles one message, confirmation or error.
func (l *link) take(p []byte) {
	if l.greets > 0 {
		l.greets--
		return // a failure shows in what follows
	}
	if p[0] == '-' {
		l.refused(p)
		return
	}
	words := stringsIn(p)
	if len(words) < 3 {
		return
	}
	switch word := string(words[0]); word {
	case "message", "pmessage", "smessage":
		l.spread(word, words)
	case "subscribe", "psubscribe", "ssubscribe":
		l.downs = 0
		if len(l.asked) == 0 {
			return
		}
		name := l.asked[0]
		l.asked = l.asked[1:]
		if t := l.topics[name]; t != nil && !t.confirmed {
			t.confirmed = true
			waiting := t.waiting
			t.waiting = nil
			for _, j := range waiting {
				l.confirm(name, t, j)
			}
			l.hub.dropEmpty(l, name, t)
		}
	case "sunsubscribe": // not asked for: the slot has moved
		if name := (topicName{shardKind, string(words[1])}); l.topics[name] != nil {
			l.hub.move(l, name)
		}
	}
}

// refused handles a shard's error to a subscribe request.
func (l *link) refused(p []byte) {
	if len(l.asked) == 0 {
		return
	}
	name := l.asked[0]
	l.asked = l.asked[1:]
	t := l.topics[name]
	if t == nil {
		return
	}
	err := errorOf(p)
	if name.kind == shardKind && err.Code == "MOVED" {
		if slot, at, ok := target(err, l.at); ok {
			l.hub.w.p.finder.Moved(slot, at)
		}
		l.hub.move(l, name)
		return
	}
	l.remove(name)
	for _, j := range t.waiting {
		j.s.on(func() { j.s.answerOr(j.number, nil, err) })
	}
	for w, of := range t.listeners { // they listened, and the user may not any more
		for s := range of {
			reactor.Run(w.loop, func() { s.conn.Close(false) })
		}
	}
}

// Down implements reactor.Sink.
func (l *link) Down(error) {
	l.d, l.part, l.greets, l.asked = nil, nil, 0, nil
	l.scan = scan.Scanner{}
	if !l.closing {
		l.later()
	}
}

// dropEmpty ends a topic whose listeners left before it was confirmed.
func (h *hub) dropEmpty(l *link, name topicName, t *topic) {
	if len(t.listeners) == 0 && len(t.waiting) == 0 {
		t.listeners = map[*worker]map[*session]struct{}{h.w: {}}
		h.leave(l.key, name, &session{w: h.w})
	}
}

// move takes a sharded topic to the shard that owns its slot now.
func (h *hub) move(l *link, name topicName) {
	t := l.topics[name]
	l.remove(name)
	w := h.w
	m := w.p.finder.Current()
	slot := w.p.table().Hasher.Slot([]byte(name.name))
	key := l.key
	if index := m.Owner(slot); index >= 0 && m.Shards[index].Primary != "" {
		key.at = m.Shards[index].Primary
	}
	if key == l.key { // the map does not know yet
		w.p.finder.Refresh()
		l.add(name, t)
		t.confirmed = false
		time.AfterFunc(pauseFirst*time.Millisecond, func() {
			h.run(func() {
				if l.topics[name] == t {
					h.move(l, name)
				}
			})
		})
		l.ask(name)
		return
	}
	to := h.links[key]
	if to == nil {
		to = &link{hub: h, key: key, topics: map[topicName]*topic{}}
		h.links[key] = to
		to.dial()
	}
	old := to.topics[name]
	if old == nil {
		t.confirmed = false
		to.add(name, t)
		to.ask(name)
	} else {
		for w, of := range t.listeners {
			if old.listeners[w] == nil {
				old.listeners[w] = map[*session]struct{}{}
			}
			for s := range of {
				old.listeners[w][s] = struct{}{}
			}
		}
		for _, j := range t.waiting {
			if old.confirmed {
				to.confirm(name, old, j)
			} else {
				old.waiting = append(old.waiting, j)
			}
		}
	}
	for w, of := range t.listeners {
		for s := range of {
			reactor.Run(w.loop, func() {
				if !s.closed && s.sub != nil {
					s.sub.topics[name.kind][name.name] = key
				}
			})
		}
	}
	if len(l.topics) == 0 {
		l.closing = true
		delete(h.links, l.key)
		if l.d != nil {
			l.d.Close(false)
		}
	}
}

// moveAll takes the sharded topics of a link that is down to where they belong now.
func (h *hub) moveAll(l *link) {
	m := h.w.p.finder.Current()
	h.w.p.finder.Refresh()
	for name := range l.topics {
		slot := h.w.p.table().Hasher.Slot([]byte(name.name))
		if index := m.Owner(slot); index >= 0 && m.Shards[index].Primary != l.key.at {
			h.move(l, name)
		}
	}
	if !l.closing {
		l.dial()
	}
}

// spread gives a message to its listeners: to each loop that has some, once.
func (l *link) spread(word string, words [][]byte) {
	kind := channelKind
	switch word {
	case "pmessage":
		kind = patternKind
	case "smessage":
		kind = shardKind
	}
	t := l.topics[topicName{kind, string(words[1])}]
	if t == nil {
		return
	}
	topic := string(words[1])
	old, new := encodeMessage(words, false), encodeMessage(words, true)
	for w, of := range t.listeners {
		to := make([]*session, 0, len(of))
		for s := range of {
			to = append(to, s)
		}
		deliver := func() {
			for _, s := range to {
				switch {
				case s.closed || !s.listens(kind, topic):
				case s.access.id.resp3:
					s.hear(new)
				default:
					s.hear(old)
				}
			}
		}
		l.hub.at(w, deliver)
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
	if s.w.p.hub.topics.Load() > 0 {
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

// audience counts the clients that get a message, and the links that hear it at a server. On the hub's loop.
func (h *hub) audience(channel topicName, at string) (listeners, links int) {
	count := func(l *link, t *topic) {
		for _, of := range t.listeners {
			listeners += len(of)
		}
		if t.confirmed && l.at == at {
			links++
		}
	}
	for _, l := range h.links {
		if t := l.topics[channel]; t != nil {
			count(l, t)
		}
		if l.globs == 0 || channel.kind != channelKind {
			continue
		}
		for name, t := range l.topics {
			if name.kind == patternKind && glob.Match([]byte(name.name), []byte(channel.name)) {
				count(l, t)
			}
		}
	}
	return listeners, links
}

// listens reports whether the client has a subscription still.
func (s *session) listens(kind topicKind, name string) bool {
	if s.sub == nil {
		return false
	}
	_, has := s.sub.topics[kind][name]
	return has
}

// encodeMessage makes a message as a client reads it.
func encodeMessage(words [][]byte, resp3 bool) []byte {
	r := protocol.Reply{RESP3: resp3}
	r.Push(len(words))
	for _, w := range words {
		r.Bulk(w)
	}
	return r.B
}

// hear gives the client a message, or another push (proxy.B2).
func (s *session) hear(p []byte) {
	if s.owed.n > 0 && s.owed.at(0).begun {
		s.heard = append(s.heard, bytes.Clone(p))
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
