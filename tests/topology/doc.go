// Package topology puts spindle among others: redis-server attached as its replica, files handed to it, raw peers on
// the replication stream; and asks whether all of them hold the same data.
//
// Owner: each test, of the servers it starts. Real processes throughout; nothing here looks inside them.
// Start at replica_test.go; sync_test.go speaks the protocol itself, view_test.go holds files and streams to one
// instant, writers_test.go and types_test.go make the load and reference_test.go reads files with redis-server.
// chain_test.go breaks links, which run through the cables of cable_test.go; crowd_test.go changes roles.
package topology
