package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"sync/atomic"

	"spindle/admin"
	"spindle/cluster"
	"spindle/cluster/migrate"
	"spindle/dataset"
	"spindle/engine"
	"spindle/engine/acl"
	"spindle/engine/catalogue"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/conn"
	"spindle/engine/family/modules"
	"spindle/engine/family/observe"
	"spindle/engine/family/pubsub"
	"spindle/engine/family/tracking"
	"spindle/engine/family/tx"
	"spindle/engine/part"
	"spindle/internal/config"
	"spindle/internal/info"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/internal/slots"
	"spindle/internal/tlsconfig"
	"spindle/lane"
	"spindle/lazyfree"
	"spindle/protocol"
	"spindle/reactor"
	"spindle/replication"
	"spindle/scripting"
	"spindle/sentinel"
)

// An instance is one server: its parts, and how they were joined.
type instance struct {
	log      *logging.Logger
	parts    parts
	settings processSettings
	core     *engine.Core
	registry *setting.Registry
	config   *config.Config
	program  string // argv[0]

	asSentinel bool
	watcher    *sentinel.Machine // nil in a server

	network        reactor.Settings
	sockets        reactor.ListenSettings
	engine         engine.Settings
	common         command.Settings
	data           catalogue.Settings
	observe        observe.Settings
	scriptSettings scripting.Settings
	storage        dataset.Settings
	access         accessSettings
	tracking       tracking.Settings
	tls            tlsconfig.Settings
	primaryTLS     atomic.Pointer[tls.Config]        // of the link to a primary; nil: it is in the clear
	busTLS         atomic.Pointer[tlsconfig.Configs] // of the cluster bus; nil: it is in the clear
	adminTLS       atomic.Pointer[tls.Config]        // of the admin address, if admin-tls asks for it
	clustering     cluster.Settings
	own            ownSettings

	heap      *memory.Heap
	lazy      *lazyfree.Queue
	space     *keyspace.Keyspace
	clients   *client.Registry
	catalogue *command.Catalogue
	watches   *tx.Watches
	hub       *pubsub.Hub
	tracker   *tracking.Tracker
	modules   *modules.Modules
	set       *dataset.Set
	gate      *protocol.Gate
	scripts   *scripting.Scripts
	slots     slots.Current    // who serves which slot; none outside cluster mode
	cluster   *cluster.Cluster // nil outside cluster mode
	beatMs    atomic.Int64     // when the core last did its duties, by clock.Steady
	migrator  *migrate.Migrator
	reactor   *reactor.Reactor
	whole     command.Whole
	rewriter  *config.Rewriter
	sections  []info.Section
	slowlog   *observe.Slowlog
	events    *observe.Events
	buffers   *bufferPeak
	denials   acl.Log

	threads               process.Threads
	inputRate, outputRate engine.Rate
	peakUsed, startupUsed int64
	startupProcess        int64 // measureProcess

	signals    *process.Signals
	supervisor *process.Supervisor
	oom        *process.OomAdjuster
	admin      *admin.Server
	adminAt    net.Addr
	lane       atomic.Pointer[lane.Lane] // nil: there is none
	pidFile    string
	checking   *config.Check // --check-config; nil in a server
	health     admin.Health
}

// newInstance makes the settings, which the configuration is read into before anything else exists.
func newInstance(log *logging.Logger) (*instance, error) {
	in := &instance{log: log}
	in.parts = in.makeParts()
	registry, err := setting.NewRegistry(in.settings.Process.Rows(), in.settings.Idle.Rows(), in.own.rows(),
		in.access.rows(), in.network.Rows(), in.sockets.Rows(), in.engine.Rows(), in.common.Rows(), in.data.Rows(),
		in.observe.Rows(), in.tls.Rows(), in.parts.rows())
	if err != nil {
		return nil, err
	}
	in.registry = registry
	return in, nil
}

// processSettings are those of the process, and those without an effect.
type processSettings struct {
	Process process.Settings
	Idle    config.Idle
}

