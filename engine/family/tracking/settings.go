package tracking

import (
	"math"

	"spindle/internal/info"
	"spindle/internal/setting"
)

type Settings struct {
	MaxKeys setting.Int // tracking-table-max-keys; 0 means no limit
}

func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("tracking-table-max-keys", &s.MaxKeys, 1_000_000, setting.Between(0, math.MaxInt64)),
	}
}

func (t *Tracker) Sections() []info.Section {
	return []info.Section{
		{Name: "Clients", Fields: []info.Field{
			info.Int("tracking_clients", func() int64 { return int64(len(t.clients)) }),
		}},
		{Name: "Stats", Fields: []info.Field{
			info.Int("tracking_total_keys", func() int64 { return int64(t.table.Len()) }),
			info.Int("tracking_total_items", func() int64 { return int64(t.table.Items()) }),
			info.Int("tracking_total_prefixes", func() int64 { return int64(len(t.prefixes)) }),
		}},
	}
}
