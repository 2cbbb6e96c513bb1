package proxy

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"spindle/internal/glob"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/topology"
	"spindle/reactor"
)

// Publish and subscribe. The proxy has one subscription for each channel and user, however many clients listen. One
// loop, the first, keeps them all in its hub.
//
//	session ── SUBSCRIBE ─▶ hub (first loop): topic ── the first listener ─▶ links of the topic ─▶ shards
//	   ▲                      │ the shards have confirmed                               │
//	   └──── confirmation ◀───┘                                                         │
//	   └──── message ◀──── each loop with listeners, once ◀─────────────────────────────┘
//
// proxy.B1. A client reads a confirmation after the shards have confirmed. Afterwards it misses no message, unless a
// connection to a shard breaks. Then the hub subscribes again. It waits for a confirmation until proxy-timeout.
// proxy.B2. A message goes between two replies, never into one.
// proxy.B3. The proxy subscribes where a topic's messages are published. If a message comes over several links, one of
// them counts:
//
//	                          in a cluster, which passes messages on     plain servers
//	a channel, a pattern      at any shard                               at all shards
//	a channel of key events   at all shards: each tells of its own keys  at all shards
//	a pattern that may match  both: of the shards' links only events     at all shards
//	such a channel            count, of the other link all else
//	a sharded channel         at the shard of its slot                   at the shard of its slot
type hub struct {
	w      *worker
	isBus  bool // the shards are a cluster
	topics map[topicKey]*topic
	names  map[topicName]map[*topic]bool // the same: of all accounts
	globs  map[*topic]bool               // the same: the patterns
	links  map[linkKey]*link
	of     *topology.Map // whose shards the links are for
	leaves bool          // leaveStrangers is called soon
	count  atomic.Int64  // of topics; any goroutine reads it
}

func newHub(w *worker, isBus bool) *hub {
	return &hub{w: w, isBus: isBus, topics: map[topicKey]*topic{}, names: map[topicName]map[*topic]bool{},
		globs: map[*topic]bool{}, links: map[linkKey]*link{}}
}

// An account is the user that a subscription is of.
type account struct{ user, password string }

// A linkKey is the connection that topics are heard on.
type linkKey struct {
	account
	at string // address; "": any shard
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

type topicKey struct {
	account
	topicName
}

// A topic is one channel or pattern of one account.
type topic struct {
	topicKey
	links     []*link
	listeners map[*worker]map[*session]struct{}
	waiting   []*joining // for the confirmation
}

// A joining is a topic of a client's request that waits for its confirmation.
type joining struct {
	s *session
	topicKey
	number uint64
	count  int // of the client's subscriptions afterwards
	of     *joinings
	heard  bool // it is confirmed; of the session's loop
}

// A joinings is one request. As at a server, the client gets all of its topics or none. The session's loop has it.
type joinings struct {
	all  []*joining
	left int             // that are neither confirmed nor refused
	err  *protocol.Error // why one was refused
}

// A link is one connection for messages.
type link struct {
	hub     *hub
	key     linkKey
	at      string
	d       reactor.Direct // nil: it is not up
	scan    scan.Scanner
	part    []byte
	greets  bool // the shard has yet to accept the user; nothing is asked before
	topics  map[topicName]*held
	asked   []*held        // subscribe requests without a reply, in order
	leaving map[string]int // sharded channels: our SUNSUBSCRIBE without a confirmation
	downs   int            // failures since a shard has confirmed something
	closing bool
}

// A held is a topic on a link.
type held struct {
	*topic
	confirmed bool
	retries   bool // it is asked for again soon
	busy      int  // how often in a row the shard was busy
}

// pause is the time until a topic is asked for again. It grows while the shard is busy, because there may be thousands.
func (t *held) pause() time.Duration { return pauseFirst * time.Millisecond << min(t.busy, 6) }

// eventPrefixes begin the channels on which a shard tells of its keys.
var eventPrefixes = []string{"__keyspace@", "__keyevent@", "__subkeyspace@", "__subkeyevent@", "__subkeyspaceitem@",
	"__subkeyspaceevent@"}

// isEvents reports whether a channel is one of key events.
func isEvents(channel string) bool {
	if !strings.HasPrefix(channel, "__") {
		return false
	}
	for _, prefix := range eventPrefixes {
		if strings.HasPrefix(channel, prefix) {
			return true
		}
	}
	return false
}

// mayMatchEvents reports whether a pattern may match a channel of key events. It compares what is before the pattern's
// first special byte.
func mayMatchEvents(pattern string) bool {
	literal := pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		literal = pattern[:i]
	}
	for _, prefix := range eventPrefixes {
		if strings.HasPrefix(prefix, literal) || strings.HasPrefix(literal, prefix) {
			return true
		}
	}
	return false
}

