package server

import (
	"context"
	"crypto/tls"
	"net"

	"spindle/engine"
	users "spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/family/acl"
	family "spindle/engine/family/config"
	"spindle/engine/family/conn"
	"spindle/engine/part"
	"spindle/internal/config"
	"spindle/internal/info"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/internal/tlsconfig"
	"spindle/protocol"
	"spindle/replication"
)

// joinCommands builds the catalogue, and renames commands as the configuration says.
func (in *instance) joinCommands() (err error) {
	families := in.parts.Families()
	if in.asSentinel {
		families = in.watching.Families(families)
	}
	if in.catalogue, err = command.NewCatalogue(families...); err != nil {
		return err
	}
	for _, r := range in.config.Renames {
		if err := in.catalogue.Rename(r.Words[0], r.Words[1]); err != nil {
			if err := in.refused(r.Refuse(err)); err != nil {
				return err
			}
		}
	}
	for _, line := range in.config.Modules {
		module, err := in.modules.Configure(line.Words[0], line.Words[1:])
		if err != nil {
			in.log.Warning("Can't load module from %s: server aborting (%s)", line.Words[0], err)
			if err := in.refused(config.ErrLogged, line.At); err != nil {
				return err
			}
			continue
		}
		in.log.Notice("Module '%s' is built in: %s is not read", module.Name, line.Words[0])
	}
	in.core.SetCatalogue(in.catalogue)
	return nil
}

// configPart has CONFIG.
func (in *instance) configPart() *part.Part {
	return &part.Part{Name: "configuration", Rows: in.own.rows(), Join: func(p *part.Part) error {
		config.FollowUnsupported(in.registry)
		p.Families = []command.Family{family.Family(family.Parts{
			Registry:   in.registry,
			MayProtect: func(local bool) bool { return in.own.Protected.Get().Allows(local) },
			Loading:    func() bool { return in.core.Loading() || in.set.Loading.ServesOld.Load() },
			Rewrite:    func() error { return in.rewriter.Rewrite(false) },
			ResetStat:  in.parts.Reset,
			Await: func(cl *client.Client, pairs []setting.Pair) bool {
				return in.listening.await(pairs, func() { in.core.Do(func() { in.core.Continue(cl) }) })
			},
		})}
		return nil
	}}
}

// corePart has the core and the memory of the data.
func (in *instance) corePart() *part.Part {
	return &part.Part{Name: "core", Rows: in.engine.Rows(), Join: func(p *part.Part) error {
		p.Sections = append(in.core.DefragSections(), in.core.ReadingSections()...)
		p.Follows = []part.Follow{
			part.On(in.core.ApplyMemoryLimit, "maxmemory", "maxmemory-policy", "maxmemory-samples", "lfu-log-factor",
				"lfu-decay-time"),
			part.On(in.core.ApplyClientLimit, "maxmemory-clients", "maxmemory"),
			part.On(in.core.ApplyLogLimits, "slowlog-log-slower-than", "commandlog-request-larger-than",
				"commandlog-reply-larger-than"),
		}
		p.Listeners = []part.Listeners{{Order: part.ForgetKeys, Tick: func(int64) { in.beatMs.Store(in.core.SteadyMs()) }}}
		p.Reset = in.core.ResetFigures
		return nil
	}}
}

// processPart has the process: its threads, its title and its place among other processes.
func (in *instance) processPart() *part.Part {
	rows := append(in.settings.Process.Rows(), in.settings.Idle.Rows()...)
	return &part.Part{Name: "process", Rows: rows, Join: func(p *part.Part) error {
		p.Listeners = []part.Listeners{in.threads.Listeners()}
		p.Follows = []part.Follow{
			{Try: in.applyOom, Names: []string{"oom-score-adj", "oom-score-adj-values"}},
			// The signals are made later.
			{Try: func() error { return in.signals.CrashLogChanged() }, Names: []string{"crash-log-enabled"}},
			{Try: func() error { in.titles.show(); return nil }, Names: []string{"proc-title-template"}},
		}
		return nil
	}}
}

// applyOom applies oom-score-adj.
func (in *instance) applyOom() error { return in.oom.Apply(in.storage.Follow.Of.Get().Host != "") }

