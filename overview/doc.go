// Package overview looks at the whole server. It has the figures of INFO and MEMORY, health, and the log of clients'
// actions. It feeds the live page, and sets the number of threads.
//
// Owner: the turn, unless a method says otherwise.
// Never: changes data, or knows a command.
// Start at figures.go.
package overview
