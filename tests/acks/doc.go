// Package acks tests replies that wait for replicas, with real processes: spindle as the primary, and spindle or
// redis-server as replicas. A replica that is stopped by a signal acknowledges nothing.
//
// Owner: each test owns the servers that it starts.
// Start at held_test.go. loss_test.go kills primaries and looks for confirmed writes that are lost.
package acks
