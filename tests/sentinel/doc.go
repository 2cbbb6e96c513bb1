// Package sentinel tests Sentinels as processes: how they start, what they answer, and that ours and Redis's fail over
// together.
//
// Owner: go test; it starts servers and Sentinels of both kinds and kills them.
// Start at failover_test.go; start_test.go is about the configuration, group_test.go starts what they need.
package sentinel
