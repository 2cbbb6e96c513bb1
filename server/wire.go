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
	"spindle/overview"
	"spindle/protocol"
	"spindle/reactor"
	"spindle/replication"
)

// newInstance makes the settings. The configuration is read into them before anything else exists.
func newInstance(log *logging.Logger) (*instance, error) {
	in := &instance{log: log}
	in.parts = in.makeParts()
	registry, err := setting.NewRegistry(in.parts.Rows())
	if err != nil {
		return nil, err
	}
	in.registry = registry
	return in, nil
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
		Gate: in.gate, Space: in.space, Clients: in.clients, Settings: &in.engine, Common: &in.common, Lazy: in.lazy,
		Whole: &in.whole,
	})
	in.watches = tx.NewWatches(in.space)
	in.hub = pubsub.NewHub(in.core)
	in.modules = modules.New(func(text string) { in.log.Warning("%s", text) }, in.data.Filters.Parse)
	in.tracker = tracking.New(in.core, in.clients, in.space, &in.tracking)
	in.notices.Push = in.core.Push
	in.rewriter = &config.Rewriter{Registry: in.registry, File: in.config.File, Log: in.log}
	in.oom = process.NewOomAdjuster(&in.settings.Process, in.log)
	in.joinProcess()
	in.figures = overview.NewFigures(&in.records)
	in.set = in.newSet()
	in.joinOverview()
	in.joinScripts()
	if err := in.parts.Join(in.core.Subscribe); err != nil {
		return err
	}
	in.core.Do(in.figures.Started)
	in.sections = in.parts.Sections()
	if err := in.joinCommands(); err != nil {
		return err
	}
	in.parts.Follow(in.registry)
	for _, row := range in.registry.Rows() {
		in.registry.OnChange(func() error { in.page.NoteChange(row.Name); return nil }, row.Name)
	}
	in.core.AddOwnBarriers(in.parts.Barriers()...)
	in.core.Do(in.registry.Loaded)
	if err := in.parts.Ready(); err != nil {
		return err
	}
	return in.applyOom()
}

// joinProcess makes the threads, the title and the certificates.
func (in *instance) joinProcess() {
	c := &in.threads
	c.Core, c.Heap, c.Need = in.core, in.heap, in.parts.Need
	c.Handshaking = func() bool { return in.listening.reactor.Handshaking() }
	t := &in.titles
	t.settings, t.sockets, t.mode, t.file, t.log = &in.settings.Process, &in.sockets, in.mode, in.config.File, in.log
	l := &in.listening
	l.settings, l.log, l.moved = &in.sockets, in.log, t.show
	in.certificates = tlsconfig.Current{
		Settings: &in.tls, Begins: c.GreetTLS, Warn: func(err error) { in.log.Warning("%s", err) },
		Wanted: func() bool {
			return in.sockets.TLSPort.Get() != 0 || in.tls.Replication.Get() || in.tls.Cluster.Get() || in.own.AdminTLS.Get()
		},
	}
}

// newSet makes the data set.
func (in *instance) newSet() *dataset.Set {
	return dataset.New(dataset.Parts{
		Settings: &in.storage, Core: in.core, Space: in.space, Heap: in.heap, Whole: &in.whole, Clients: in.clients,
		Gate: in.gate, Log: in.log, Common: &in.common, Data: &in.data,
		Cluster: in.clustering.Enabled.Get(), Sentinel: in.asSentinel, Notices: &in.notices,
		Dial: in.dialPrimary, Port: func() int { return in.listening.replicaPort(in.tls.Replication.Get()) },
		ReplicaOutput: func() replication.OutputLimit {
			l := in.network.Output.Get()[protocol.ClassReplica]
			return replication.OutputLimit{Hard: int64(min(l.Hard, math.MaxInt64)),
				Soft: int64(min(l.Soft, math.MaxInt64)), Seconds: l.Seconds}
		},
		LatencyThreshold: in.engine.LatencyThreshold.Get, Latency: in.figures.Latency,
		Serve:  func() { in.listening.reactor.Serve() },
		Loaded: in.parts.Loaded,
		Changed: func() {
			in.health.Publish()
			in.threads.Count()
		},
		Role:         func(replica bool) { _ = in.oom.Apply(replica) }, // errors are already logged
		Heir:         func(at replication.Address) string { return in.cluster.ReplicaAt(at.Host, at.Port) },
		Serves:       func() bool { return in.cluster != nil && in.cluster.Serves() },
		ShutdownWait: in.settings.Process.ShutdownWait.Get,
		Supervisor:   func() *process.Supervisor { return in.supervisor },
		Refused:      func() { in.signals.Refused() },
	})
}

