// Package insight keeps what operators see of a running server without having asked for it before: hot keys, and what
// held up turns.
//
// Owner: the core; everything here is for the holder of the turn.
// Never: grows with the data set, runs a command, or decides what is measured (the core does).
// Start at hotkeys.go; stalls.go is the log of turns that took long.
package insight
