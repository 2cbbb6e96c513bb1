package sentinel

import (
	"fmt"
	"strings"

	"spindle/engine/command"
	"spindle/internal/glob"
	"spindle/internal/info"
)

// flagNames are the words of the field flags, in their order. An empty word stands for the instance's kind.
var flagNames = []struct {
	flag flags
	word string
}{
	{subjectivelyDown, "s_down"}, {objectivelyDown, "o_down"}, {0, ""}, {saysPrimaryDown, "master_down"},
	{failingOver, "failover_in_progress"}, {promoted, "promoted"}, {reconfSent, "reconf_sent"},
	{reconfUnderWay, "reconf_inprog"}, {reconfDone, "reconf_done"}, {forced, "force_failover"},
	{scriptKilled, "script_kill_sent"},
}

// words returns the instance's flags as clients see them.
func (i *Instance) words() string {
	var words []string
	for _, f := range flagNames {
		switch {
		case f.flag == 0:
			words = append(words, i.kind.String())
			if i.link.disconnected {
				words = append(words, "disconnected")
			}
		case i.is(f.flag):
			words = append(words, f.word)
		}
	}
	return strings.Join(words, ",")
}

// A sheet writes an instance as names and values.
type sheet struct {
	c *command.Context
	n int
}

func (s *sheet) text(name, value string) {
	s.c.Reply.BulkString(name)
	s.c.Reply.BulkString(value)
	s.n++
}

func (s *sheet) int(name string, value int64) {
	s.c.Reply.BulkString(name)
	s.c.Reply.BulkInt(value)
	s.n++
}

// display replies with a map of all facts about the instance.
func (m *Machine) display(c *command.Context, i *Instance) {
	s, begin := &sheet{c: c}, c.Reply.Mark()
	since := func(ms int64) int64 {
		if ms == 0 {
			return 0
		}
		return m.now - ms
	}
	s.text("name", i.name)
	s.text("ip", m.shown(i.at))
	s.int("port", int64(i.at.port))
	s.text("runid", i.runID)
	s.text("flags", i.words())
	s.int("link-pending-commands", i.link.pending)
	s.int("link-refcount", int64(i.link.owners))
	if i.is(failingOver) {
		s.text("failover-state", i.state.String())
	}
	s.int("last-ping-sent", since(i.link.pingingSince))
	s.int("last-ok-ping-reply", m.now-i.link.availableAt)
	s.int("last-ping-reply", m.now-i.link.pongAt)
	if i.is(subjectivelyDown) {
		s.int("s-down-time", m.now-i.downSince)
	}
	if i.is(objectivelyDown) {
		s.int("o-down-time", m.now-i.odownSince)
	}
	s.int("down-after-milliseconds", i.downAfter)
	if i.kind != other {
		s.int("info-refresh", since(i.infoAt))
		role := replica
		if i.saysPrimary {
			role = primary
		}
		s.text("role-reported", role.String())
		s.int("role-reported-time", m.now-i.roleSince)
	}
	switch i.kind {
	case primary:
		s.primary(i)
	case replica:
		s.replica(i)
	default:
		s.int("last-hello-message", m.now-i.heard)
		s.text("voted-leader", orUnknown(i.leader))
		s.int("voted-leader-epoch", int64(i.leaderEpoch))
	}
	c.Reply.MapAt(begin, s.n)
}

func (s *sheet) primary(p *Instance) {
	s.int("config-epoch", int64(p.configEpoch))
	s.int("num-slaves", int64(p.replicas.len()))
	s.int("num-other-sentinels", int64(p.sentinels.len()))
	s.int("quorum", p.quorum)
	s.int("failover-timeout", p.failoverTimeout)
	s.int("parallel-syncs", p.parallel)
	if p.notify != "" {
		s.text("notification-script", p.notify)
	}
	if p.reconfigure != "" {
		s.text("client-reconfig-script", p.reconfigure)
	}
}

func (s *sheet) replica(r *Instance) {
	status, announced := "err", int64(0)
	if r.primaryUp {
		status = "ok"
	}
	if r.announced {
		announced = 1
	}
	s.int("master-link-down-time", r.linkDown)
	s.text("master-link-status", status)
	s.text("master-host", orUnknown(r.primaryHost))
	s.int("master-port", int64(r.primaryPort))
	s.int("slave-priority", r.priority)
	s.int("slave-repl-offset", int64(r.offset))
	s.int("replica-announced", announced)
}