// listen opens the sockets. Connections wait until load serves them.
func (in *instance) listen() (err error) {
	n := &in.sockets
	if len(in.listening.kinds()) == 0 {
		in.log.Warning("Configured to not listen anywhere, exiting.")
		return config.ErrLogged
	}
	options := reactor.Options{
		Handler: in.core, Settings: &in.network, Backend: in.backend, Loops: int(n.Loops.Get()), Most: n.Most(),
		Active: func(loops int) { in.threads.Serve(loops, in.backend) },
		Bind:   n.Bind.Get(), Port: int(n.Port.Get()), TLSPort: int(n.TLSPort.Get()), Backlog: int(n.Backlog.Get()),
		UnixSocket: n.UnixSocket.Get(), UnixPerm: uint32(n.UnixSocketPerm.Get()),
		UnixGroup: n.UnixGroup.Get(), Mark: int(n.MarkID.Get()),
		Gate: in.gate,
		Logf: func(level reactor.Level, format string, args ...any) {
			in.log.At(logging.Level(level), format, args...)
		},
		OutputLimit: func(session any, _ protocol.Class, _ int) {
			in.log.Warning("Client %s scheduled to be closed ASAP for overcoming of output buffer limits.",
				in.clientLog.LineNow(session))
		},
		QueryLimit: func(session any, begin []byte) {
			in.log.Warning("Closing client that reached max query buffer length: %s (qbuf initial bytes: %s)",
				in.clientLog.LineNow(session),
				logging.Data(setting.Quote(string(begin))))
		},
		Handshaking: in.threads.GreetTLS,
	}
	if options.TLS, err = in.certificates.Load(); err != nil {
		in.log.Warning("Failed to configure TLS. Check logs for more info.")
		return config.ErrLogged
	}
	in.listening.reactor, err = reactor.New(options)
	return err
}

// startAdmin opens the admin address, if the configuration has one.
func (in *instance) startAdmin() error {
	if in.own.Admin.Get() == "" {
		return nil
	}
	network, at, err := in.own.adminSocket()
	if err != nil {
		return err
	}
	listener, err := net.ListenTCP(network, at)
	if err != nil {
		return fmt.Errorf("admin-address %s: %w", in.own.Admin.Get(), err)
	}
	address := &admin.Server{Parts: admin.Parts{
		Do: in.core.Do, Sections: func() []info.Section { return in.sections }, Catalogue: in.catalogue,
		Scripts: in.scripts.Each, Health: &in.health.Shown, Handshakes: in.listening.reactor.Handshakes,
		Certificates: in.page.Certificates,
		Profiling: func(on bool) {
			in.core.SetProfiling(on)
			in.scripts.SetProfiling(on)
		},
		Figures: in.parts.Collectors, Page: live.New(live.Options{
			Token: in.own.AdminToken.Get(), Host: in.own.AdminHost.Get(), Console: in.own.Console.Get(),
			Source: in.page.Source(),
		}),
	}}
	scheme := "http"
	if in.own.AdminTLS.Get() {
		scheme, address.TLS = "https", in.certificates.Admin()
	}
	in.core.Do(func() {
		in.health.Publish()
		in.core.Subscribe(part.Listeners{Order: part.Later, Tick: func(int64) { in.health.Publish() }})
	})
	in.health.Shown.BeatMs = in.beatMs.Load
	address.Serve(listener)
	in.admin, in.adminAt = address, listener.Addr()
	in.log.Notice("The live page, metrics, health and profiles are on %s://%s", scheme, in.adminAt)
	return nil
}
