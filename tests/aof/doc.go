// Package aof holds black-box tests of the append-only file: real processes that are killed, restarted, and given
// redis-server's files.
//
// Owner: go test. It starts its processes in new folders.
package aof
