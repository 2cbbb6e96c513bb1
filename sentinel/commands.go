package sentinel

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/logging"
	"spindle/internal/number"
)

// Commands are a Sentinel's command handlers.
type Commands struct {
	Machine *Machine
	Now     func() int64
	// LogLevel and SetLogLevel read and set loglevel, for SENTINEL CONFIG.
	LogLevel    func() string
	SetLogLevel func(string) error
	// Wake makes the core retry a command that waits for a host name.
	Wake func(cl *client.Client)
}

// Family returns SENTINEL, and other commands with a Sentinel's own replies.
func (s *Commands) Family() command.Family {
	const (
		admin = command.Admin | command.OnlySentinel
		role  = command.NoScript | command.Loading | command.Stale | command.Fast | command.Sentinel
	)
	publish := command.PubSub | command.Loading | command.Stale | command.Fast | command.MayReplicate | command.Sentinel
	return command.Family{Name: "sentinel", Rows: []command.Spec{
		{Name: "publish", Arity: 3, Flags: publish, Channels: command.PublishesTo, Run: s.publish},
		{Name: "role", Arity: 1, Flags: role, ACL: command.ACLAdmin | command.ACLDangerous, Run: s.role},
		{Name: "sentinel", Arity: -2, Flags: admin, Subs: []command.Spec{
			{Name: "ckquorum", Arity: 3, Flags: admin, Run: s.of(s.checkQuorum)},
			{Name: "config", Arity: -4, Flags: admin, Run: s.config},
			{Name: "debug", Arity: -2, Flags: admin, Run: s.debug},
			{Name: "failover", Arity: 3, Flags: admin, Run: s.of(s.failover)},
			{Name: "flushconfig", Arity: 2, Flags: admin, Run: s.flush},
			{Name: "get-master-addr-by-name", Arity: 3, Flags: admin, Run: s.where},
			{Name: "help", Arity: 2, Flags: command.Loading | command.Stale | command.OnlySentinel, Run: s.help},
			{Name: "info-cache", Arity: -3, Flags: admin, Run: s.infoCache},
			{Name: "is-master-down-by-addr", Arity: 6, Flags: admin, Run: s.isDown},
			{Name: "master", Arity: 3, Flags: admin, Run: s.of(s.show)},
			{Name: "masters", Arity: 2, Flags: admin, Run: s.masters},
			{Name: "monitor", Arity: 6, Flags: admin, Run: s.monitor},
			{Name: "myid", Arity: 2, Flags: admin, Run: s.myID},
			{Name: "pending-scripts", Arity: 2, Flags: admin, Run: s.pendingScripts},
			{Name: "remove", Arity: 3, Flags: admin, Run: s.of(s.remove)},
			{Name: "replicas", Arity: 3, Flags: admin, Run: s.of(s.replicas)},
			{Name: "reset", Arity: 3, Flags: admin, Run: s.reset},
			{Name: "sentinels", Arity: 3, Flags: admin, Run: s.of(s.sentinels)},
			{Name: "set", Arity: -5, Flags: admin, Run: s.of(s.set)},
			{Name: "simulate-failure", Arity: -3, Flags: admin, Run: s.simulateFailure},
			{Name: "slaves", Arity: 3, Flags: admin, Run: s.of(s.replicas)},
		}},
	}}
}

// begin sets the Machine's time for this call.
func (s *Commands) begin() *Machine {
	s.Machine.now = s.Now()
	return s.Machine
}

// of returns a handler that finds the primary in the first argument and passes it to run.
func (s *Commands) of(run func(c *command.Context, m *Machine, p *Instance) error) command.Handler {
	return func(c *command.Context) error {
		m := s.begin()
		p := m.primaries.find(string(c.Args[2]))
		if p == nil {
			return errNoSuchMaster
		}
		return run(c, m, p)
	}
}

// publish runs PUBLISH channel message, with which another Sentinel sends a hello directly to this one.
func (s *Commands) publish(c *command.Context) error {
	if string(c.Args[1]) != helloChannel {
		return errOnlyHello
	}
	s.Machine.Hello(string(c.Args[2]), s.Now())
	c.Reply.Int(1)
	return nil
}

