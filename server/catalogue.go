package server

import (
	"spindle/engine/command"
	"spindle/engine/family/config"
	"spindle/engine/family/conn"
	"spindle/engine/family/introspect"
	"spindle/engine/family/keys"
	"spindle/engine/family/observe"
	"spindle/engine/family/str"
)

// families is the command set of a server: its table of contents, in the order of COMMAND.
func (in *instance) families() []command.Family {
	list := []command.Family{
		str.Family, keys.Family, keys.Databases, conn.Family(in.connDeps()),
		observe.Family(in.observeDeps()), introspect.Family(in.introspectDeps()), in.watches.Family(), config.Family(in.configParts()), in.shutdown.Family(),
		in.feed.Family(), in.feed.WaitFamily(),
	}
	return append(list, in.saver.Families()...)
}
