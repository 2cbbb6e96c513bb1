// Package overview looks over the whole server. It has the figures of INFO and MEMORY, health, and the log of what
// clients do. It shows the server to the live page, and sets the number of threads.
//
// Owner: the turn, unless a method says otherwise.
// Never: changes data, or knows a command.
// Start at figures.go.
package overview
