// Package seams combines the commands that are newer than Redis 7.4 with everything that may affect a command. This is
// full memory, WATCH, clients' caches, slots of a cluster, a save of the old data, replicas, transactions and scripts.
//
// Owner: tests with real servers; nothing imports it.
// Start at calls_test.go: a new command of a data type is a line there.
package seams
