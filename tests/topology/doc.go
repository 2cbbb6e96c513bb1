// Package topology tests spindle together with other servers: redis-server as its replica, files that redis-server
// reads, and raw connections to the replication stream. It checks whether all of them have equal data.
//
// Owner: each test owns the servers that it starts. They are real processes; nothing here looks inside them.
// Start at replica_test.go. sync_test.go speaks the protocol itself. view_test.go checks that a file or stream has the
// data of one instant. writers_test.go and types_test.go make the load. reference_test.go reads files with
// redis-server. chain_test.go breaks links, which run through the cables of cable_test.go. rolegroup_test.go changes
// roles.
package topology