// ownSettings are those of the joints themselves.
type ownSettings struct {
	Backend    setting.Enum[reactor.Backend]
	Admin      setting.String
	AdminToken setting.String // "": none is asked for
	AdminHost  setting.String
	AdminOpen  setting.Bool // without a token it may be reached from other machines
	AdminTLS   setting.Bool
	Console    setting.String // the user whose rights the page's console has; "": there is no console

	LanePort       setting.Int // 0: none
	LaneBind       setting.Value[[]string]
	LaneSocket     setting.String
	LaneSocketPerm setting.Int
	Unsupported    setting.Enum[onUnsupported]
	Protected      setting.Enum[engine.Permission] // enable-protected-configs
}

func (s *ownSettings) rows() []setting.Row {
	return []setting.Row{
		setting.NewEnum("reactor-backend", &s.Backend, reactor.Gnet, []setting.Choice[reactor.Backend]{
			{Name: "gnet", Value: reactor.Gnet}, {Name: "epoll", Value: reactor.Epoll},
			{Name: "netpoll", Value: reactor.Netpoll},
		}, setting.Fixed),
		setting.NewString("admin-address", &s.Admin, "", setting.Fixed),
		setting.NewString("admin-token", &s.AdminToken, "", setting.Fixed, setting.Sensitive),
		setting.NewString("admin-host", &s.AdminHost, "", setting.Fixed),
		setting.NewBool("admin-open", &s.AdminOpen, false, setting.Fixed),
		setting.NewBool("admin-tls", &s.AdminTLS, false, setting.Fixed),
		setting.NewString("admin-console-user", &s.Console, "", setting.Fixed),
		setting.NewInt("admin-port", &s.LanePort, 0, setting.Between(0, math.MaxUint16), setting.Fixed),
		setting.NewValue("admin-bind", &s.LaneBind, []string{"127.0.0.1"}, reactor.Addresses,
			setting.MultiArg, setting.Fixed),
		setting.NewString("admin-unixsocket", &s.LaneSocket, "", setting.Fixed),
		setting.NewOctal("admin-unixsocketperm", &s.LaneSocketPerm, 0, setting.Between(0, 0o777), setting.Fixed),
		setting.NewEnum("enable-protected-configs", &s.Protected, engine.PermitNobody, engine.Permissions, setting.Immutable),
		setting.NewEnum("unsupported-directives", &s.Unsupported, refuseUnsupported, []setting.Choice[onUnsupported]{
			{Name: "refuse", Value: refuseUnsupported}, {Name: "warn", Value: warnUnsupported},
		}, setting.Fixed),
	}
}

// onUnsupported says what happens to a start that asks for an unsupported directive.
type onUnsupported int

const (
	refuseUnsupported onUnsupported = iota
	warnUnsupported                 // the server starts without the feature, and the log says so
)

// assemble builds the parts from the bottom up and joins them.
func (in *instance) assemble(args config.Arguments) (err error) {
	databases := 2 * int(in.engine.Databases.Get()) // keyspace.Keyspace.Beside
	if in.heap, err = memory.New(memory.Options{Databases: databases}); err != nil {
		return fmt.Errorf("reserving memory: %w", err)
	}
	in.common.MaxBulk = &in.network.MaxBulk
	in.lazy = lazyfree.New(lazyfree.Options{})
	in.space = keyspace.New(in.heap, keyspace.Options{
		Databases: int(in.engine.Databases.Get()), Slots: in.clustering.Enabled.Get(), BigKeys: in.engine.BigKeys.Get(),
	})
	in.clients = client.NewRegistry()
	in.gate = protocol.NewGate()
	in.core = engine.New(engine.Parts{
		Gate: in.gate, Space: in.space, Clients: in.clients, Settings: &in.engine, Common: &in.common, Lazy: in.lazy, Whole: &in.whole,
	})
	in.watches = tx.NewWatches(in.space)
	in.hub = pubsub.NewHub(in.core)
	in.modules = modules.New(func(text string) { in.log.Warning("%s", text) }, in.data.Filters.Take)
	in.tracker = tracking.New(in.core, in.clients, in.space, &in.tracking)
	in.rewriter = &config.Rewriter{Registry: in.registry, File: in.config.File, Umask: process.Umask(), Log: in.log}
	in.oom = process.NewOomAdjuster(&in.settings.Process, in.log)
	in.set = in.newSet()
	in.subscribe()
	in.joinObservation(args)
	in.joinScripts()
	in.joinMigrate()
	if err := in.parts.join(in.core.Subscribe); err != nil {
		return err
	}
	in.core.Do(func() { in.startupUsed = in.core.UsedMemory() })
	if in.asSentinel {
		if err := in.joinSentinel(); err != nil {
			return err
		}
	}
	for _, p := range in.parts {
		in.sections = append(in.sections, p.Sections...)
	}
	if err := in.joinCommands(args); err != nil {
		return err
	}
	in.joinSettings()
	in.core.AddOwnBarriers(in.parts.barriers()...)
	in.core.Do(in.registry.Loaded)
	if err := in.loadUsers(); err != nil {
		return err
	}
	return in.oom.Apply(in.storage.Follow.Of.Get().Host != "")
}

