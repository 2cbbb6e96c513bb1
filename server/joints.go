package server

import (
	"spindle/engine"
	users "spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/family/acl"
	family "spindle/engine/family/config"
	"spindle/engine/family/conn"
	"spindle/internal/config"
	"spindle/internal/setting"
)

// joinCommands builds the catalogue, and renames in it what the configuration renames.
func (in *instance) joinCommands(args config.Arguments) (err error) {
	if in.catalogue, err = command.NewCatalogue(in.families()...); err != nil {
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

// configParts are what CONFIG acts on.
func (in *instance) configParts() family.Parts {
	return family.Parts{
		Registry:   in.registry,
		MayProtect: func(local bool) bool { return in.own.Protected.Get().Allows(local) },
		Loading:    func() bool { return in.core.Loading() || in.set.Loading.Beside.Load() },
		Rewrite:    func() error { return in.rewriter.Rewrite(false) },
		ResetStat:  in.resetStatistics,
		Await: func(cl *client.Client, pairs []setting.Pair) bool {
			return in.listening.await(pairs, func() { in.core.Do(func() { in.core.Wake(cl) }) })
		},
	}
}

// resetStatistics is CONFIG RESETSTAT: every package forgets what it counted.
func (in *instance) resetStatistics() {
	in.witness.refusals().ResetDenied()
	in.core.ResetFigures()
	in.space.Stats.Hits, in.space.Stats.Misses, in.space.Stats.Expired, in.space.Stats.Evicted = 0, 0, 0, 0
	in.space.Stats.ExpiredFields, in.space.Stats.TimeCapReached = 0, 0
	in.space.ResetLag()
	in.heap.ResetPeak()
	in.heap.ResetLazyObjects()
	in.listening.reactor.ResetStats()
	in.observed.reset()
	in.parts.Reset()
}

// connDeps are what the connection commands ask of the rest.
func (in *instance) connDeps() conn.Deps {
	return conn.Deps{
		Clients: in.clients, Users: in.core.Users(), SetUser: in.core.SetUser, Kill: in.core.Expel,
		Pause:      func(all bool, ms int64) { in.core.PauseFor(engine.PauseByClient, all, ms) },
		Unpause:    func() { in.core.Unpause(engine.PauseByClient) },
		Unblock:    in.core.Unblock,
		AuthFailed: func(c *command.Context, user []byte) { in.core.DenyAuth(c.Client, c.Args[0], user) },
		Reset: func(cl *client.Client) {
			in.watches.Discard(cl)
			in.hub.Forget(cl)
			in.tracker.Forget(cl)
			in.core.StopMonitor(cl)
		},
		Mode: func() string { return in.mode }, Subscriptions: in.hub.Count, Speaks: in.hub.Speaks, Modules: in.modules.Append,
	}
}

// aclDeps are what ACL asks of the rest.
func (in *instance) aclDeps() acl.Deps {
	return acl.Deps{
		Users: in.core.Users(), Log: in.witness.refusals,
		Catalogue: func() *command.Catalogue { return in.catalogue },
		File:      in.access.File.Get,
		Kill:      func(c *command.Context, deleted *users.User) { in.core.ExpelUser(deleted, c.Client) },
		KillSubscribers: func(c *command.Context, changed *users.User) {
			for _, cl := range in.hub.Forbidden(in.clients.All, changed, changed.Rights()) {
				in.core.Expel(cl, cl == c.Client)
			}
		},
		Warn: func(text string) { in.log.Warning("%s", text) },
	}
}
