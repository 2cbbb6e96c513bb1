package server

import (
	"spindle/bgsave"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/logging"
	"spindle/internal/version"
	"spindle/scripting"
	"spindle/scripting/lib"
	"spindle/scripting/lua"
)

// joinScripts makes the scripts and functions.
func (in *instance) joinScripts() {
	in.scripts = scripting.New(scripting.Deps{
		Settings:   &in.scriptSettings,
		Libraries:  []func(*lua.State){lib.Open},
		Find:       func(args [][]byte) *command.Spec { return in.catalogue.Find(args) },
		MayRun:     in.mayRun,
		Conditions: in.scriptConditions,
		Log:        func(level int, text string) { in.log.At(logging.Level(level), "%s", text) },
		LogLevel:   in.logLevel,
		BusyMs:     in.engine.BusyReplyThreshold.Get,
		Pack: func(libraries [][]byte) []byte {
			return bgsave.PackFunctions(libraries, in.save.Compress.Get())
		},
		Unpack: func(payload []byte) ([][]byte, bool, error) {
			return bgsave.UnpackFunctions(payload, in.saver.AnyChecksum)
		},
		Version: version.Redis,
	})
	in.sections = append(in.sections, in.scripts.Sections()...)
}

// mayRun says whether cl's user has the right to run a command.
func (in *instance) mayRun(cl *client.Client, spec *command.Spec, args [][]byte) bool {
	user, ok := cl.User.(*acl.User)
	if !ok {
		return true
	}
	d := in.core.Users().Check(user.Rights(), spec, args)
	return !d.Refused()
}

// logLevel is the least level that the log takes.
func (in *instance) logLevel() int {
	level := logging.LevelDebug
	for level < logging.LevelNothing && !in.log.Enabled(level) {
		level++
	}
	return int(level)
}

// scriptConditions are what may stand in the way of a script that says what it does.
func (in *instance) scriptConditions() scripting.Conditions {
	return scripting.Conditions{
		Cluster:     in.clustering.Enabled.Get(),
		SaveFailed:  in.scheduler.WritesStopped(),
		Stale:       in.isStale(),
		ReadOnly:    in.follower.Following() && in.following.ReadOnly.Get(),
		FewReplicas: in.feed.WantsReplicas() && !in.feed.EnoughReplicas(),
		OutOfMemory: in.core.OutOfMemory(),
	}
}

// restoreLibrary takes a function library from a file that is being loaded, outside the turn.
func (in *instance) restoreLibrary(source []byte) (err error) {
	in.core.Do(func() { err = in.scripts.Restore(source, false) })
	return err
}
