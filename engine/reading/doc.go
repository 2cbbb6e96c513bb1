// Package reading reads long values outside the turns, for commands whose reply grows with the data.
//
// Owner: the turn calls Queue's methods. Each Job has a goroutine, which reads values of a View, and writes into the
// Job's reply.
// Never: changes data, waits inside a turn, or knows a command.
// Start at queue.go. view.go shares views, job.go is the goroutine. DESIGN.md has the picture.
package reading
