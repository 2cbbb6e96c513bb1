package dataset

import (
	"spindle/engine"
	"spindle/replication"
)

// A ClusterRole lets the cluster control this server's role in replication.
type ClusterRole struct{ d *Set }

// ClusterRole returns the cluster's access to replication. handsOver reports whether slots are about to have another
// owner. ends returns the commands that complete a copy of the log as of now. Both are called in turns.
func (d *Set) ClusterRole(handsOver func() bool, ends func() []byte) ClusterRole {
	d.handsOver, d.ends = handsOver, ends
	return ClusterRole{d}
}

// Follow implements cluster.Role.
func (r ClusterRole) Follow(host string, port int, same bool) {
	r.d.Core.AssertWhole("the cluster makes this server a replica")
	r.d.Follower.FollowAt(replication.Address{Host: host, Port: port}, same)
	r.d.Log.Notice("Connecting to MASTER %s:%d", host, port)
}

// Promote implements cluster.Role.
func (r ClusterRole) Promote() { r.d.Follower.Promote() }

// Withhold implements cluster.Role.
func (r ClusterRole) Withhold() { r.d.Feed.Withhold() }

// Lead implements cluster.Role.
func (r ClusterRole) Lead(offset int64) { r.d.Feed.Lead(offset) }

// Empty implements cluster.Role.
func (r ClusterRole) Empty() {
	r.d.Core.AssertWhole("the cluster empties the data set")
	r.d.Whole.EmptyAll(r.d.Space)
}

// Pause implements cluster.Role.
func (r ClusterRole) Pause(untilMs int64) (paused bool) {
	if r.d.handsOver() {
		return false
	}
	r.d.Core.AssertWhole("an offset is announced to the cluster")
	r.d.Core.Pause(engine.PauseFailover, false, untilMs)
	r.d.Feed.HoldStill(true)
	return true
}

// Unpause implements cluster.Role.
func (r ClusterRole) Unpause() {
	r.d.Feed.HoldStill(false)
	r.d.Core.Unpause(engine.PauseFailover)
}
