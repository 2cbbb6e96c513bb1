package sentinel

import (
	"slices"
	"strconv"
	"strings"

	"spindle/internal/logging"
	"spindle/protocol/respclient"
)

// A link holds the connections to one server: one for commands and, for primaries and replicas, one with a
// subscription.
//
// Another Sentinel may watch several primaries, with an instance for each. They share one link, and one PING serves
// all.
type link struct {
	owners       int
	disconnected bool
	pending      int64 // requests on commands without a reply yet
	commands     *Wire // nil: not connected
	channel      *Wire // the subscribed connection; nil: not connected
	commandsAt   int64 // when it was connected
	channelAt    int64
	heardAt      int64 // the last message of the channel
	availableAt  int64 // the last reply to PING that shows a live server
	pingingSince int64 // the first PING without such a reply; 0: none
	pingedAt     int64 // the last PING
	pongAt       int64 // the last reply to PING of any kind
	triedAt      int64 // the last attempt to connect
}

// pendingMax is how many replies may be outstanding for each owner of a link. Beyond it no PING, INFO or hello is sent.
const pendingMax = 100

// hurriedMs is the period of INFO to a server on which a decision waits.
const hurriedMs = 1000

// A Wire is one connection of a link.
type Wire struct {
	link       *link
	of         *Instance // the instance for which it was dialled
	conn       Conn      // nil: closed
	subscribes bool
	awaited    []await // in the order of the requests
}

// An await says what an expected reply is for.
type await struct {
	of *Instance
	to what
}

type what uint8

const (
	toNothing what = iota // the effects will show
	toPing
	toInfo
	toHello
	toAsk
	toHold
	toSubscribe
)

func (m *Machine) newLink() *link {
	l := &link{owners: 1, disconnected: true}
	l.revive(m.now)
	return l
}

// revive resets the link as if the server had just replied. The link counts as waiting for a PING, so that a server
// that never connects is noticed.
func (l *link) revive(nowMs int64) {
	l.pingingSince, l.pingedAt, l.availableAt, l.pongAt = nowMs, 0, nowMs, nowMs
}

// hangUp closes one connection.
func (l *link) hangUp(w *Wire) {
	if w == nil || w.conn == nil {
		return
	}
	conn := w.conn
	w.conn = nil
	l.forget(w)
	conn.Close()
}

// forget removes a closed connection from the link.
func (l *link) forget(w *Wire) {
	if l.commands == w {
		l.commands, l.pending = nil, 0
	}
	if l.channel == w {
		l.channel = nil
	}
	l.disconnected = true
}

// close closes both connections.
func (l *link) close() {
	l.hangUp(l.commands)
	l.hangUp(l.channel)
}

// leave removes one owner. The last one closes the link.
func (l *link) leave() {
	if l.owners--; l.owners == 0 {
		l.close()
	}
}

// share makes s use the link of the same Sentinel under another primary.
func (m *Machine) share(s *Instance) {
	if s.runID == "" || s.link.owners > 1 {
		return
	}
	for _, p := range m.primaries.list {
		if p == s.primary {
			continue
		}
		if twin := m.findSentinel(p, nil, s.runID); twin != nil && twin != s {
			s.link.leave()
			s.link = twin.link
			s.link.owners++
			return
		}
	}
}

// dropGroup closes the links of a primary and its replicas.
func (m *Machine) dropGroup(p *Instance) {
	p.link.close()
	for _, r := range p.replicas.list {
		r.link.close()
	}
}

// dropSentinels closes the links to other Sentinels.
func (m *Machine) dropSentinels() {
	for _, p := range m.primaries.list {
		for _, s := range p.sentinels.list {
			if !s.link.disconnected {
				s.link.close()
			}
		}
	}
}

// connect opens missing connections, at most once a second.
func (m *Machine) connect(i *Instance) {
	l := i.link
	if !l.disconnected || i.at.port == 0 || m.now-l.triedAt < m.ping {
		return
	}
	l.triedAt = m.now
	if !m.resolve || l.commands != nil {
		m.dial(i)
		return
	}
	// The server may have another address by now.
	m.withNames(func() {
		if i.gone || i.link != l {
			return
		}
		if at, err := m.address(i.at.host, i.at.port, false); err == nil {
			i.at = at
		}
		m.dial(i)
	}, i.at.host)
}

