// Package longreads tests from outside that commands of many elements are read beside the turns. They answer as of
// their moment, keep no other client waiting, end with their client, and leave nothing.
//
// Owner: each test owns the servers that it starts. They are real processes; nothing here looks inside them. Start at
// calls_test.go, which has the commands and their data.
package longreads
