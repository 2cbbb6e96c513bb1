// Package rdbfile carries data sets of every type from redis-server to spindle and back as RDB files, and holds every
// key's digest, encoding and deadline to what they were.
//
// Owner: the tests; each runs processes of its own.
// Never: knows the format; a file is what one server wrote and the other reads.
// Start at roundtrip_test.go; data_test.go has the data.
//
// The references are redis-server of PATH and, if it is set, SPINDLE_REFERENCE.
package rdbfile
