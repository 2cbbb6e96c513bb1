package server

import (
	"context"
	"net"

	"spindle/engine/family/observe"
	"spindle/internal/tlsconfig"
	"spindle/replication"
)

// joinWatchers makes what shows the server: its log of clients, its figures, its health and its title.
func (in *instance) joinWatchers() {
	in.witness.core, in.witness.hub, in.witness.log = in.core, in.hub, in.log
	in.witness.book = func() {
		if l := in.lane.Load(); l != nil {
			l.Book()
		}
	}
	o := &in.observed
	o.core, o.heap, o.clients, o.set, o.listening = in.core, in.heap, in.clients, in.set, &in.listening
	o.refusals, o.limit = in.witness.refusals, func() int64 { return int64(in.engine.MaxMemory.Get()) }
	o.policy = in.registry.Lookup("maxmemory-policy").Get
	o.slowlog, o.events = observe.NewSlowlog(in.observe.SlowlogLen.Get), observe.NewEvents()
	o.buffers.clients = in.clients
	in.onlooker = onlooker{core: in.core, gate: in.gate, space: in.space, clients: in.clients, witness: &in.witness,
		observed: o, beatMs: in.beatMs.Load}
	v := &in.vitals
	v.core, v.set, v.sentinel, v.ill = in.core, in.set, in.asSentinel, in.parts.Ill
}

// joinProcess makes the threads, the title and the certificates.
func (in *instance) joinProcess() {
	c := &in.threads
	c.core, c.heap, c.need = in.core, in.heap, in.parts.Need
	c.handshaking = func() bool { return in.listening.reactor.Handshaking() }
	t := &in.titles
	t.settings, t.sockets, t.mode, t.file, t.log = &in.settings.Process, &in.sockets, in.mode, in.config.File, in.log
	l := &in.listening
	l.settings, l.log, l.moved = &in.sockets, in.log, t.show
	in.certificates = tlsconfig.Current{
		Settings: &in.tls, Begins: c.greet, Warn: func(err error) { in.log.Warning("%s", err) },
		Wanted: func() bool {
			return in.sockets.TLSPort.Get() != 0 || in.tls.Replication.Get() || in.tls.Cluster.Get() || in.own.AdminTLS.Get()
		},
	}
}

// dialPrimary opens the connection to a primary, under TLS if tls-replication says so. Any goroutine.
func (in *instance) dialPrimary(ctx context.Context, address, source string) (net.Conn, error) {
	conn, err := replication.Dial(ctx, address, source)
	if err != nil {
		return conn, err
	}
	return in.certificates.SecurePrimary(ctx, conn)
}
