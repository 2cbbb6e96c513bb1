// Package cluster puts nodes of spindle into clusters, alone and among redis-servers: it makes the clusters with
// redis-cli, kills primaries, hands nodes.conf from one kind to the other, and talks nonsense on the bus.
//
// Owner: each test, of the servers it starts. Real processes throughout; nothing here looks inside them.
// Start at cluster_test.go.
package cluster
