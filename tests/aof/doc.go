// Package aof holds black-box tests of the append-only file: real processes, killed, started anew, and exchanged with
// redis-server.
//
// Owner: go test. It starts its own processes, in folders of their own.
package aof
