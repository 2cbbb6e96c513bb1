// Package process runs spindle as operators and their tools do. It covers redis-cli, redis-benchmark, a distribution's
// redis.conf, daemons, signals, sockets, passwords, every event loop, and the admin address.
//
// Owner: each test owns the servers that it starts. They are real processes; nothing here looks inside them.
// Start at tools_test.go. start_test.go and shutdown_test.go test starts and shutdowns, network_test.go connections,
// blocking_test.go blocked clients, admin_test.go the admin address.
package process
