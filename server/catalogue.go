package server

import (
	"spindle/engine/command"
	"spindle/engine/family/bitmap"
	"spindle/engine/family/bloom"
	"spindle/engine/family/config"
	"spindle/engine/family/conn"
	"spindle/engine/family/geo"
	"spindle/engine/family/hash"
	"spindle/engine/family/hll"
	"spindle/engine/family/introspect"
	"spindle/engine/family/keys"
	"spindle/engine/family/list"
	"spindle/engine/family/observe"
	"spindle/engine/family/set"
	"spindle/engine/family/str"
	"spindle/engine/family/stream"
	"spindle/engine/family/zset"
)

// families is the command set of a server: its table of contents, in the order of COMMAND.
func (in *instance) families() []command.Family {
	all := []command.Family{
		str.Family, bitmap.Family, keys.Family, keys.Sorting, keys.Databases, conn.Family(in.connDeps()),
		observe.Family(in.observeDeps()), introspect.Family(in.introspectDeps()), in.watches.Family(), config.Family(in.configParts()), in.shutdown.Family(),
		in.feed.Family(), in.feed.WaitFamily(),
	}
	all = append(all, hll.Family(&in.settings.Encodings.sketches))
	all = append(all, hash.Family(&in.settings.Encodings.hashes))
	all = append(all, set.Family())
	all = append(all, list.Family)
	all = append(all, stream.Family(&in.settings.Encodings.streams))
	all = append(all, zset.Family())
	all = append(all, geo.Family())
	all = append(all, bloom.Family)
	return append(all, in.saver.Families()...)
}
