package server

import "spindle/internal/setting"

// allocatorSettings are about jemalloc and the moving of what it scattered; the memory of spindle has neither.
type allocatorSettings struct {
	background, defrag                                       setting.Bool
	ignoreBytes, cycleMin, cycleMax, lower, upper, maxFields setting.Int
}

func (s *allocatorSettings) rows() []setting.Row {
	none := setting.Nothing("this allocator gives pages back by itself")
	return []setting.Row{
		setting.NewBool("jemalloc-bg-thread", &s.background, true, none),
		setting.NewBool("activedefrag", &s.defrag, false, none),
		setting.NewMemory("active-defrag-ignore-bytes", &s.ignoreBytes, 100<<20, setting.Between(1, maxLong), none),
		setting.NewInt("active-defrag-cycle-min", &s.cycleMin, 1, setting.Between(1, 99), none),
		setting.NewInt("active-defrag-cycle-max", &s.cycleMax, 25, setting.Between(1, 99), none),
		setting.NewInt("active-defrag-threshold-lower", &s.lower, 10, setting.Between(0, 1000), none),
		setting.NewInt("active-defrag-threshold-upper", &s.upper, 100, setting.Between(0, 1000), none),
		setting.NewInt("active-defrag-max-scan-fields", &s.maxFields, 1000, setting.Between(1, maxLong), none),
	}
}
