// Package whole tests R6 with real servers: a unit is whole for every observer.
//
// A unit is a script, a transaction or a long command that lends the turn before its end. An observer freezes, copies,
// ends or hands over the unit's writes: a save, a full copy, a failover, a shutdown. The matrix combines every unit
// with every observer at a random moment. Then it checks all copies and files.
//
// Owner: each serverSet owns the servers that it starts. They are real processes; nothing here looks inside them.
// Start at matrix_test.go, which draws the cells. rows_test.go has the units. columns_test.go and similar files have
// the observers, each with its serverSet. found_test.go has the bugs that led to these tests. chaos_test.go has clients
// talk at random (talker_test.go), each of which knows its replies.
package whole
