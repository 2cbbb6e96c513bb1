// Package catalogue is the one list of the command families, for the server and for tests that go over all rows.
//
// Owner: the caller; each call makes new lists.
// Never: runs a command, or knows how families are connected to the rest of the server.
package catalogue

import (
	"slices"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/diagnose"
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
	"spindle/engine/family/pubsub"
	"spindle/engine/family/set"
	"spindle/engine/family/str"
	"spindle/engine/family/stream"
	"spindle/engine/family/tracking"
	"spindle/engine/family/tx"
	"spindle/engine/family/zset"
	"spindle/internal/setting"
)

// Settings are the settings of the data families. Settings that values read themselves are in command.Settings.
type Settings struct {
	Sketches hll.Settings
	Hashes   hash.Settings
	Streams  stream.Settings
	Filters  bloom.Defaults
}

// Rows returns the settings' rows. Each call resets all settings to their defaults.
func (s *Settings) Rows() []setting.Row {
	return slices.Concat(s.Sketches.Rows(), s.Hashes.Rows(), s.Streams.Rows())
}

// Data returns every family that needs only data and settings, in the order of COMMAND.
func Data(s *Settings) []command.Family {
	return []command.Family{
		str.Family, bitmap.Family, keys.Family, keys.Sorting, keys.Databases, hll.Family(&s.Sketches),
		hash.Family(&s.Hashes), set.Family(),
		list.Family, stream.Family(&s.Streams), zset.Family(), geo.Family(), bloom.Family(&s.Filters),
	}
}

// Rows returns the families of Data, and the server's families without their connections. Only Data's handlers may be
// called.
//
// Proof: only the tests in tests/transcripts and tests/catalogue call it, to read every row.
func Rows() []command.Family {
	s := &Settings{}
	s.Rows()
	return append(Data(s), tx.NewWatches((*keyspace.Keyspace)(nil)).Family(), pubsub.NewHub(nil).Family(),
		conn.Family(conn.Deps{}, (*tracking.Tracker)(nil).Rows()...),
		introspect.Family(introspect.Deps{}, diagnose.ServerRows(diagnose.Deps{})...),
		config.Family(config.Parts{}), acl.Family(acl.Deps{}), modules.New(nil, nil).Family(),
		diagnose.Family(diagnose.Deps{}))
}