// dial opens the missing connections.
func (m *Machine) dial(i *Instance) {
	l := i.link
	if i.at.ip == "" {
		m.emit(logging.LevelDebug, "-cmd-link-reconnection", i, " #the host name is not resolved")
		return
	}
	if l.commands == nil {
		w := &Wire{link: l, of: i}
		l.commands, l.commandsAt, l.pending = w, m.now, 0
		w.conn = m.out.Dial(w, i.at.ip, i.at.port)
		m.greet(i, w, "cmd")
		m.sendPing(i)
	}
	if i.kind != other && l.channel == nil {
		w := &Wire{link: l, of: i, subscribes: true}
		l.channel, l.channelAt = w, m.now
		w.conn = m.out.Dial(w, i.at.ip, i.at.port)
		m.greet(i, w, "pubsub")
		w.awaited = append(w.awaited, await{i, toSubscribe})
		w.conn.Send(i.command("SUBSCRIBE"), helloChannel)
	}
	if l.commands != nil && (i.kind == other || l.channel != nil) {
		l.disconnected = false
	}
}

// greet sends AUTH if there is a password, and names the connection.
func (m *Machine) greet(i *Instance, w *Wire, use string) {
	user, password := i.group().user, i.group().password
	if i.kind == other {
		if user, password = m.user, m.password; password == "" {
			user, password = "", m.out.Password()
		}
	}
	switch {
	case password != "" && user != "":
		w.send(i, toNothing, i.command("AUTH"), user, password)
	case password != "":
		w.send(i, toNothing, i.command("AUTH"), password)
	}
	w.send(i, toNothing, i.command("CLIENT"), "SETNAME", "sentinel-"+m.id[:min(len(m.id), 8)]+"-"+use)
}

// send sends a request whose reply is awaited. Only replies of the connection for commands are counted. A lost
// subscription leaves some that never come.
func (w *Wire) send(of *Instance, to what, words ...string) {
	w.awaited = append(w.awaited, await{of, to})
	if !w.subscribes {
		w.link.pending++
	}
	w.conn.Send(words...)
}

// request sends a command to an instance. It returns false if the instance is not connected.
func (m *Machine) request(i *Instance, to what, name string, args ...string) bool {
	w := i.link.commands
	if w == nil || w.conn == nil {
		return false
	}
	w.send(i, to, append([]string{i.command(name)}, args...)...)
	return true
}

func (m *Machine) sendPing(i *Instance) {
	l := i.link
	if !m.request(i, toPing, "PING") {
		return
	}
	l.pingedAt = m.now
	if l.pingingSince == 0 {
		l.pingingSince = m.now
	}
}

// sendPeriodic sends PING, INFO and hello when they are due.
func (m *Machine) sendPeriodic(i *Instance) {
	l := i.link
	if l.disconnected || l.pending >= pendingMax*int64(l.owners) {
		return
	}
	// A replica gets INFO more often while its primary is down or failing over, and while its link to the primary is
	// down. If the primary's replies wait for replicas, that holds until the replica is known to have all data: only then
	// it can be promoted. The same holds after a new connection: the replica may have restarted, and lack data since.
	info := m.info
	if i.kind == replica && (i.primary.is(objectivelyDown|failingOver) || i.linkDown != 0 ||
		i.primary.acks > 0 && (!i.synced || i.infoOf < l.commandsAt)) {
		info = min(info, hurriedMs)
	}
	// A primary may have restarted with another history, or may follow one of its former replicas by now.
	if i.kind == primary && i.acks > 0 && (i.infoOf < l.commandsAt || m.hasStray(i)) {
		info = min(info, hurriedMs)
	}
	if i.kind != other && (i.infoAt == 0 || m.now-i.infoAt > info) {
		m.request(i, toInfo, "INFO")
	}
	ping := min(i.downAfter, m.ping)
	if m.now-l.pongAt > ping && m.now-l.pingedAt > ping/2 {
		m.sendPing(i)
	}
	if m.now-i.published > m.publish {
		m.sendHello(i)
	}
}

