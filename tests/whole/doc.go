// Package whole holds R6 against real servers: a unit is whole for every observer.
//
// A unit is a script, a transaction or a long command that gives the turn back before its end. An observer is whatever
// freezes, copies, ends or hands over what the unit writes: a save, a full copy, a failover, a shutdown. The matrix
// crosses every unit with every observer at a random moment, and looks at all copies and files afterwards.
//
// Owner: each stage, of the servers it starts. Real processes throughout; nothing here looks inside them.
// Start at matrix_test.go, which draws the cells. rows_test.go has the units, columns_test.go and its neighbours have
// the observers, a stage of servers each. found_test.go has the bugs from which all this came.
package whole
