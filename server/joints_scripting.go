package server

import (
	"context"
	"net"
	"spindle/bgsave"
	"spindle/cluster/migrate"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/logging"
	"spindle/scripting"
	"spindle/scripting/lib"
	"spindle/scripting/lua"
)

// joinScripts makes the scripts and functions, and MIGRATE.
func (in *instance) joinScripts() {
	in.scripts = scripting.New(scripting.Deps{
		Settings:  &in.scriptSettings,
		Libraries: []func(*lua.State){lib.Open},
		Find:      func(args [][]byte) *command.Spec { return in.catalogue.Find(args) },
		MayRun: func(cl *client.Client, spec *command.Spec, args [][]byte) bool {
			return mayRun(in.core.Users(), cl, spec, args, int(in.engine.Databases.Get()))
		},
		Conditions: in.set.ScriptConditions,
		Log:        func(level int, text string) { in.log.At(logging.Level(level), "%s", text) },
		LogLevel:   func() int { return logLevel(in.log) },
		BusyMs:     in.engine.BusyReplyThreshold.Get,
		Pack: func(libraries [][]byte) []byte {
			return bgsave.PackFunctions(libraries, in.storage.Save.Compress.Get())
		},
		Unpack: func(payload []byte) ([][]byte, bool, error) {
			return bgsave.UnpackFunctions(payload, in.set.Saver.PayloadCheck())
		},
	})
	in.set.Scripts, in.figures.Scripts = in.scripts, in.scripts
	in.migrator = migrate.New(migrate.Parts{
		Core: in.core, Dumper: in.set.Saver.Dumper, Begun: in.threads.Count,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", address)
			if err != nil {
				return conn, err
			}
			return in.certificates.SecureNode(ctx, conn)
		},
		Cluster: in.clustering.Enabled.Get(),
	})
}

// mayRun reports whether cl's user has the right to run a command.
func mayRun(all *acl.Users, cl *client.Client, spec *command.Spec, args [][]byte, databases int) bool {
	user, ok := cl.User.(*acl.User)
	if !ok {
		return true
	}
	d := all.Check(user.Rights(), spec, args, acl.Place{DB: cl.DB, Of: databases})
	return !d.Refused()
}

// logLevel returns the lowest level that the log writes.
func logLevel(log *logging.Logger) int {
	level := logging.LevelDebug
	for level < logging.LevelNothing && !log.Enabled(level) {
		level++
	}
	return int(level)
}
