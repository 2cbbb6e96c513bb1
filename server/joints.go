package server

import (
	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/family/config"
	"spindle/engine/family/conn"
)

// joinCommands builds the catalogue, and renames in it what the configuration renames.
func (in *instance) joinCommands(args Arguments) (err error) {
	if in.catalogue, err = command.NewCatalogue(in.families()...); err != nil {
		return err
	}
	for i, r := range in.config.Renames {
		if err := in.catalogue.Rename(r[0], r[1]); err != nil {
			return in.config.RefuseRename(i, err)
		}
	}
	if len(in.config.Modules) > 0 {
		in.log.Warning("Can't load module from %s: server aborting", in.config.Modules[0][0])
		return errLogged
	}
	in.core.SetCatalogue(in.catalogue)
	return nil
}

// configParts are what CONFIG acts on.
func (in *instance) configParts() config.Parts {
	return config.Parts{
		Registry: in.registry,
		MayProtect: func(local bool) bool {
			mode := in.settings.Process.Protected.Get()
			return mode == permitAnyone || mode == permitLocal && local
		},
		Loading:   in.core.Loading,
		Rewrite:   func() error { return in.rewriter.Rewrite(false) },
		ResetStat: in.resetStatistics,
	}
}

// resetStatistics is CONFIG RESETSTAT: every package forgets what it counted.
func (in *instance) resetStatistics() {
	in.core.ResetFigures()
	in.space.Stats.Hits, in.space.Stats.Misses, in.space.Stats.Expired, in.space.Stats.Evicted = 0, 0, 0, 0
	in.space.Stats.ExpiredFields, in.space.Stats.TimeCapReached = 0, 0
	in.space.ResetLag()
	in.heap.ResetPeak()
	in.scheduler.ResetStats()
	in.saver.ResetStats()
	in.lazy.ResetStats()
	in.feed.ResetStats()
	in.reactor.ResetStats()
	in.inputRate, in.outputRate = engine.Rate{}, engine.Rate{}
}

// connDeps are what the connection commands ask of the rest.
func (in *instance) connDeps() conn.Deps {
	return conn.Deps{
		Clients: in.clients, RequirePass: in.engine.RequirePass.Get, Kill: in.core.Kill,
		Pause:   func(all bool, untilMs int64) { in.core.Pause(engine.PauseByClient, all, untilMs) },
		Unpause: func() { in.core.Unpause(engine.PauseByClient) },
		Unblock: in.core.Unblock,
		Reset: func(cl *client.Client) {
			in.watches.Discard(cl)
			in.core.StopMonitor(cl)
		},
		Subscriptions: func(*client.Client) (int, int, int) { return 0, 0, 0 },
	}
}