// role runs ROLE. It replies with the word sentinel, and the names of the primaries.
func (s *Commands) role(c *command.Context) error {
	m := s.begin()
	c.Reply.Array(2)
	c.Reply.BulkString("sentinel")
	c.Reply.Array(m.primaries.len())
	for _, p := range m.primaries.list {
		c.Reply.BulkString(p.name)
	}
	return nil
}

// help runs SENTINEL HELP.
func (s *Commands) help(c *command.Context) error {
	command.Help(c,
		"CKQUORUM <master-name>", "    Are enough Sentinels there to agree on a failover, and to authorize it?",
		"CONFIG SET <param> <value> [<param> <value> ...]", "    Set parameters of this Sentinel.",
		"CONFIG GET <param> [<param> ...]", "    Get parameters of this Sentinel.",
		"DEBUG [<param> <value> ...]", "    Show the periods it goes by, in milliseconds, or set some of them.",
		"FAILOVER <master-name>", "    Fail over, without asking the other Sentinels.",
		"FLUSHCONFIG", "    Write the configuration file again, with the state in it.",
		"GET-MASTER-ADDR-BY-NAME <master-name>", "    Get the address of the master.",
		"INFO-CACHE <master-name> [<master-name> ...]", "    Get the last INFO of the master and of its replicas.",
		"IS-MASTER-DOWN-BY-ADDR <ip> <port> <current-epoch> <runid>",
		"    Ask whether this Sentinel sees a master down, and for its vote.",
		"MASTER <master-name>", "    Show a master and its state.",
		"MASTERS", "    Show all masters.",
		"MONITOR <name> <ip> <port> <quorum>", "    Watch one more master.",
		"MYID", "    Get the id of this Sentinel.",
		"PENDING-SCRIPTS", "    Show the scripts that run or wait.",
		"REMOVE <master-name>", "    Watch a master no more.",
		"REPLICAS <master-name>", "    Show the replicas of a master.",
		"RESET <pattern>", "    Forget what was learnt of the masters whose names match.",
		"SENTINELS <master-name>", "    Show the other Sentinels of a master.",
		"SET <master-name> <option> <value> [<option> <value> ...]", "    Set options of a master.",
		"SIMULATE-FAILURE [CRASH-AFTER-ELECTION] [CRASH-AFTER-PROMOTION] [HELP]",
		"    Have this Sentinel end at a bad moment.",
	)
	return nil
}

// checkQuorum runs SENTINEL CKQUORUM name.
func (s *Commands) checkQuorum(c *command.Context, _ *Machine, p *Instance) error {
	usable := int64(1)
	for _, other := range p.sentinels.list {
		if !other.is(subjectivelyDown | objectivelyDown) {
			usable++
		}
	}
	var lacks []string
	if usable < p.quorum {
		lacks = append(lacks, "Not enough available Sentinels to reach the specified quorum for this master")
	}
	if voters := int64(p.sentinels.len()) + 1; usable < voters/2+1 {
		lacks = append(lacks, "Not enough available Sentinels to reach the majority and authorize a failover")
	}
	if lacks != nil {
		return errNoQuorum(usable, lacks)
	}
	c.Reply.Simple("OK " + strconv.FormatInt(usable, 10) +
		" usable Sentinels. Quorum and failover authorization can be reached")
	return nil
}

// failover runs SENTINEL FAILOVER name. It needs no other Sentinel.
func (s *Commands) failover(c *command.Context, m *Machine, p *Instance) error {
	if p.is(failingOver) {
		return errInProgress
	}
	if m.best(p) == nil && m.successor(p) == nil {
		return errNoGoodSlave
	}
	m.warn("Executing user requested FAILOVER of '%s'", p.name)
	m.startFailover(p)
	p.flags |= forced
	c.Reply.OK()
	return nil
}

// saved writes the file and replies.
func (s *Commands) saved(c *command.Context) error {
	if s.Machine.save() != nil {
		return errNotSaved
	}
	c.Reply.OK()
	return nil
}

// flush runs SENTINEL FLUSHCONFIG.
func (s *Commands) flush(c *command.Context) error {
	s.begin()
	return s.saved(c)
}

