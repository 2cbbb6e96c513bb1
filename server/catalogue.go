package server

import (
	"spindle/engine/command"
	"spindle/engine/family/config"
	"spindle/engine/family/conn"
	"spindle/engine/family/keys"
	"spindle/engine/family/str"
)

// families is the command set of a server: its table of contents, in the order of COMMAND.
func (in *instance) families() []command.Family {
	list := []command.Family{
		str.Family, keys.Family, conn.Family(in.connDeps()), in.watches.Family(), config.Family(in.configParts()), in.shutdown.Family(),
		in.feed.Family(), in.feed.WaitFamily(),
	}
	return append(list, in.saver.Families()...)
}
