// Package route tests how a proxy treats the commands of real servers: spindle, and the releases of Redis and Valkey
// that this host has. It compares the keys that proxy/route finds with COMMAND GETKEYS.
//
// Owner: each test owns the servers that it starts.
// Start at commands_test.go.
package route
