// Package catalogue compares the rows of the command table with COMMAND of Redis 7.4.1, recorded in testdata.
// newer_test.go compares the server with the list of everything newer than 7.4, tests/conformance/newer.txt.
//
// Owner: tests; nothing imports it.
// Start at golden_test.go.
package catalogue
