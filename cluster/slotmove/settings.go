package slotmove

import (
	"math"

	"spindle/internal/setting"
)

// Settings are the parameters of moves.
type Settings struct {
	LogMost setting.Int // cluster-slot-migration-log-max-len
	Lag     setting.Int // slot-migration-max-failover-repl-bytes; -1: no limit
}

// Rows returns their rows, and sets every value to its default.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("cluster-slot-migration-log-max-len", &s.LogMost, 1000, setting.Between(0, math.MaxInt64)),
		setting.NewMemory("slot-migration-max-failover-repl-bytes", &s.Lag, 0, setting.Between(-1, math.MaxInt64)),
	}
}
