// Package seams crosses the commands that are newer than Redis 7.4 with what a command meets on its way. That is full
// memory, WATCH, clients' caches, slots of a cluster, a save of the old data, replicas, transactions and scripts.
//
// Owner: tests with real servers; nothing imports it. Start at calls_test.go: a new command of a data type is a line
// there.
package seams
