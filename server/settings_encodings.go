package server

import (
	"spindle/bgsave/codec"
	"spindle/engine/family/hash"
	"spindle/engine/family/hll"
	"spindle/engine/family/stream"
	"spindle/internal/setting"
)

// encodingSettings say how long hashes, streams and HyperLogLogs stay in their compact form.
type encodingSettings struct {
	sketches hll.Settings
	hashes   hash.Settings
	streams  stream.Settings
}

func (s *encodingSettings) rows() []setting.Row {
	return []setting.Row{
		s.hashes.Rows()[0],
		s.hashes.Rows()[1],
		s.sketches.Rows()[0],
		s.streams.Rows()[0],
		s.streams.Rows()[1],
	}
}

// limits are the settings of all types as values that are loaded or restored go by them.
func (in *instance) limits() codec.Limits {
	s, sets, zsets, lists := &in.settings.Encodings, in.common.Sets.Limits(), in.common.ZSets.Limits(), in.common.Lists.Limits()
	n := func(v *setting.Int) int { return int(v.Get()) }
	return codec.Limits{
		HashEntries: n(&s.hashes.Entries), HashValue: n(&s.hashes.Value),
		SetIntset: sets.IntSet, SetEntries: sets.Entries, SetValue: sets.Value,
		ZSetEntries: zsets.Entries, ZSetValue: zsets.Value,
		ListSize: lists.Fill, ListDepth: lists.Depth,
		StreamBytes: n(&s.streams.NodeBytes), StreamEntries: n(&s.streams.NodeEntries),
	}
}