// where runs SENTINEL GET-MASTER-ADDR-BY-NAME name. Replies: a null array if no primary has that name.
func (s *Commands) where(c *command.Context) error {
	m := s.begin()
	p := m.primaries.find(string(c.Args[2]))
	if p == nil {
		c.Reply.NullArray()
		return nil
	}
	at := p.current()
	c.Reply.Array(2)
	c.Reply.BulkString(m.shown(at))
	c.Reply.BulkInt(int64(at.port))
	return nil
}

// isDown runs SENTINEL IS-MASTER-DOWN-BY-ADDR ip port epoch runid.
// Replies: whether this Sentinel sees that primary down; its vote ("*" if none); the vote's epoch.
func (s *Commands) isDown(c *command.Context) error {
	m := s.begin()
	port, err := command.Int(c.Args[3])
	if err != nil {
		return err
	}
	epoch, err := command.Int(c.Args[4])
	if err != nil {
		return err
	}
	down, leader, of := m.isDownReply(string(c.Args[2]), port, epoch, string(c.Args[5]))
	c.Reply.Array(3)
	c.Reply.Int(down)
	c.Reply.BulkString(leader)
	c.Reply.Int(int64(of))
	return nil
}

// monitor runs SENTINEL MONITOR name host port quorum. A host name is resolved outside the turn while the client waits.
func (s *Commands) monitor(c *command.Context) error {
	m := s.begin()
	quorum, err := command.Int(c.Args[5])
	if err != nil {
		return errBadQuorum
	}
	port, err := command.Int(c.Args[4])
	if err != nil {
		return errBadPort
	}
	if quorum <= 0 || quorum > math.MaxInt32 {
		return errReply(errQuorum)
	}
	name, host := string(c.Args[2]), string(c.Args[3])
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == ',' || r < ' ' || r == 0x7f }) {
		return errName
	}
	if !m.knows(host) {
		s.awaitName(c, host, func(c *command.Context) error { return s.addPrimary(c, name, host, port, quorum) })
		return nil
	}
	return s.addPrimary(c, name, host, port, quorum)
}

// knows reports whether host needs no lookup now: it is an address, its address is fresh, or it cannot be looked up.
func (m *Machine) knows(host string) bool {
	if _, ok := literal(host); ok || !m.resolve || !isHost(host) {
		return true
	}
	n := m.names[strings.ToLower(host)]
	return n != nil && n.known && !n.asked && m.now-n.at < nameFreshMs
}

// awaitName parks the client until a host name has been looked up.
func (s *Commands) awaitName(c *command.Context, host string, then func(c *command.Context) error) {
	done := false
	c.Core.Block(c, command.Wait{Busy: true, Retry: func(c *command.Context) error {
		if !done {
			return nil
		}
		s.begin()
		return then(c)
	}})
	cl := c.Client
	s.Machine.withNames(func() {
		done = true
		s.Wake(cl)
	}, host)
}

func (s *Commands) addPrimary(c *command.Context, name, host string, port, quorum int64) error {
	m := s.Machine
	if _, ok := m.ipOf(host); !ok {
		return errBadHost
	}
	p, err := m.monitor(name, host, int(port), quorum)
	if err != nil {
		return errReply(err)
	}
	err = s.saved(c)
	m.emit(logging.LevelWarning, "+monitor", p, " quorum %d", p.quorum)
	return err
}

// myID runs SENTINEL MYID.
func (s *Commands) myID(c *command.Context) error {
	c.Reply.BulkString(s.Machine.id)
	return nil
}

// remove runs SENTINEL REMOVE name.
func (s *Commands) remove(c *command.Context, m *Machine, p *Instance) error {
	m.emit(logging.LevelWarning, "-monitor", p, "")
	m.release(p)
	return s.saved(c)
}

// reset runs SENTINEL RESET pattern. Replies: how many primaries match.
func (s *Commands) reset(c *command.Context) error {
	m := s.begin()
	n := int64(0)
	for _, p := range m.primaries.list {
		if matches(string(c.Args[2]), p.name) {
			m.relearn(p)
			m.emit(logging.LevelWarning, "+reset-master", p, "")
			n++
		}
	}
	c.Reply.Int(n)
	return nil
}

