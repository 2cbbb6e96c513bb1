// Package migrate moves keys between servers: spindle's own, and redis-server as target and as source.
//
// Owner: go test. Each test starts the servers it needs. Start at migrate_test.go.
package migrate
