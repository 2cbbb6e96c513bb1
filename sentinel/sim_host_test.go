package sentinel

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/protocol/respclient"
	"spindle/tests/testkit/simnet"
)

// This file has simulated Sentinels and servers on a simulated network. The Sentinels are real Machines. The servers
// only do what a Sentinel can observe.

const simPort = 1000

// A simHost is the Outside of one Machine on one host.
type simHost struct {
	sim     *sim
	host    *simnet.Host
	machine *Machine
	disk    []Directive // the last state that Save wrote
	badDisk bool        // Save fails
	forgets bool        // the planted bug: votes and the epoch are not written
	crashed bool
}

type simConn struct{ c *simnet.Conn }

func (c simConn) Send(words ...string)    { c.c.Send(words) }
func (c simConn) Close()                  { c.c.Close() }
func (c simConn) LocalIP() (string, bool) { return c.c.Local.Name, true }

func (w *simHost) Dial(wire *Wire, ip string, port int) Conn {
	m := w.machine
	return simConn{w.host.Dial(ip, port,
		func(message any) { m.Received(wire, message.(respclient.Value), w.sim.net.Now()) },
		func() { m.Lost(wire, "it is gone", w.sim.net.Now()) })}
}

func (w *simHost) Lookup(host string)                    { panic("no names here: " + host) }
func (w *simHost) LookupNow(string) (ip string, ok bool) { return "", false }
func (w *simHost) StartScript(int, []string)             {}
func (w *simHost) KillScript(int)                        {}
func (w *simHost) Crash()                                { w.crashed = true }
func (w *simHost) Port() int                             { return simPort }
func (w *simHost) Password() string                      { return "" }
func (w *simHost) Executable(string) bool                { return true }
func (w *simHost) Log(logging.Level, string)             {}
func (w *simHost) Publish(event, text string)            { w.sim.heard(w, event, text) }

func (w *simHost) Save() error {
	if w.badDisk {
		return errors.New("no space")
	}
	w.disk = nil
	for _, line := range w.machine.Lines() {
		words, err := setting.SplitArgs(line.Text)
		if err != nil {
			return err
		}
		if w.forgets && (words[0] == "leader-epoch" || words[0] == "current-epoch") {
			continue
		}
		w.disk = append(w.disk, words)
	}
	return nil
}

// boot starts the Sentinel with the state on its disk.
func (w *simHost) boot() {
	n := w.sim.net
	w.machine = New(w, rand.New(rand.NewPCG(n.Rand.Uint64(), n.Rand.Uint64())), n.Now())
	if err := w.machine.Configure(w.disk); err != nil {
		w.sim.fail("%s cannot read its own state: %v", w.host.Name, err)
	}
	_ = w.machine.Start(n.Now()) // a disk that fails is one of the faults
	m := w.machine
	w.host.Listen(simPort, func(c *simnet.Conn) {
		c.Handle(func(message any) { c.Send(w.answer(m, message.([]string))) }, nil)
	})
	var tick func()
	tick = func() {
		m.Tick(n.Now())
		w.host.After(50+n.Rand.Int64N(50), tick)
	}
	w.host.After(n.Rand.Int64N(100), tick)
}

// answer returns a Sentinel's reply to another Sentinel.
func (w *simHost) answer(m *Machine, words []string) respclient.Value {
	switch words[0] {
	case "PING":
		return status("PONG")
	case "PUBLISH":
		m.Hello(words[2], w.sim.net.Now())
		return respclient.Value{Kind: ':', Int: 1}
	case "SENTINEL":
		m.now = w.sim.net.Now()
		port, _ := strconv.ParseInt(words[3], 10, 64)
		epoch, _ := strconv.ParseInt(words[4], 10, 64)
		down, leader, of := m.isDownReply(words[2], port, epoch, words[5])
		return respclient.Value{Kind: '*', Elems: []respclient.Value{
			{Kind: ':', Int: down}, {Kind: '$', Text: leader}, {Kind: ':', Int: int64(of)},
		}}
	}
	return status("OK")
}

func status(text string) respclient.Value { return respclient.Value{Kind: '+', Text: text} }

