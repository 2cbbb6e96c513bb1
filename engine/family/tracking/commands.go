// Package tracking implements client-side caching. It records which clients may have cached which keys, and notifies
// them of changes.
//
// Owner: the core; everything here runs in a turn.
// Never: touches a socket, or pushes to a RESP2 client, which would take the push for a reply.
// Start at tracker.go; broadcast.go is CLIENT TRACKING BCAST, client.go the subcommands.
package tracking

import "spindle/engine/command"

// Rows returns the subcommands of CLIENT about tracking, for conn.Family.
func (t *Tracker) Rows() []command.Spec {
	const flags = command.Loading | command.Stale | command.NoScript | command.Sentinel
	return []command.Spec{
		{Name: "caching", Arity: 3, Flags: flags, Run: t.caching},
		{Name: "getredir", Arity: 2, Flags: flags, Run: t.getRedir},
		{Name: "tracking", Arity: -3, Flags: flags, Run: t.tracking},
		{Name: "trackinginfo", Arity: 2, Flags: flags, Run: t.trackingInfo},
	}
}
