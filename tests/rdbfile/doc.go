// Package rdbfile transfers data sets of every type from redis-server to spindle and back as RDB files. Every key must
// keep its digest, encoding and deadline.
//
// Owner: the tests; each runs its own processes.
// Never: knows the format. One server writes a file and the other reads it.
// Start at roundtrip_test.go; data_test.go has the data.
//
// The other servers are redis-server from the PATH, and those that REDIS_SRC, REDIS_8 and VALKEY_9 name.
package rdbfile
