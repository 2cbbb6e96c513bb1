// Package cluster tests clusters of spindle nodes, alone and mixed with redis-server. It makes the clusters with
// redis-cli, kills primaries, exchanges nodes.conf between both kinds, and sends nonsense to the bus.
//
// Owner: each test owns the servers that it starts. They are real processes; nothing here looks inside them.
// Start at cluster_test.go.
package cluster
