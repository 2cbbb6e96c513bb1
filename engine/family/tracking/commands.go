// Package tracking is client-side caching: who may have cached which keys, and who hears that they have changed.
//
// Owner: the core; everything here runs in a turn.
// Never: touches a socket, or sends a client without RESP3 what it cannot tell from a reply.
// Start at tracker.go; broadcast.go is CLIENT TRACKING BCAST, client.go what clients ask for.
package tracking

import "spindle/engine/command"

// Rows are the subcommands of CLIENT about tracking, for conn.Family.
func (t *Tracker) Rows() []command.Spec {
	const flags = command.Loading | command.Stale | command.NoScript | command.Sentinel
	return []command.Spec{
		{Name: "caching", Arity: 3, Flags: flags, Run: t.caching},
		{Name: "getredir", Arity: 2, Flags: flags, Run: t.getRedir},
		{Name: "tracking", Arity: -3, Flags: flags, Run: t.tracking},
		{Name: "trackinginfo", Arity: 2, Flags: flags, Run: t.trackingInfo},
	}
}