// A simServer is a server with a role, an offset, subscribers, and a connection to its primary.
type simServer struct {
	sim     *sim
	host    *simnet.Host
	runID   string
	follows string // a host; "": it is a primary. It survives a crash.
	offset  uint64

	link      *simnet.Conn
	upAt      int64 // when the primary was last heard or tried
	downSince int64
	replicas  []*simnet.Conn
	listeners []*simnet.Conn
	queued    map[*simnet.Conn][][]string // requests of an open MULTI
}

func (s *simServer) boot() {
	s.runID = fmt.Sprintf("%040x", s.sim.net.Rand.Uint64())
	s.link, s.replicas, s.listeners, s.queued = nil, nil, nil, map[*simnet.Conn][][]string{}
	s.downSince = s.sim.net.Now()
	s.host.Listen(simPort, func(c *simnet.Conn) {
		c.Handle(func(message any) { s.take(c, message) }, func() {
			gone := func(x *simnet.Conn) bool { return x == c }
			s.listeners, s.replicas = slices.DeleteFunc(s.listeners, gone), slices.DeleteFunc(s.replicas, gone)
		})
	})
	var beat func()
	beat = func() {
		s.beat()
		s.host.After(500, beat)
	}
	s.host.After(s.sim.net.Rand.Int64N(500), beat)
}

// beat simulates replication: a primary writes and sends to its replicas; a replica keeps its connection.
func (s *simServer) beat() {
	if s.follows == "" {
		s.offset += s.sim.net.Rand.Uint64N(100)
		for _, c := range s.replicas {
			c.Send(s.offset)
		}
		return
	}
	if s.link == nil {
		s.link = s.host.Dial(s.follows, simPort, func(message any) {
			s.offset, s.upAt, s.downSince = message.(uint64), s.sim.net.Now(), 0
		}, func() { s.lose() })
		s.link.Send("REPLICATE")
		s.upAt = s.sim.net.Now()
	} else if s.sim.net.Now()-s.upAt > 3000 { // the server it follows may not be a primary yet
		s.link.Close()
		s.lose()
	}
}

func (s *simServer) lose() {
	s.link = nil
	if s.downSince == 0 {
		s.downSince = s.sim.net.Now()
	}
}

// take runs a request, or queues it in a MULTI.
func (s *simServer) take(c *simnet.Conn, message any) {
	if message == "REPLICATE" {
		if s.follows == "" {
			s.replicas = append(s.replicas, c)
			c.Send(s.offset)
		}
		return
	}
	words := message.([]string)
	if queue, open := s.queued[c]; open && words[0] != "EXEC" {
		s.queued[c] = append(queue, words)
		c.Send(status("QUEUED"))
		return
	}
	c.Send(s.run(c, words))
}

func (s *simServer) run(c *simnet.Conn, words []string) respclient.Value {
	switch words[0] {
	case "PING":
		return status("PONG")
	case "INFO":
		return respclient.Value{Kind: '$', Text: s.info()}
	case "MULTI":
		s.queued[c] = [][]string{}
	case "EXEC":
		queue := s.queued[c]
		delete(s.queued, c)
		for _, each := range queue {
			s.run(c, each)
		}
	case "SLAVEOF":
		s.follow(words[1])
	case "SUBSCRIBE":
		s.listeners = append(s.listeners, c)
		return respclient.Value{Kind: '*', Elems: []respclient.Value{
			{Kind: '$', Text: "subscribe"}, {Kind: '$', Text: words[1]}, {Kind: ':', Int: 1}}}
	case "PUBLISH":
		for _, l := range s.listeners {
			l.Send(respclient.Value{Kind: '*', Elems: []respclient.Value{
				{Kind: '$', Text: "message"}, {Kind: '$', Text: words[1]}, {Kind: '$', Text: words[2]}}})
		}
		return respclient.Value{Kind: ':', Int: int64(len(s.listeners))}
	}
	return status("OK")
}