// newSet makes the data set.
func (in *instance) newSet() *dataset.Set {
	return dataset.New(dataset.Parts{
		Settings: &in.storage, Core: in.core, Space: in.space, Heap: in.heap, Whole: &in.whole, Clients: in.clients,
		Gate: in.gate, Log: in.log, Common: &in.common, Data: &in.data,
		Cluster: in.clustering.Enabled.Get(), Sentinel: in.asSentinel,
		Dial: in.dialPrimary, Port: in.replicaPort,
		ReplicaOutput: func() replication.OutputLimit {
			l := in.network.Output.Get()[protocol.ClassReplica]
			return replication.OutputLimit{Hard: int64(min(l.Hard, math.MaxInt64)),
				Soft: int64(min(l.Soft, math.MaxInt64)), Seconds: l.Seconds}
		},
		LatencyThreshold: in.engine.LatencyThreshold.Get, Latency: in.latency,
		Serve:  func() { in.reactor.Serve() },
		Loaded: func() { in.parts.loaded() },
		Changed: func() {
			in.tellHealth()
			in.countThreads()
		},
		Role:         func(replica bool) { _ = in.oom.Apply(replica) }, // it has told the log
		ShutdownWait: in.settings.Process.ShutdownWait.Get,
		Supervisor:   func() *process.Supervisor { return in.supervisor },
		Refused:      func() { in.signals.Refused() },
	})
}

// subscribe has the core call the features. The orders are those of part.Order.
func (in *instance) subscribe() {
	for _, l := range []part.Listeners{
		{Order: part.ForgetKeys, Tick: func(int64) { in.beatMs.Store(in.core.SteadyMs()) }},
		{Order: part.Later, Tick: in.sampleRates, Slow: in.slow, Latency: in.latency, Denied: in.denied},
		{Order: part.Later, Tick: in.tickThreads, Frozen: func() { in.threads.Follow(true, false) }, Lent: in.countThreads,
			Laden: in.countThreads},
		{Order: part.Later, Lent: in.tellHealth}, // duties stand still until the command is over
		{Order: part.Later, Attack: in.logAttack(),
			EvictingClient: func(cl *client.Client) { in.log.Notice("Evicting client: %s", in.describe(cl)) },
			Stuck:          func() { in.log.Warning("Over client maxmemory after evicting all evictable clients") },
			ManyCodes: func(codes []string) {
				in.log.Warning("Errorstats stopped adding new errors: clients have got %d different codes. "+
					"Scripts can make them up. CONFIG RESETSTAT counts anew.", len(codes))
				in.log.Warning("Current errors code list: %s", strings.Join(codes, ", "))
			}},
	} {
		in.core.Subscribe(l)
	}
}

// tickThreads comes ten times a second.
func (in *instance) tickThreads(int64) {
	in.threads.Tick(in.core.Turns())
	if in.reactor.Handshaking() {
		in.threads.Greet(reactor.Handshakers())
	}
	in.countThreads()
}

