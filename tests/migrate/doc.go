// Package migrate moves keys between spindle servers, and between spindle and redis-server in both directions.
//
// Owner: go test. Each test starts the servers it needs.
// Start at migrate_test.go.
package migrate
