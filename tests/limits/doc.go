// Package limits strains a server from outside: very many connections, misbehaving peers, the largest values, and very
// much memory to free at once. Other clients must not be affected, and all resources must be freed.
//
// Owner: each test owns the servers that it starts. They are real processes; nothing here looks inside them.
// Start at connections_test.go. peers_test.go has misbehaving peers, size_test.go large values, release_test.go frees
// memory.
package limits
