// Package insight records always-on figures of a running server: hot keys, and stalls, which are turns that took long.
//
// Owner: the core; everything here is for the holder of the turn.
// Never: grows with the data set, runs a command, or decides what is measured (the core does). Start at hotkeys.go;
// stalls.go is the log of stalls.
package insight
