package server

import (
	"slices"
	"strings"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	family "spindle/engine/family/config"
	"spindle/engine/family/conn"
	"spindle/internal/config"
	"spindle/internal/setting"
	"spindle/reactor"
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
		Await:      in.awaitNames,
	}
}

// awaitNames has the host names resolved that pairs would have a turn wait for, and those listened on now, to which a
// CONFIG SET that fails goes back. It says whether there are any; then cl goes on when it is done.
func (in *instance) awaitNames(cl *client.Client, pairs []setting.Pair) bool {
	bind, rebinds := slices.Clone(in.sockets.Bind.Get()), false
	for _, p := range pairs {
		switch strings.ToLower(p.Name) {
		case "bind":
			bind, rebinds = append(bind, strings.Fields(p.Value)...), true
		case "port", "tls-port":
			rebinds = true
		}
	}
	hosts := reactor.Unresolved(bind)
	if !rebinds || len(hosts) == 0 {
		return false
	}
	go func() {
		in.reactor.Resolve(hosts)
		in.core.Do(func() { in.core.Wake(cl) })
	}()
	return true
}

// resetStatistics is CONFIG RESETSTAT: every package forgets what it counted.
func (in *instance) resetStatistics() {
	in.refusals().ResetDenied()
	in.core.ResetFigures()
	in.space.Stats.Hits, in.space.Stats.Misses, in.space.Stats.Expired, in.space.Stats.Evicted = 0, 0, 0, 0
	in.space.Stats.ExpiredFields, in.space.Stats.TimeCapReached = 0, 0
	in.space.ResetLag()
	in.heap.ResetPeak()
	in.heap.ResetLazyObjects()
	in.reactor.ResetStats()
	in.inputRate, in.outputRate = engine.Rate{}, engine.Rate{}
	in.parts.reset()
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
		Mode: in.mode, Subscriptions: in.hub.Count, Speaks: in.hub.Speaks, Modules: in.modules.Append,
	}
}
