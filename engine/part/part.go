// Package part is what a feature gives to the server: the functions that the core calls for it.
//
// Owner: the turn.
// Start at Listeners.
package part