// simulateFailure runs SENTINEL SIMULATE-FAILURE when…
func (s *Commands) simulateFailure(c *command.Context) error {
	m := s.begin()
	m.crashOnElection, m.crashOnPromotion = false, false
	for _, when := range c.Args[2:] {
		switch {
		case command.Is(when, "crash-after-election"):
			m.crashOnElection = true
			m.warn("Failure simulation: this Sentinel will crash after being successfully elected as failover leader")
		case command.Is(when, "crash-after-promotion"):
			m.crashOnPromotion = true
			m.warn("Failure simulation: this Sentinel will crash after promoting the selected replica to master")
		case command.Is(when, "help"):
			c.Reply.Array(2)
			c.Reply.BulkString("crash-after-election")
			c.Reply.BulkString("crash-after-promotion")
			return nil
		default:
			return errBadFailure
		}
	}
	c.Reply.OK()
	return nil
}

// A period is a duration that SENTINEL DEBUG shows and sets, by its name in upper case.
type period struct {
	name string
	of   func(*Periods) *int64
}

var periods = []period{
	{"INFO-PERIOD", func(p *Periods) *int64 { return &p.info }},
	{"PING-PERIOD", func(p *Periods) *int64 { return &p.ping }},
	{"ASK-PERIOD", func(p *Periods) *int64 { return &p.ask }},
	{"PUBLISH-PERIOD", func(p *Periods) *int64 { return &p.publish }},
	{"DEFAULT-DOWN-AFTER", func(p *Periods) *int64 { return &p.downAfter }},
	{"DEFAULT-FAILOVER-TIMEOUT", func(p *Periods) *int64 { return &p.failoverTimeout }},
	{"TILT-TRIGGER", func(p *Periods) *int64 { return &p.tiltTrigger }},
	{"TILT-PERIOD", func(p *Periods) *int64 { return &p.tiltPeriod }},
	{"SLAVE-RECONF-TIMEOUT", func(p *Periods) *int64 { return &p.reconfTimeout }},
	{"MIN-LINK-RECONNECT-PERIOD", func(p *Periods) *int64 { return &p.reconnect }},
	{"ELECTION-TIMEOUT", func(p *Periods) *int64 { return &p.election }},
	{"SCRIPT-MAX-RUNTIME", func(p *Periods) *int64 { return &p.scriptMax }},
	{"SCRIPT-RETRY-DELAY", func(p *Periods) *int64 { return &p.scriptRetry }},
}

// debug runs SENTINEL DEBUG, which shows the periods, and SENTINEL DEBUG name ms…, which sets some. As in Redis, the
// values before a wrong one are set.
func (s *Commands) debug(c *command.Context) error {
	m := s.begin()
	if len(c.Args) == 2 {
		c.Reply.Map(len(periods))
		for _, p := range periods {
			c.Reply.BulkString(p.name)
			c.Reply.BulkInt(*p.of(&m.Periods))
		}
		return nil
	}
	for args := c.Args[2:]; len(args) > 0; args = args[2:] {
		at := slices.IndexFunc(periods, func(p period) bool { return command.Is(args[0], p.name) })
		if at < 0 || len(args) == 1 {
			return errDebugOption(args[0])
		}
		ms, ok := number.ParseInt(args[1])
		if !ok || ms <= 0 || ms > periodMax {
			return errDebugValue(args[1], args[0])
		}
		*periods[at].of(&m.Periods) = ms
	}
	c.Reply.OK()
	return nil
}

// pendingScripts runs SENTINEL PENDING-SCRIPTS.
func (s *Commands) pendingScripts(c *command.Context) error {
	m := s.begin()
	c.Reply.Array(len(m.scripts))
	for _, j := range m.scripts {
		c.Reply.Map(5)
		c.Reply.BulkString("argv")
		c.Reply.Array(len(j.argv))
		for _, arg := range j.argv {
			c.Reply.BulkString(arg)
		}
		state, span, ms := "scheduled", "run-delay", max(0, j.at-m.now)
		if j.running {
			state, span, ms = "running", "run-time", m.now-j.at
		}
		c.Reply.BulkString("flags")
		c.Reply.BulkString(state)
		c.Reply.BulkString("pid")
		c.Reply.BulkInt(int64(j.pid))
		c.Reply.BulkString(span)
		c.Reply.BulkInt(ms)
		c.Reply.BulkString("retry-num")
		c.Reply.BulkInt(int64(j.tries))
	}
	return nil
}
