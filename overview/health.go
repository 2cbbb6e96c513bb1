package overview

import (
	"spindle/admin"
	"spindle/dataset"
	"spindle/engine"
)

// Health is the state that /healthz shows.
type Health struct {
	Core     *engine.Core
	Set      *dataset.Set
	Sentinel bool
	Ill      func() string // why this server should get no traffic, or ""
	Shown    admin.Health
}

// Publish publishes the present state for /healthz.
func (h *Health) Publish() {
	s := admin.State{Role: "primary", Loading: h.Core.Loading(), Busy: h.Core.Lent()}
	if h.Set.Follower.Following() {
		s.Role, s.HeardMs, s.LinkUp = "replica", h.Set.Follower.HeardMs(), h.Set.Follower.Up()
	}
	s.Warning = h.Set.Feed.Warning()
	if h.Sentinel {
		s.Role = "sentinel"
	}
	if s.Reason = h.Ill(); s.Loading {
		s.Reason = "loading"
	}
	h.Shown.Set(s)
}
