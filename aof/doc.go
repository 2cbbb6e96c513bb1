// Package aof is the append-only file: every change of the data set goes into it, and a start reads them back.
//
// Owner: the core calls a [Log] inside its turns; one goroutine, the writer, does what a disk may keep waiting for. A
// rewrite has a goroutine of its own, which reads a view.
// Never: makes a turn wait for a disk (R5), keeps more in memory than aof-buffer-limit by much, or calls durable what
// no disk has confirmed.
// Start at log.go, the turn's side; writer.go is the disk's side, rewrite.go makes a new base, start.go begins a log,
// load.go reads, manifest.go says which files there are, commands.go is BGREWRITEAOF.
//
//	units ──▶ buffer ──▶ writer ──▶ appendonly.aof.<n>.incr.aof ──▶ sync ──▶ durable turn
//	view  ──▶ rewrite ────────────▶ appendonly.aof.<n>.base.rdb
//
// See DESIGN.md for the files, their order on disk, and what becomes of a disk that fails.
package aof
