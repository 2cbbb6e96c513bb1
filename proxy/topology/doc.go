// Package topology knows which shard serves each slot, and where its servers are.
//
// A Finder keeps a Map true: from a cluster's own answers and redirections, from Sentinels, or from a table that is
// handed in. Deciding is separate from asking: chart.go and masters.go get answers and return Maps. The goroutines of
// cluster.go, sentinel.go and lag.go only ask.
//
// Owner: a Finder has its own goroutines. Any goroutine may call it. A Map does not change, but for its replicas' lag.
// Never: sends a command that changes anything, or gives up a good Map for an answer that it does not understand.
//
// topology.M1. A slot has at most one shard, and a shard has one primary.
// topology.M2. A shard keeps its ID when its primary changes.
// topology.M3. Versions rise by one with each Map of a Finder.
//
// Start at map.go.
package topology