// countThreads has as many threads as what is under way needs.
func (in *instance) countThreads() {
	need := in.parts.need()
	in.threads.Follow(in.heap.Holding() || in.core.Lent() || need == part.Working, in.core.Laden() || need == part.Laden)
}

// logAttack says, at most once a minute, that a browser was led here.
func (in *instance) logAttack() func(*client.Client) {
	last := int64(0)
	return func(cl *client.Client) {
		if now := in.core.Now(); now-last >= 60_000 {
			last = now
			in.log.Warning("Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to "+
				"Redis. "+
				"This is likely due to an attacker attempting to use Cross Protocol Scripting to compromise your Redis instance. "+
				"Connection from %s aborted.", cl.Conn.RemoteAddr())
		}
	}
}

// joinSettings has the parts follow their settings.
func (in *instance) joinSettings() {
	in.registry.Follow(in.core.ApplyMemoryLimit, "maxmemory", "maxmemory-policy",
		"maxmemory-samples", "lfu-log-factor", "lfu-decay-time")
	in.registry.Follow(in.core.ApplyClientLimit, "maxmemory-clients", "maxmemory")
	in.registry.Follow(in.core.ApplySlowlogLimit, "slowlog-log-slower-than")
	in.registry.OnChange(func() error { return in.oom.Apply(in.storage.Follow.Of.Get().Host != "") }, "oom-score-adj",
		"oom-score-adj-values")
	in.registry.OnChange(func() error {
		return process.CheckMaxClients(in.network.MaxClients.Get(), in.filesBeside(), in.log)
	}, "maxclients")
	in.registry.OnChange(func() error { return in.rebind(errNoPort) }, "port")
	in.registry.OnChange(func() error { return in.rebind(errNoAddress) }, "bind")
	in.joinTLS()
	// The signals come later.
	in.registry.OnChange(func() error { return in.signals.CrashLogChanged() }, "crash-log-enabled")
	in.registry.Follow(func() { in.catalogue.TrackLatency(in.observe.LatencyTrack.Get()) }, "latency-tracking")
	in.registry.OnChange(func() error { in.retitle(); return nil }, "proc-title-template")
	in.joinUsers()
	config.FollowUnsupported(in.registry)
	in.parts.follow(in.registry)
}

// listen opens the sockets; what connects waits until load serves it.
func (in *instance) listen() (err error) {
	n := &in.sockets
	if len(in.listenerKinds()) == 0 {
		in.log.Warning("Configured to not listen anywhere, exiting.")
		return config.ErrLogged
	}
	options := reactor.Options{
		Handler: in.core, Settings: &in.network, Backend: in.own.Backend.Get(), Loops: int(n.Loops.Get()),
		Bind: n.Bind.Get(), Port: int(n.Port.Get()), TLSPort: int(n.TLSPort.Get()), Backlog: int(n.Backlog.Get()),
		UnixSocket: n.UnixSocket.Get(), UnixPerm: uint32(n.UnixSocketPerm.Get()), Mark: int(n.MarkID.Get()),
		Gate: in.gate,
		Logf: func(level reactor.Level, format string, args ...any) {
			in.log.At(logging.Level(level), format, args...)
		},
		OutputLimit: func(session any, _ protocol.Class, _ int) {
			in.log.Warning("Client %s scheduled to be closed ASAP for overcoming of output buffer limits.",
				in.describeNow(session))
		},
		QueryLimit: func(session any, begin []byte) {
			in.log.Warning("Closing client that reached max query buffer length: %s (qbuf initial bytes: %s)",
				in.describeNow(session),
				setting.Quote(string(begin)))
		},
		Handshaking: in.handshaking,
	}
	if err := in.startTLS(&options); err != nil {
		return err
	}
	in.reactor, err = reactor.New(options)
	return err
}

// describe is a client as log lines show it. Turn only.
func (in *instance) describe(cl *client.Client) string {
	return strings.TrimSuffix(string(conn.AppendLine(nil, cl, in.core.Now(), in.hub.Count)), "\n")
}

// describeNow is describe for a loop, which holds no turn.
func (in *instance) describeNow(session any) (line string) {
	in.core.Do(func() { line = in.describe(session.(*client.Client)) })
	return line
}

