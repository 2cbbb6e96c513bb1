// Package sentinel tests Sentinels as processes: their start, their replies, and failovers by spindle's and Redis's
// Sentinels together.
//
// Owner: go test. It starts servers and Sentinels of both kinds and kills them.
// Start at failover_test.go. start_test.go is about the configuration; group_test.go starts the processes.
package sentinel
