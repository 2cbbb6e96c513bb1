// Package limits leans on a server from outside: very many connections, peers that misbehave, values as large as they
// come, and very much to let go of at once; and asks that the others see nothing of it and that everything comes back.
//
// Owner: each test, of the servers it starts. Real processes throughout; nothing here looks inside them.
// Start at connections_test.go; peers_test.go misbehaves, size_test.go is large, release_test.go lets go.
package limits