func (s *simServer) follow(host string) {
	if host == "NO" {
		host = ""
	}
	if host == s.follows {
		return
	}
	s.follows, s.downSince = host, s.sim.net.Now()
	if s.link != nil {
		s.link.Close()
		s.link = nil
	}
	for _, c := range s.replicas {
		c.Close()
	}
	s.replicas = nil
}

func (s *simServer) info() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run_id:%s\r\n", s.runID)
	if s.follows == "" {
		b.WriteString("role:master\r\n")
		for i, c := range s.replicas {
			fmt.Fprintf(&b, "slave%d:ip=%s,port=%d,state=online\r\n", i, c.Remote.Name, simPort)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "role:slave\r\nmaster_host:%s\r\nmaster_port:%d\r\n", s.follows, simPort)
	if s.downSince == 0 {
		b.WriteString("master_link_status:up\r\n")
	} else {
		fmt.Fprintf(&b, "master_link_status:down\r\nmaster_link_down_since_seconds:%d\r\n",
			(s.sim.net.Now()-s.downSince)/1000)
	}
	fmt.Fprintf(&b, "slave_repl_offset:%d\r\nslave_priority:100\r\nreplica_announced:1\r\n", s.offset)
	return b.String()
}

// A sim is one run of the simulation.
type sim struct {
	net       *simnet.Net
	sentinels []*simHost
	servers   []*simServer
	booted    func(h *simnet.Host) // starts what else is on a host
	failed    string
	history   []string
	hash      uint64
	failovers int

	leaders   map[uint64]string    // elected Sentinels, by epoch
	votes     map[[2]string]string // votes, by Sentinel and epoch
	address   map[uint64]string    // the configured address, by epoch
	unelected map[uint64]bool      // epochs without an election: an operator's command gives them
}

func (s *sim) fail(format string, args ...any) {
	if s.failed == "" {
		s.failed = fmt.Sprintf(format, args...)
	}
}

// newSim makes a primary with replicas, and Sentinels that know the primary.
func newSim(seed uint64, sentinels, servers int, forgets bool) *sim {
	s := &sim{
		net: simnet.New(seed, 1_700_000_000_000), leaders: map[uint64]string{},
		votes: map[[2]string]string{}, address: map[uint64]string{}, unelected: map[uint64]bool{},
	}
	for i := range servers {
		server := &simServer{sim: s, host: s.net.Host(fmt.Sprintf("10.0.0.%d", i+1))}
		if i > 0 {
			server.follows = "10.0.0.1"
		}
		s.servers = append(s.servers, server)
		server.boot()
	}
	for i := range sentinels {
		w := &simHost{sim: s, host: s.net.Host(fmt.Sprintf("10.0.1.%d", i+1))}
		w.disk = []Directive{
			{"monitor", "m", "10.0.0.1", strconv.Itoa(simPort), strconv.Itoa(sentinels/2 + 1)},
			{"down-after-milliseconds", "m", "1000"}, {"failover-timeout", "m", "5000"},
		}
		w.forgets = forgets
		s.sentinels = append(s.sentinels, w)
		w.boot()
	}
	return s
}

// heard checks an event of a Sentinel against the rules.
func (s *sim) heard(w *simHost, event, text string) {
	line := fmt.Sprint(s.net.Now(), " ", w.host.Name, " ", event, " ", text)
	s.history = append(s.history, line)
	h := fnv.New64a()
	fmt.Fprint(h, s.hash, line)
	s.hash = h.Sum64()
	m := w.machine
	switch event {
	case "+elected-leader":
		p := m.primaries.find("m")
		who, taken := s.leaders[p.failoverEpoch]
		switch {
		case p.is(forced):
			s.unelected[p.failoverEpoch] = true
			return
		case taken && who != m.id:
			s.fail("epoch %d has two leaders, %s and %s", p.failoverEpoch, who, m.id)
		}
		s.leaders[p.failoverEpoch] = m.id
	case "+vote-for-leader":
		candidate, epoch, _ := strings.Cut(text, " ")
		if before, voted := s.votes[[2]string{m.id, epoch}]; voted && before != candidate {
			s.fail("%s has voted for %s and for %s in epoch %s", w.host.Name, before, candidate, epoch)
		}
		s.votes[[2]string{m.id, epoch}] = candidate
	case "+promoted-slave":
		s.failovers++
	}
}

