package server

import (
	"fmt"
	"math"
	"net"

	"spindle/admin"
	"spindle/admin/live"
	"spindle/dataset"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/acl"
	"spindle/engine/family/modules"
	"spindle/engine/family/pubsub"
	"spindle/engine/family/tracking"
	"spindle/engine/family/tx"
	"spindle/engine/part"
	"spindle/internal/config"
	"spindle/internal/info"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/internal/tlsconfig"
	"spindle/lazyfree"
	"spindle/protocol"
	"spindle/reactor"
	"spindle/replication"
)

// newInstance makes the settings, which the configuration is read into before anything else exists.
func newInstance(log *logging.Logger) (*instance, error) {
	in := &instance{log: log}
	in.parts = in.makeParts()
	registry, err := setting.NewRegistry(append(in.rowsOfServer(), in.parts.Rows())...)
	if err != nil {
		return nil, err
	}
	in.registry = registry
	return in, nil
}

// rowsOfServer are the settings that belong to no feature.
func (in *instance) rowsOfServer() [][]setting.Row {
	return [][]setting.Row{in.settings.Process.Rows(), in.settings.Idle.Rows(), in.own.rows(), in.access.Rows(),
		in.network.Rows(), in.sockets.Rows(), in.engine.Rows(), in.common.Rows(), in.data.Rows(), in.observe.Rows(),
		in.tls.Rows()}
}

// assemble builds the parts from the bottom up and joins them.
func (in *instance) assemble(args config.Arguments) (err error) {
	in.mode = modeOf(in.asSentinel, in.clustering.Enabled.Get())
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
	in.rewriter = &config.Rewriter{Registry: in.registry, File: in.config.File, Log: in.log}
	in.oom = process.NewOomAdjuster(&in.settings.Process, in.log)
	in.joinProcess()
	in.set = in.newSet()
	in.joinWatchers()
	in.subscribe()
	in.joinObservation(args)
	in.joinScripts()
	if err := in.parts.Join(in.core.Subscribe); err != nil {
		return err
	}
	in.core.Do(func() { in.observed.startupUsed = in.core.UsedMemory() })
	if in.asSentinel {
		if err := in.joinSentinel(); err != nil {
			return err
		}
	}
	in.sections = append(in.sections, in.parts.Sections()...)
	if err := in.joinCommands(args); err != nil {
		return err
	}
	in.joinSettings()
	in.core.AddOwnBarriers(in.parts.Barriers()...)
	in.core.Do(in.registry.Loaded)
	users := acl.Loader{Users: in.core.Users(), File: in.access.File.Get(), Config: in.config, Log: in.log, Do: in.core.Do,
		Refused: in.refused}
	if err := users.Load(); err != nil {
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
		Dial: in.dialPrimary, Port: func() int { return in.listening.replicaPort(in.tls.Replication.Get()) },
		ReplicaOutput: func() replication.OutputLimit {
			l := in.network.Output.Get()[protocol.ClassReplica]
			return replication.OutputLimit{Hard: int64(min(l.Hard, math.MaxInt64)),
				Soft: int64(min(l.Soft, math.MaxInt64)), Seconds: l.Seconds}
		},
		LatencyThreshold: in.engine.LatencyThreshold.Get, Latency: in.observed.latency,
		Serve:  func() { in.listening.reactor.Serve() },
		Loaded: func() { in.parts.Loaded() },
		Changed: func() {
			in.vitals.tell()
			in.threads.count()
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
		in.observed.listeners(),
		{Order: part.Later, Denied: in.witness.denied},
		in.threads.listeners(),
		{Order: part.Later, Lent: in.vitals.tell}, // duties stand still until the command is over
		in.witness.listeners(),
	} {
		in.core.Subscribe(l)
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
		return process.CheckMaxClients(in.network.MaxClients.Get(), in.own.files(&in.sockets, in.asSentinel), in.log)
	}, "maxclients")
	in.registry.OnChange(func() error { return in.listening.rebind(errNoPort) }, "port")
	in.registry.OnChange(func() error { return in.listening.rebind(errNoAddress) }, "bind")
	renew := func() error { return in.listening.renewTLS(&in.certificates) }
	in.registry.OnChange(renew, tlsconfig.Reread()...)
	in.registry.OnChange(func() error {
		if err := renew(); err != nil {
			return err
		}
		return in.listening.rebind(errNoPort)
	}, "tls-port")
	// The signals come later.
	in.registry.OnChange(func() error { return in.signals.CrashLogChanged() }, "crash-log-enabled")
	in.registry.Follow(func() { in.catalogue.TrackLatency(in.observe.LatencyTrack.Get()) }, "latency-tracking")
	in.registry.OnChange(func() error { in.titles.show(); return nil }, "proc-title-template")
	in.access.Follow(in.registry, in.core.Users(), &in.witness.refused, in.engine.RequirePass.Get)
	config.FollowUnsupported(in.registry)
	in.parts.Follow(in.registry)
}

// listen opens the sockets; what connects waits until load serves it.
func (in *instance) listen() (err error) {
	n := &in.sockets
	if len(in.listening.kinds()) == 0 {
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
				in.witness.lineNow(session))
		},
		QueryLimit: func(session any, begin []byte) {
			in.log.Warning("Closing client that reached max query buffer length: %s (qbuf initial bytes: %s)",
				in.witness.lineNow(session),
				setting.Quote(string(begin)))
		},
		Handshaking: in.threads.greet,
	}
	if options.TLS, err = in.certificates.Load(); err != nil {
		in.log.Warning("Failed to configure TLS. Check logs for more info.")
		return config.ErrLogged
	}
	in.listening.reactor, err = reactor.New(options)
	return err
}

// startAdmin opens the admin address, if there is one.
func (in *instance) startAdmin() error {
	if in.own.Admin.Get() == "" {
		return nil
	}
	network, at, err := in.own.adminPlace()
	if err != nil {
		return err
	}
	listener, err := net.ListenTCP(network, at)
	if err != nil {
		return fmt.Errorf("admin-address %s: %w", in.own.Admin.Get(), err)
	}
	address := &admin.Server{Parts: admin.Parts{
		Do: in.core.Do, Sections: func() []info.Section { return in.sections }, Catalogue: in.catalogue,
		Scripts: in.scripts.Each, Health: &in.vitals.health, Handshakes: in.listening.reactor.Handshakes, Profiling: func(on bool) {
			in.core.SetProfiling(on)
			in.scripts.SetProfiling(on)
		},
		Figures: in.parts.Collectors, Page: live.New(live.Options{
			Token: in.own.AdminToken.Get(), Host: in.own.AdminHost.Get(), Console: in.own.Console.Get(),
			Source: in.onlooker.source(),
		}),
	}}
	scheme := "http"
	if in.own.AdminTLS.Get() {
		scheme, address.TLS = "https", in.certificates.Admin()
	}
	in.core.Do(func() {
		in.vitals.tell()
		in.core.Subscribe(part.Listeners{Order: part.Later, Tick: func(int64) { in.vitals.tell() }})
	})
	in.vitals.health.BeatMs = in.beatMs.Load
	address.Serve(listener)
	in.admin, in.adminAt = address, listener.Addr()
	in.log.Notice("The live page, metrics, health and profiles are on %s://%s", scheme, in.adminAt)
	return nil
}