var (
	errNoPort    = errors.New("Unable to listen on this port. Check server logs.")
	errNoAddress = errors.New("Failed to bind to specified addresses.")
)

// busyThreads is one for each loop; our own loop waits without telling the runtime, and netpoll's goroutines run
// wherever there is room. waits says that loops wait as the runtime knows.
func (in *instance) busyThreads() (n int, waits bool) {
	loops := int(in.sockets.Loops.Get())
	switch in.own.Backend.Get() {
	case reactor.Epoll:
		return loops + 1, false
	case reactor.Netpoll:
		return max(loops, runtime.NumCPU()), false
	}
	return loops, true
}

// listenerKinds are the kinds of listeners there are, each named once in the log.
func (in *instance) listenerKinds() (kinds []string) {
	if in.sockets.Port.Get() != 0 && len(in.sockets.Bind.Get()) > 0 {
		kinds = append(kinds, "tcp")
	}
	if in.sockets.UnixSocket.Get() != "" {
		kinds = append(kinds, "unix")
	}
	if in.sockets.TLSPort.Get() != 0 && len(in.sockets.Bind.Get()) > 0 {
		kinds = append(kinds, "tls")
	}
	return kinds
}

// rebind is CONFIG SET bind, port and tls-port; refusal is what the client reads, the log has the cause.
func (in *instance) rebind(refusal error) error {
	n := &in.sockets
	if err := in.reactor.Rebind(n.Bind.Get(), int(n.Port.Get()), int(n.TLSPort.Get())); err != nil {
		if err != reactor.ErrListen {
			in.log.Warning("%s", err)
		}
		return refusal
	}
	in.retitle()
	return nil
}

// adminPlace is the socket of admin-address.
func (in *instance) adminPlace() (network string, at *net.TCPAddr, err error) {
	address := in.own.Admin.Get()
	network, at, err = admin.Place(address, in.own.AdminToken.Get(), in.own.AdminOpen.Get())
	if err != nil {
		err = fmt.Errorf("admin-address %s: %w", address, err)
	}
	return network, at, err
}

// startAdmin opens the admin address, if there is one.
func (in *instance) startAdmin() error {
	if in.own.Admin.Get() == "" {
		return nil
	}
	network, at, err := in.adminPlace()
	if err != nil {
		return err
	}
	listener, err := net.ListenTCP(network, at)
	if err != nil {
		return fmt.Errorf("admin-address %s: %w", in.own.Admin.Get(), err)
	}
	address := &admin.Server{Parts: admin.Parts{
		Do: in.core.Do, Sections: func() []info.Section { return in.sections }, Catalogue: in.catalogue,
		Scripts: in.scripts.Each, Health: &in.health, Handshakes: in.reactor.Handshakes, Profiling: func(on bool) {
			in.core.SetProfiling(on)
			in.scripts.SetProfiling(on)
		},
		Figures: in.parts.collectors, Page: in.newPage(),
	}}
	scheme := "http"
	if in.own.AdminTLS.Get() {
		scheme, address.TLS = "https", in.adminConfig()
	}
	in.core.Do(func() {
		in.tellHealth()
		in.core.Subscribe(part.Listeners{Order: part.Later, Tick: func(int64) { in.tellHealth() }})
	})
	in.health.BeatMs = in.beatMs.Load
	address.Serve(listener)
	in.admin, in.adminAt = address, listener.Addr()
	in.log.Notice("The live page, metrics, health and profiles are on %s://%s", scheme, in.adminAt)
	return nil
}

// tellHealth tells /healthz how the server does. Turn only.
func (in *instance) tellHealth() {
	s := admin.State{Role: "primary", Loading: in.core.Loading(), Busy: in.core.Lent()}
	if in.set.Follower.Following() {
		s.Role, s.HeardMs, s.LinkUp = "replica", in.set.Follower.HeardMs(), in.set.Follower.Up()
	}
	if in.asSentinel {
		s.Role = "sentinel"
	}
	if s.Reason = in.parts.ill(); s.Loading {
		s.Reason = "loading"
	}
	in.health.Tell(s)
}