// check checks, over all Sentinels, that the configuration of an epoch with an election has one address.
func (s *sim) check() {
	for _, w := range s.sentinels {
		p := w.machine.primaries.find("m")
		at := p.current().ip
		if before, known := s.address[p.configEpoch]; known && before != at && !s.unelected[p.configEpoch] {
			s.fail("the configuration of epoch %d is %s and %s", p.configEpoch, before, at)
		}
		s.address[p.configEpoch] = at
	}
}

// fault starts or ends a random fault.
func (s *sim) fault() {
	r := s.net.Rand
	hosts := s.net.Hosts()
	h := hosts[r.IntN(len(hosts))]
	switch r.IntN(12) {
	case 0, 1, 2:
		h.Crash()
	case 3, 4:
		s.restart(h)
	case 5:
		h.Pause()
	case 6, 7:
		h.Resume()
	case 8: // two groups
		s.net.Heal()
		side := make([]bool, len(hosts))
		for i := range side {
			side[i] = r.IntN(2) == 0
		}
		for i, a := range hosts {
			for j, b := range hosts[:i] {
				if side[i] != side[j] {
					s.net.Cut(a, b, true)
				}
			}
		}
	case 9:
		s.net.Heal()
	case 10:
		for _, c := range h.Conns() {
			if r.IntN(2) == 0 {
				c.Reset()
			}
		}
	default:
		for _, w := range s.sentinels {
			if w.host == h {
				w.badDisk = r.IntN(2) == 0
			}
		}
	}
}

// restart boots a host that is down, with the state on its disk.
func (s *sim) restart(h *simnet.Host) {
	if h.Up() {
		return
	}
	h.Boot()
	for _, w := range s.sentinels {
		if w.host == h {
			w.boot()
		}
	}
	for _, server := range s.servers {
		if server.host == h {
			server.boot()
		}
	}
	if s.booted != nil {
		s.booted(h)
	}
}

// run starts faults for some time, ends them all, and checks that all agree in the end.
func (s *sim) run(faultsMs, calmMs int64) {
	r := s.net.Rand
	s.net.Run(s.net.Now() + 12_000) // until they have met
	for until := s.net.Now() + faultsMs; s.net.Now() < until && s.failed == ""; {
		s.net.Run(s.net.Now() + 200 + r.Int64N(4000))
		s.check()
		s.fault()
	}
	s.net.Heal()
	for _, h := range s.net.Hosts() {
		h.Resume()
		s.restart(h)
	}
	for _, w := range s.sentinels {
		w.badDisk = false
	}
	for until := s.net.Now() + calmMs; s.net.Now() < until && s.failed == ""; {
		s.net.Run(s.net.Now() + 1000)
		s.check()
		if s.whyNotSettled() == "" {
			break
		}
	}
	if s.failed == "" {
		if why := s.whyNotSettled(); why != "" {
			s.fail("%d s after the last fault: %s", calmMs/1000, why)
		}
	}
}

// whyNotSettled returns what is still wrong: all Sentinels should name one server, only it should be a primary, and all
// others should follow it.
func (s *sim) whyNotSettled() string {
	var at string
	for _, w := range s.sentinels {
		p := w.machine.primaries.find("m")
		switch here := p.current().ip; {
		case at == "":
			at = here
		case at != here:
			return fmt.Sprintf("%s names %s, and not %s", w.host.Name, here, at)
		}
		if p.is(failingOver) {
			return w.host.Name + " still fails over"
		}
		if n := p.sentinels.len(); n != len(s.sentinels)-1 {
			return fmt.Sprintf("%s knows %d other Sentinels", w.host.Name, n)
		}
	}
	for _, server := range s.servers {
		if server.host.Name == at && server.follows != "" {
			return at + " is no primary"
		}
		if server.host.Name != at && (server.follows != at || server.downSince != 0) {
			return fmt.Sprintf("%s follows %q (down since %d), and not %s",
				server.host.Name, server.follows, server.downSince, at)
		}
	}
	return ""
}
