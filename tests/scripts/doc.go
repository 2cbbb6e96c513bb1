// Package scripts holds scripts and functions to redis-server's: the same requests to both, the same bytes from both.
//
// The reference is the program that REDIS_SERVER names, else redis-server from the PATH.
// Owner: each test, of the servers it starts.
// Start at differential_test.go; generate_test.go makes the scripts.
package scripts
