package server

import "spindle/internal/setting"

// allocatorSettings are about jemalloc; the memory of spindle has none.
type allocatorSettings struct {
	background setting.Bool
	maxFields  setting.Int
}

func (s *allocatorSettings) rows() []setting.Row {
	return []setting.Row{
		setting.NewBool("jemalloc-bg-thread", &s.background, true,
			setting.Nothing("this allocator gives pages back by itself")),
		setting.NewInt("active-defrag-max-scan-fields", &s.maxFields, 1000, setting.Between(1, maxLong),
			setting.Nothing("collections are moved in steps of some microseconds, whatever they hold")),
	}
}
