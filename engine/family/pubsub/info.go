package pubsub

import "spindle/internal/info"

// Section returns pub/sub's part of INFO stats.
func (h *Hub) Section() info.Section {
	count := func(k Kind) func() int64 { return func() int64 { return int64(h.Len(k)) } }
	return info.Section{Name: "Stats", Fields: []info.Field{
		info.Int("pubsub_channels", count(Channel)),
		info.Int("pubsub_patterns", count(Pattern)),
		info.Int("pubsubshard_channels", count(Shard)),
	}}
}
