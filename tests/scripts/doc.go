// Package scripts holds scripts and functions to redis-server's: the same requests to both, the same bytes from both.
//
// The reference is the program that REDIS_SERVER names, else redis-server from the PATH.
// Owner: each test, of the servers it starts.
// Where that is older than 7.4, TestRecorded still holds spindle to what 7.4.1 has answered to a fixed list.
// Start at differential_test.go; generate_test.go makes the scripts.
package scripts
