package server

import "spindle/internal/setting"

// encodingSettings belong to the types that are still to come: how long each stays in its compact form.
type encodingSettings struct {
	hashEntries, hashValue, setIntset, setEntries, setValue, zsetEntries, zsetValue setting.Int
	listSize, listDepth, hll, streamBytes, streamEntries                            setting.Int
}

func (s *encodingSettings) rows() []setting.Row {
	const (
		noHash, noSet, noZset = "hashes are not there yet", "sets are not there yet", "sorted sets are not there yet"
		noList, noStream      = "lists are not there yet", "streams are not there yet"
	)
	count := func(name string, v *setting.Int, deflt int64, why string, more ...setting.Option) setting.Row {
		return setting.NewInt(name, v, deflt, append(more, setting.Between(0, maxLong), setting.Nothing(why))...)
	}
	bytes := func(name string, v *setting.Int, deflt int64, why string, more ...setting.Option) setting.Row {
		return setting.NewMemory(name, v, deflt, append(more, setting.Between(0, maxLong), setting.Nothing(why))...)
	}
	return []setting.Row{
		count("hash-max-listpack-entries", &s.hashEntries, 512, noHash, setting.Also("hash-max-ziplist-entries")),
		bytes("hash-max-listpack-value", &s.hashValue, 64, noHash, setting.Also("hash-max-ziplist-value")),
		count("set-max-intset-entries", &s.setIntset, 512, noSet),
		count("set-max-listpack-entries", &s.setEntries, 128, noSet),
		count("set-max-listpack-value", &s.setValue, 64, noSet),
		count("zset-max-listpack-entries", &s.zsetEntries, 128, noZset, setting.Also("zset-max-ziplist-entries")),
		bytes("zset-max-listpack-value", &s.zsetValue, 64, noZset, setting.Also("zset-max-ziplist-value")),
		setting.NewInt("list-max-listpack-size", &s.listSize, -2, setting.Between(-1<<31, maxInt), setting.Also("list-max-ziplist-size"), setting.Nothing(noList)),
		setting.NewInt("list-compress-depth", &s.listDepth, 0, setting.Between(0, maxInt), setting.Nothing(noList)),
		bytes("hll-sparse-max-bytes", &s.hll, 3000, "HyperLogLogs are not there yet"),
		bytes("stream-node-max-bytes", &s.streamBytes, 4096, noStream),
		count("stream-node-max-entries", &s.streamEntries, 100, noStream),
	}
}
