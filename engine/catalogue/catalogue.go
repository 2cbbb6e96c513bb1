// Package catalogue is the one list of the command families: what the server serves, and what tests go through row by
// row.
//
// Owner: nobody; the lists are made anew by each call, and the settings belong to who made them.
// Never: runs a command, or knows how families are joined to the rest of the server.
package catalogue

import (
	"slices"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/family/acl"
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
	"spindle/engine/family/modules"
	"spindle/engine/family/observe"
	"spindle/engine/family/pubsub"
	"spindle/engine/family/set"
	"spindle/engine/family/sight"
	"spindle/engine/family/str"
	"spindle/engine/family/stream"
	"spindle/engine/family/tracking"
	"spindle/engine/family/tx"
	"spindle/engine/family/zset"
	"spindle/internal/setting"
)

// Settings are those of the families on data. Those that values themselves read are in command.Settings.
type Settings struct {
	Sketches hll.Settings
	Hashes   hash.Settings
	Streams  stream.Settings
	Filters  bloom.Defaults
}

// Rows are their rows; calling it gives every value its default.
func (s *Settings) Rows() []setting.Row {
	return slices.Concat(s.Sketches.Rows(), s.Hashes.Rows(), s.Streams.Rows())
}

// Data is every family that needs nothing but data and its settings, in the order of COMMAND.
func Data(s *Settings) []command.Family {
	return []command.Family{
		str.Family, bitmap.Family, keys.Family, keys.Sorting, keys.Databases, hll.Family(&s.Sketches),
		hash.Family(&s.Hashes), set.Family(),
		list.Family, stream.Family(&s.Streams), zset.Family(), geo.Family(), bloom.Family(&s.Filters),
	}
}

// Rows is Data and the families that act on the server, joined to nothing: for those who read rows and call no handler
// but Data's.
// Proof: the tests of transcripts and of the catalogue read every row here.
func Rows() []command.Family {
	s := &Settings{}
	s.Rows()
	return append(Data(s), tx.NewWatches((*keyspace.Keyspace)(nil)).Family(), pubsub.NewHub(nil).Family(),
		conn.Family(conn.Deps{}, (*tracking.Tracker)(nil).Rows()...), observe.Family(observe.Deps{}),
		introspect.Family(introspect.Deps{}),
		config.Family(config.Parts{}), acl.Family(acl.Deps{}), modules.New(nil, nil).Family(), sight.Family(sight.Deps{}))
}
