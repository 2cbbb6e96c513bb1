package proxy

import (
	"spindle/proxy/topology"
)

// A finder knows the shards, and learns of changes.
type finder interface {
	Current() *topology.Map
	// OnChange calls f with the current map and with each later one. f must be short, and must not call the finder.
	OnChange(f func(*topology.Map))
	// BeforeChange calls f with the current map, and with each later one before it is the current one.
	BeforeChange(f func(*topology.Map))
	// Moved tells that a server has named another owner of a slot.
	Moved(slot int, at string)
	// Doubt tells that a server has answered CLUSTERDOWN. The shards are looked up soon, at other servers.
	Doubt(at string)
	// Refresh has the shards looked up soon.
	Refresh()
	Close()
}

// watched is a finder by Sentinels. Plain servers redirect nothing.
type watched struct{ *topology.SentinelFinder }

func (watched) Moved(int, string) {}
func (watched) Doubt(string)      {}

// handed is a finder whose maps come from the store.
type handed struct{ *topology.Static }

func (handed) Moved(int, string) {}
func (handed) Doubt(string)      {}
func (handed) Refresh()          {}
