// Package process runs spindle the way operators and their tools do: redis-cli, redis-benchmark, a distribution's
// redis.conf, daemons, signals, sockets, passwords, every event loop, and the admin address.
//
// Owner: each test, of the servers it starts. Real processes throughout; nothing here looks inside them.
// Start at tools_test.go; start_test.go and shutdown_test.go begin and end, network_test.go connects, blocking_test.go
// waits, admin_test.go observes.
package process