// everywhere reports whether a topic is held at all shards, and anywhere whether it is on the link to any shard
// (proxy.B3).
func (h *hub) everywhere(name topicName) bool {
	switch name.kind {
	case channelKind:
		return !h.isBus || isEvents(name.name)
	case patternKind:
		return !h.isBus || mayMatchEvents(name.name)
	}
	return false
}

func (h *hub) anywhere(name topicName) bool {
	return h.isBus && name.kind != shardKind && !(name.kind == channelKind && isEvents(name.name))
}

// counts reports whether a message on a channel is one for this link (proxy.B3).
func (l *link) counts(name topicName, channel string) bool {
	return name.kind == shardKind || !l.hub.isBus || (l.key.at == "") != isEvents(channel)
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

// join adds a listener. at is the shard's address, of a sharded channel. On the hub's loop.
func (h *hub) join(at string, j *joining) {
	key := j.topicKey
	t := h.topics[key]
	if t == nil {
		t = &topic{topicKey: key, listeners: map[*worker]map[*session]struct{}{}}
		h.begin(t)
		if h.of == nil {
			h.of = h.w.p.finder.Current()
		}
		if key.kind == shardKind {
			h.hold(t, at)
		}
		if h.anywhere(key.topicName) {
			h.hold(t, "")
		}
		if h.everywhere(key.topicName) {
			for _, s := range h.of.Shards {
				if s.Primary != "" {
					h.hold(t, s.Primary)
				}
			}
		}
	}
	t.waiting = append(t.waiting, j)
	if t.settle(); slices.Contains(t.waiting, j) {
		limit := h.w.p.settings.Timeout.Get()
		time.AfterFunc(time.Duration(limit)*time.Millisecond, func() { h.run(func() { h.giveUp(t, j, limit) }) })
	}
}

// giveUp ends the wait of a client for a topic, after limit ms. Shards that have not confirmed it by then publish
// nothing that the client could get.
func (h *hub) giveUp(t *topic, j *joining, limit int64) {
	i := slices.Index(t.waiting, j)
	if i < 0 {
		return
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if slices.ContainsFunc(t.links, func(l *link) bool { return l.topics[t.topicName].confirmed }) {
		h.confirm(t, j)
		return
	}
	j.refuse(errUnheard(limit))
	h.endIfEmpty(t)
}

// hold puts a topic on the link to an address, if it is not there.
func (h *hub) hold(t *topic, at string) {
	key := linkKey{t.account, at}
	l := h.links[key]
	if l == nil {
		l = &link{hub: h, key: key, topics: map[topicName]*held{}}
		h.links[key] = l
		l.dial()
	}
	if l.topics[t.topicName] != nil {
		return
	}
	one := &held{topic: t}
	l.topics[t.topicName] = one
	t.links = append(t.links, l)
	l.ask(one)
}

// release takes a topic from a link. The last one closes the link.
func (l *link) release(t *topic) {
	l.forget(t)
	if l.d != nil && !l.greets {
		l.d.Append(encode(kindWords[t.kind].unsubscribe, t.name))
		if t.kind == shardKind {
			if l.leaving == nil {
				l.leaving = map[string]int{}
			}
			l.leaving[t.name]++
		}
	}
	l.closeIfEmpty()
}

// forget takes a topic from a link which the shard has ended.
func (l *link) forget(t *topic) {
	delete(l.topics, t.topicName)
	for i, other := range t.links {
		if other == l {
			t.links = append(t.links[:i:i], t.links[i+1:]...)
			break
		}
	}
}

func (l *link) closeIfEmpty() {
	if len(l.topics) > 0 || l.closing {
		return
	}
	l.closing = true
	delete(l.hub.links, l.key)
	if l.d != nil {
		l.d.Close(false)
	}
}

// isHeard reports whether shards have confirmed a topic. One that cannot be reached publishes nothing that a client
// could get, so no client waits for it.
func (t *topic) isHeard() (heard bool) {
	for _, l := range t.links {
		switch {
		case l.topics[t.topicName].confirmed:
			heard = true
		case l.d != nil || l.downs == 0:
			return false
		}
	}
	return heard
}

// settle tells the clients that wait, once the topic is heard, and ends a topic without listeners.
func (t *topic) settle() {
	if len(t.links) == 0 {
		return
	}
	h := t.links[0].hub
	if !t.isHeard() {
		return
	}
	waiting := t.waiting
	t.waiting = nil
	for _, j := range waiting {
		h.confirm(t, j)
	}
	h.endIfEmpty(t)
}

// confirm tells a client that it hears a topic.
func (h *hub) confirm(t *topic, j *joining) {
	s, key := j.s, t.topicKey
	of := t.listeners[s.w]
	if of == nil {
		of = map[*session]struct{}{}
		t.listeners[s.w] = of
	}
	of[s] = struct{}{}
	h.at(s.w, func() {
		if s.closed {
			h.run(func() { h.leave(key, s) })
			return
		}
		j.heard = true
		j.decided()
	})
}

// leave removes a listener; after the last one the topic ends. On the hub's loop.
func (h *hub) leave(key topicKey, s *session) {
	t := h.topics[key]
	if t == nil {
		return
	}
	delete(t.listeners[s.w], s)
	if len(t.listeners[s.w]) == 0 {
		delete(t.listeners, s.w)
	}
	h.endIfEmpty(t)
}

// endIfEmpty ends a topic to which no client listens.
func (h *hub) endIfEmpty(t *topic) {
	if len(t.listeners) > 0 || len(t.waiting) > 0 {
		return
	}
	h.end(t)
	for len(t.links) > 0 {
		t.links[0].release(t)
	}
}

func (h *hub) begin(t *topic) {
	h.topics[t.topicKey] = t
	h.count.Add(1)
	if t.kind == patternKind {
		h.globs[t] = true
		return
	}
	if h.names[t.topicName] == nil {
		h.names[t.topicName] = map[*topic]bool{}
	}
	h.names[t.topicName][t] = true
}

func (h *hub) end(t *topic) {
	delete(h.topics, t.topicKey)
	h.count.Add(-1)
	delete(h.globs, t)
	if delete(h.names[t.topicName], t); len(h.names[t.topicName]) == 0 {
		delete(h.names, t.topicName)
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
	if l.key.at != "" && !l.closing {
		l.moveAll()
	}
	if !l.closing {
		l.dial()
	}
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
		l.greets = true
		d.Append(encode(words...))
		l.limit(func() bool { return l.greets })
		return
	}
	l.askAll()
}

func (l *link) askAll() {
	l.asked = nil
	for _, t := range l.topics {
		l.ask(t)
	}
}

// ask subscribes to a topic, if the connection is up and its user accepted. Otherwise askAll does.
func (l *link) ask(t *held) {
	if l.d != nil && !l.greets {
		l.asked = append(l.asked, t)
		l.d.Append(encode(kindWords[t.kind].subscribe, t.name))
		l.limit(func() bool { return l.topics[t.topicName] == t && !t.confirmed })
	}
}

// limit closes the connection if it still waits for a reply of the shard after proxy-timeout.
func (l *link) limit(waits func() bool) {
	d := l.d
	time.AfterFunc(time.Duration(l.hub.w.p.settings.Timeout.Get())*time.Millisecond, func() {
		l.hub.run(func() {
			if l.d == d && waits() {
				d.Close(false)
			}
		})
	})
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
		switch {
		case complete:
			l.take(l.part)
			if l.part = l.part[:0]; cap(l.part) > keptIdle {
				l.part = nil
			}
		case len(l.part) > replyMost:
			l.hub.w.p.log.Warning("Connection to %s for messages is closed: one has more than %d bytes", l.at, replyMost)
			l.d.Close(false)
			return
		}
	}
}

// take handles one message, confirmation or error.
func (l *link) take(p []byte) {
	switch greets, failed := l.greets, p[0] == '-'; {
	case failed && isCrowded(errorOf(p)):
		l.d.Close(false) // later tries again
		return
	case failed && greets:
		l.deny(errorOf(p))
		return
	case failed:
		l.refused(p)
		return
	case greets:
		l.greets = false
		l.askAll()
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
		t := l.asked[0]
		l.asked = l.asked[1:]
		if l.topics[t.topicName] == t {
			t.confirmed, t.busy = true, 0
			t.settle()
		}
	case "sunsubscribe":
		if name := string(words[1]); l.leaving[name] > 0 {
			if l.leaving[name]--; l.leaving[name] == 0 {
				delete(l.leaving, name)
			}
			return
		}
		// It was not asked for: the slot has moved.
		if t := l.topics[topicName{shardKind, string(words[1])}]; t != nil {
			l.move(t)
		}
	}
}

// refused handles a shard's error to a subscribe request.
func (l *link) refused(p []byte) {
	if len(l.asked) == 0 {
		return
	}
	held := l.asked[0]
	l.asked = l.asked[1:]
	if l.topics[held.topicName] != held {
		return
	}
	err := errorOf(p)
	if held.kind == shardKind && err.Code == "MOVED" {
		if slot, at, ok := target(err, l.at); ok {
			l.hub.w.p.finder.Moved(slot, at)
		}
		l.move(held)
		return
	}
	if held.kind == shardKind && err.Code == "CLUSTERDOWN" {
		l.hub.w.p.finder.Doubt(l.at)
		l.retry(held)
		return
	}
	if err.Code == "BUSY" && len(held.listeners) > 0 { // a script runs there: they have heard the topic, and may
		held.busy++
		l.retry(held)
		return
	}
	l.refuse(held.topic, err)
}

// deny refuses all topics of a link whose user the shard does not accept. Without that they would be the default
// user's.
func (l *link) deny(err *protocol.Error) {
	for len(l.topics) > 0 {
		for _, held := range l.topics {
			l.refuse(held.topic, err)
			break
		}
	}
}

// refuse ends a topic that its user may not hear.
func (l *link) refuse(t *topic, err *protocol.Error) {
	l.forget(t)
	waiting := t.waiting
	t.waiting = nil
	for _, j := range waiting {
		j.refuse(err)
	}
	for w, of := range t.listeners { // they listened, and the user may not any more
		for s := range of {
			reactor.Run(w.loop, func() { s.conn.Close(false) })
		}
	}
	l.hub.end(t)
	for len(t.links) > 0 {
		t.links[0].release(t)
	}
	l.closeIfEmpty()
}

// Down implements reactor.Sink.
func (l *link) Down(error) {
	l.d, l.part, l.greets, l.asked, l.leaving = nil, nil, false, nil, nil
	l.scan = scan.Scanner{}
	if l.closing {
		return
	}
	l.later()
	var all []*topic
	for _, t := range l.topics {
		t.confirmed = false
		all = append(all, t.topic)
	}
	for _, t := range all {
		t.settle()
	}
}

// move takes a sharded topic to the shard that owns its slot now.
func (l *link) move(t *held) {
	h, w := l.hub, l.hub.w
	m := w.p.finder.Current()
	slot := w.p.table().Hasher.Slot([]byte(t.name))
	at := l.key.at
	if index := m.Owner(slot); index >= 0 && m.Shards[index].Primary != "" {
		at = m.Shards[index].Primary
	}
	if at != l.key.at {
		l.forget(t.topic)
		h.hold(t.topic, at)
		l.closeIfEmpty()
		t.settle()
		return
	}
	w.p.finder.Refresh() // the map does not know yet
	t.confirmed = false
	l.retry(t)
	l.ask(t)
}

// retry asks for a topic again after a pause: a sharded one at the shard that owns its slot then.
func (l *link) retry(t *held) {
	if t.retries {
		return
	}
	t.retries = true
	time.AfterFunc(t.pause(), func() {
		l.hub.run(func() {
			switch t.retries = false; {
			case l.topics[t.topicName] != t || t.confirmed:
			case t.kind == shardKind:
				l.move(t)
			default:
				l.ask(t)
			}
		})
	})
}

// moveAll takes the sharded topics of a link that is down to where they belong now.
func (l *link) moveAll() {
	w := l.hub.w
	m := w.p.finder.Current()
	w.p.finder.Refresh()
	for name, t := range l.topics {
		if name.kind != shardKind {
			continue
		}
		slot := w.p.table().Hasher.Slot([]byte(name.name))
		if index := m.Owner(slot); index >= 0 && m.Shards[index].Primary != l.key.at {
			l.move(t)
		}
	}
}

// spread gives a message to its listeners: to each loop that has some, once.
func (l *link) spread(word string, words [][]byte) {
	name, channel := topicName{channelKind, string(words[1])}, string(words[1])
	switch word {
	case "pmessage":
		name.kind, channel = patternKind, string(words[2])
	case "smessage":
		name.kind = shardKind
	}
	t := l.topics[name]
	if t == nil || !l.counts(name, channel) {
		return
	}
	old, new := encodeMessage(words, false), encodeMessage(words, true)
	for w, of := range t.listeners {
		to := make([]*session, 0, len(of))
		for s := range of {
			to = append(to, s)
		}
		deliver := func() {
			for _, s := range to {
				switch {
				case s.closed || !s.listens(name.kind, name.name):
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

// audience counts the clients that get a message, and the subscriptions of links at a server that it matches. On the
// hub's loop.
func (h *hub) audience(channel topicName, at string) (listeners, links int) {
	count := func(t *topic) {
		for _, of := range t.listeners {
			listeners += len(of)
		}
		for _, l := range t.links {
			if l.at == at && l.topics[t.topicName].confirmed {
				links++
			}
		}
	}
	for t := range h.names[channel] {
		count(t)
	}
	for t := range h.globs {
		if channel.kind == channelKind && glob.Match([]byte(t.name), []byte(channel.name)) {
			count(t)
		}
	}
	return listeners, links
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
