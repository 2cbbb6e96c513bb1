// Package longreads tests from outside that commands of many elements are read outside the core's turns. Their replies
// show the data as of the call. They keep no other client waiting, end with their client, and leave nothing.
//
// Owner: each test owns the servers that it starts. They are real processes; nothing here looks inside them.
// Start at calls_test.go, which has the commands and their data.
package longreads
