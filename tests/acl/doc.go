// Package acl compares engine/acl and the ACL command with redis-server: both get the same rules, files and calls, and
// must give the same replies.
//
// It runs the program that REDIS_SERVER names, otherwise redis-server from the PATH. Versions before 7.2 show rules
// with other words. Before 7.4 some commands are in other categories. Rows that differ are left out by version.
//
// Owner: each test owns the server that it starts.
// Start at differential_test.go; generate_test.go makes rules and calls.
package acl
