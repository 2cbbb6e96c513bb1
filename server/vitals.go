package server

import (
	"spindle/admin"
	"spindle/dataset"
	"spindle/engine"
)

// vitals are what /healthz tells.
type vitals struct {
	health   admin.Health
	core     *engine.Core
	set      *dataset.Set
	sentinel bool
	ill      func() string
}

// tell tells /healthz how the server does. It runs in a turn.
func (v *vitals) tell() {
	s := admin.State{Role: "primary", Loading: v.core.Loading(), Busy: v.core.Lent()}
	if v.set.Follower.Following() {
		s.Role, s.HeardMs, s.LinkUp = "replica", v.set.Follower.HeardMs(), v.set.Follower.Up()
	}
	if v.sentinel {
		s.Role = "sentinel"
	}
	if s.Reason = v.ill(); s.Loading {
		s.Reason = "loading"
	}
	v.health.Tell(s)
}
