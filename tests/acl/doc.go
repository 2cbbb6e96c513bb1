// Package acl holds engine/acl and the ACL command to redis-server's: the same rules, files and calls to both, the same
// answers from both.
//
// The reference is the program that REDIS_SERVER names, else redis-server from the PATH. Versions before 7.2 show rules
// in other words, and before 7.4 some commands stand in other categories: rows that differ are left out by version.
// Owner: each test, of the server it starts.
// Start at differential_test.go; generate_test.go makes rules and calls.
package acl
