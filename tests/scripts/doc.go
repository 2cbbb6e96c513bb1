// Package scripts compares scripts and functions with redis-server: both must give the same bytes for the same
// requests.
//
// It runs the program that REDIS_SERVER names, otherwise redis-server from the PATH. If that is older than 7.4,
// TestRecorded still compares spindle with the recorded replies of 7.4.1 to a fixed list.
//
// Owner: each test owns the servers that it starts.
// Start at differential_test.go; generate_test.go makes the scripts.
package scripts