func orUnknown(text string) string {
	if text == "" {
		return "?"
	}
	return text
}

// show runs SENTINEL MASTER name.
func (s *Commands) show(c *command.Context, m *Machine, p *Instance) error {
	m.display(c, p)
	return nil
}

// masters runs SENTINEL MASTERS.
func (s *Commands) masters(c *command.Context) error {
	m := s.begin()
	c.Reply.Array(m.primaries.len())
	for _, p := range m.primaries.list {
		m.display(c, p)
	}
	return nil
}

// replicas runs SENTINEL REPLICAS name, and SLAVES. It leaves out replicas with replica-announced no.
func (s *Commands) replicas(c *command.Context, m *Machine, p *Instance) error {
	begin, n := c.Reply.Mark(), 0
	for _, r := range p.replicas.list {
		if r.announced {
			m.display(c, r)
			n++
		}
	}
	c.Reply.ArrayAt(begin, n)
	return nil
}

// sentinels runs SENTINEL SENTINELS name.
func (s *Commands) sentinels(c *command.Context, m *Machine, p *Instance) error {
	c.Reply.Array(p.sentinels.len())
	for _, each := range p.sentinels.list {
		m.display(c, each)
	}
	return nil
}

// infoCache runs SENTINEL INFO-CACHE name….
// Replies: for each known primary its name, then its last INFO and those of its replicas, each with its age in ms.
func (s *Commands) infoCache(c *command.Context) error {
	m := s.begin()
	var found []*Instance
	seen := map[string]bool{}
	for _, name := range c.Args[2:] {
		if p := m.primaries.find(string(name)); p != nil && !seen[p.name] {
			seen[p.name] = true
			found = append(found, p)
		}
	}
	c.Reply.Array(2 * len(found))
	for _, p := range found {
		c.Reply.BulkString(p.name)
		c.Reply.Array(1 + p.replicas.len())
		m.cached(c, p)
		for _, r := range p.replicas.list {
			m.cached(c, r)
		}
	}
	return nil
}

func (m *Machine) cached(c *command.Context, i *Instance) {
	c.Reply.Array(2)
	age := int64(0)
	if i.infoAt != 0 {
		age = m.now - i.infoAt
	}
	c.Reply.Int(age)
	if i.hasInfo {
		c.Reply.BulkString(i.info)
	} else {
		c.Reply.Null()
	}
}

func matches(pattern, text string) bool { return glob.Match([]byte(pattern), []byte(text)) }

// Section returns INFO sentinel.
func (m *Machine) Section() info.Section {
	return info.Section{Name: "Sentinel", Fields: []info.Field{
		info.Int("sentinel_masters", func() int64 { return int64(m.primaries.len()) }),
		info.Bool("sentinel_tilt", func() bool { return m.tilt }),
		info.Int("sentinel_tilt_since_seconds", func() int64 {
			if !m.tilt {
				return -1
			}
			return (m.now - m.tiltSince) / 1000
		}),
		info.Int("sentinel_running_scripts", func() int64 { return int64(m.running) }),
		info.Int("sentinel_scripts_queue_length", func() int64 { return int64(len(m.scripts)) }),
		info.Int("sentinel_simulate_failure_flags", func() (n int64) {
			if m.crashOnElection {
				n |= 1
			}
			if m.crashOnPromotion {
				n |= 2
			}
			return n
		}),
		info.Lines("master0", func(w *info.Writer) {
			for n, p := range m.primaries.list {
				m.line(w, n, p)
			}
		}),
	}}
}

// line writes a primary's line of INFO.
func (m *Machine) line(w *info.Writer, n int, p *Instance) {
	status := "ok"
	switch {
	case p.is(objectivelyDown):
		status = "odown"
	case p.is(subjectivelyDown):
		status = "sdown"
	}
	w.Text(fmt.Sprintf("master%d", n), fmt.Sprintf("name=%s,status=%s,address=%s:%d,slaves=%d,sentinels=%d",
		p.name, status, m.shown(p.at), p.at.port, p.replicas.len(), p.sentinels.len()+1))
}