// networkPart has the addresses for clients.
func (in *instance) networkPart() *part.Part {
	return &part.Part{Name: "network", Rows: append(in.network.Rows(), in.sockets.Rows()...),
		Join: func(p *part.Part) error {
			p.Follows = []part.Follow{
				{Try: func() error {
					return process.CheckMaxClients(in.network.MaxClients.Get(), in.own.files(&in.sockets, in.asSentinel), in.log)
				}, Names: []string{"maxclients"}},
				{Try: func() error { return in.listening.rebind(errNoPort) }, Names: []string{"port"}},
				{Try: func() error { return in.listening.rebind(errNoAddress) }, Names: []string{"bind"}},
			}
			p.Reset = func() { in.listening.reactor.ResetStats() }
			return nil
		}}
}

// tlsPart has the certificates of all connections.
func (in *instance) tlsPart() *part.Part {
	return &part.Part{Name: "TLS", Rows: in.tls.Rows(), Join: func(p *part.Part) error {
		renew := func() error { return in.certificates.Renew(in.listening.reactor.SetTLS) }
		p.Follows = []part.Follow{
			{Try: renew, Names: tlsconfig.Reread()},
			{Try: func() error {
				if err := renew(); err != nil {
					return err
				}
				return in.listening.rebind(errNoPort)
			}, Names: []string{"tls-port"}},
		}
		watch := &tlsconfig.Watch{
			Current: &in.certificates, Do: in.core.Do, Log: func(text string) { in.log.Notice("%s", text) },
			Use: func(server *tls.Config) { in.listening.reactor.SetTLS(server) },
		}
		p.Sections = []info.Section{in.certificates.Section()}
		p.Listeners = []part.Listeners{{Order: part.Later, Tick: watch.Tick,
			Names: func(cl *client.Client) []string {
				if in.tls.User.Get() == tlsconfig.UserOff {
					return nil
				}
				return in.tls.Names(protocol.PeerCertificate(cl.Conn))
			}}}
		return nil
	}}
}

// usersPart has ACL: the users, and the log of refused calls.
func (in *instance) usersPart() *part.Part {
	return &part.Part{Name: "users", Rows: in.access.Rows(), Join: func(p *part.Part) error {
		in.access.Join(p, acl.Deps{
			Users: in.core.Users(), Log: in.clientLog.Refusals,
			Catalogue: func() *command.Catalogue { return in.catalogue },
			File:      in.access.File.Get,
			Kill:      func(c *command.Context, deleted *users.User) { in.core.ExpelUser(deleted, c.Client) },
			KillSubscribers: func(c *command.Context, changed *users.User) {
				for _, cl := range in.hub.Forbidden(in.clients.All, changed, changed.Rights()) {
					in.core.Expel(cl, cl == c.Client)
				}
			},
			Warn: func(text string) { in.log.Warning("%s", text) },
		}, in.registry, in.engine.RequirePass.Get, &acl.Loader{Users: in.core.Users(), File: in.access.File.Get,
			Config: in.config, Log: in.log, Do: in.core.Do, Refused: in.refused})
		p.Listeners = []part.Listeners{in.clientLog.Listeners()}
		return nil
	}}
}

// connDeps are the functions that the connection commands call.
func (in *instance) connDeps() conn.Deps {
	return conn.Deps{
		Clients: in.clients, Users: in.core.Users(), SetUser: in.core.SetUser, Kill: in.core.Expel,
		SetAcks:    in.core.SetAcks,
		Pause:      func(all bool, ms int64) { in.core.PauseFor(engine.PauseByClient, all, ms) },
		Unpause:    func() { in.core.Unpause(engine.PauseByClient) },
		Unblock:    in.core.Unblock,
		AuthFailed: func(c *command.Context, user []byte) { in.core.DenyAuth(c.Client, c.Args[0], user) },
		Reset: func(cl *client.Client) {
			in.watches.Discard(cl)
			in.hub.Forget(cl)
			in.tracker.Forget(cl)
			in.notices.Forget(cl)
			in.core.StopMonitor(cl)
		},
		Databases: func() int { return int(in.engine.Databases.Get()) }, Mode: func() string { return in.mode },
		Zone: in.settings.Process.Zone.Get, Role: func() string {
			if in.set.Follower.Following() {
				return "replica"
			}
			return "master"
		},
		Subscriptions: in.hub.Count, Speaks: in.hub.Speaks, Modules: in.modules.Append,
	}
}

// dialPrimary opens the connection to a primary, under TLS if tls-replication is on. Any goroutine.
func (in *instance) dialPrimary(ctx context.Context, address, source string) (net.Conn, error) {
	conn, err := replication.Dial(ctx, address, source)
	if err != nil {
		return conn, err
	}
	return in.certificates.SecurePrimary(ctx, conn)
}
