package server

import (
	"spindle/engine/catalogue"
	"spindle/engine/command"
	"spindle/engine/family/acl"
	"spindle/engine/family/config"
	"spindle/engine/family/conn"
	"spindle/engine/family/introspect"
	"spindle/engine/family/observe"
)

// families is the command set of a server: those on data, and those that are joined to its other parts.
func (in *instance) families() []command.Family {
	all := append(catalogue.Data(&in.data),
		conn.Family(in.connDeps(), in.tracker.Rows()...), observe.Family(in.observeDeps()),
		introspect.Family(in.introspectDeps()),
		config.Family(in.configParts()), acl.Family(in.aclDeps()), in.modules.Family(),
	)
	all = append(all, in.parts.Families()...)
	if in.asSentinel {
		return in.watching.Families(all)
	}
	return all
}