// hasStray reports whether one of a primary's replicas is up, and is a primary, or follows another server.
func (m *Machine) hasStray(p *Instance) bool {
	return slices.ContainsFunc(p.replicas.list, func(r *Instance) bool {
		return !r.is(subjectivelyDown) && (r.saysPrimary || r.primaryHost != "" && !m.follows(r, p.at))
	})
}

// sendHello sends this Sentinel's hello to an instance, and so to every Sentinel that is subscribed there.
func (m *Machine) sendHello(i *Instance) {
	w := i.link.commands
	if i.link.disconnected || w == nil {
		return
	}
	ip := m.announceIP
	if ip == "" {
		local, ok := w.conn.LocalIP()
		if !ok {
			return
		}
		ip = local
	}
	port := m.announcePort
	if port == 0 {
		port = m.out.Port()
	}
	p := i.group()
	at := p.current()
	m.request(i, toHello, "PUBLISH", helloChannel, strings.Join([]string{
		ip, strconv.Itoa(port), m.id, strconv.FormatUint(m.epoch, 10),
		p.name, m.shown(at), strconv.Itoa(at.port), strconv.FormatUint(p.configEpoch, 10),
	}, ","))
}

// hurryHello makes the next tick send a hello to all instances of the primary.
func (m *Machine) hurryHello(p *Instance) {
	for _, i := range slices.Concat([]*Instance{p}, p.replicas.list, p.sentinels.list) {
		i.published = min(i.published, m.now-m.publish-1)
	}
}

// received handles a reply, or a message of the channel.
func (m *Machine) received(w *Wire, v respclient.Value) {
	l := w.link
	if len(w.awaited) == 0 {
		switch {
		case v.Err() != nil: // such as too many clients
			l.hangUp(w)
		case w.subscribes:
			m.message(w, v)
		}
		return
	}
	a := w.awaited[0]
	w.awaited = w.awaited[1:]
	if a.to == toSubscribe {
		if l.heardAt = m.now; v.Err() != nil {
			l.hangUp(w) // the next attempt may have another password
		}
		return
	}
	if !w.subscribes {
		l.pending--
	}
	if a.of.gone && a.to != toPing {
		return
	}
	switch a.to {
	case toPing:
		m.ponged(a.of, l, v)
	case toInfo:
		if v.Kind == '$' && !v.Null || v.Kind == '=' {
			m.informed(a.of, v.Text)
		}
	case toHello:
		if v.Err() == nil {
			a.of.published = m.now
		}
	case toAsk:
		m.answeredDown(a.of, v)
	case toHold:
		m.held(a.of, w, v)
	}
}

// message handles a message of the channel. Each message is a sign of life, even one of this Sentinel.
func (m *Machine) message(w *Wire, v respclient.Value) {
	w.link.heardAt = m.now
	if v.Kind != '*' && v.Kind != '>' || len(v.Elems) != 3 || v.Elems[0].Text != "message" || v.Elems[2].Kind != '$' {
		return
	}
	if hello := v.Elems[2].Text; !strings.Contains(hello, m.id) {
		m.Hello(hello, m.now)
	}
}

// ponged handles the reply to a PING. If a script keeps the instance busy, the instance gets SCRIPT KILL, once.
func (m *Machine) ponged(i *Instance, l *link, v respclient.Value) {
	if v.Kind == '+' || v.Kind == '-' {
		switch {
		case strings.HasPrefix(v.Text, "PONG"), strings.HasPrefix(v.Text, "LOADING"), strings.HasPrefix(v.Text, "MASTERDOWN"):
			l.availableAt, l.pingingSince = m.now, 0
			if strings.HasPrefix(v.Text, "PONG") {
				i.flags &^= rebooted
			}
		case strings.HasPrefix(v.Text, "BUSY") && i.is(subjectivelyDown) && !i.is(scriptKilled) && !i.gone:
			m.request(i, toNothing, "SCRIPT", "KILL")
			i.flags |= scriptKilled
		}
	}
	l.pongAt = m.now
}
