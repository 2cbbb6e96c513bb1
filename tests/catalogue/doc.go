// Package catalogue compares the rows of the command table with the reference: COMMAND of Redis 7.4.1, recorded in
// testdata.
//
// Owner: tests; nothing imports it. Start at golden_test.go.
package catalogue
