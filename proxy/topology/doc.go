// Package topology knows which shard serves each slot, and the addresses of its servers.
//
// A Finder keeps a Map up to date: from a cluster's own replies and redirections, from Sentinels, or from a table that
// is handed in. Decisions are separate from I/O: chart.go and masters.go get replies and return Maps. The goroutines of
// cluster.go, sentinel.go and lag.go only query servers.
//
// Owner: a Finder has its own goroutines. Any goroutine may call it. A Map does not change, except for its replicas'
// lag.
// Never: sends a command that changes anything, or replaces a good Map because of a reply that it does not understand.
//
// topology.M1. A slot has at most one shard, and a shard has one primary.
// topology.M2. A shard keeps its ID when its primary changes.
// topology.M3. Versions rise by one with each Map of a Finder.
//
// Start at map.go.
package topology
