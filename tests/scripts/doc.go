// Package scripts compares scripts and functions with redis-server: the same requests to both must give the same
// bytes.
//
// The reference is the program that REDIS_SERVER names, otherwise redis-server from the PATH. If it is older than
// 7.4, TestRecorded still compares spindle with the recorded replies of 7.4.1 to a fixed list.
//
// Owner: each test owns the servers that it starts. Start at differential_test.go; generate_test.go makes the
// scripts.
package scripts
