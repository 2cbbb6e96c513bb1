// Package aof is the append-only file. It logs every change of the data set, and a start reads the changes back.
//
// Owner: the core calls a [Log] inside its turns. One goroutine, the writer, makes the calls that may wait for a disk.
// A rewrite has its own goroutine, which reads a view (a snapshot of the data set).
// Never: makes a turn wait for a disk (R5), keeps much more in memory than aof-buffer-limit, or calls bytes durable
// that no disk has confirmed.
// Start at log.go, the turn's side. writer.go is the disk's side, with shared.go between the two. switch.go turns the
// log on and off. rewrite.go and increment.go make a new base. start.go and load.go begin a log, manifest.go lists its
// files.
//
//	units ──▶ buffer ──▶ writer ──▶ appendonly.aof.<n>.incr.aof ──▶ sync ──▶ durable turn
//	view  ──▶ rewrite ────────────▶ appendonly.aof.<n>.base.rdb
//
// See DESIGN.md for the files, their order on disk, and the handling of a disk that fails.
package aof
