// Package segments keeps a part of the replication stream in files, for replicas that need bytes older than those in
// memory.
//
// Owner: one goroutine appends, in its turns. A [Log] has a writer goroutine. Each [Reader] has one goroutine.
// Never: touches the disk inside a call of the goroutine that appends, or gives a reader bytes that were not appended.
//
// segments.G1. A log is the bytes of one stream from Begin to End, without a gap. The first of them are in files, the
// others wait for the writer.
// segments.G2. After the first error a log returns no more bytes, and its files are removed. It never has bytes after a
// gap.
// segments.G3. Files of an earlier process are valid only with the note of an orderly end, which is used once.
//
// Start at log.go; writer.go and reader.go are its goroutines, folder.go finds what an earlier process has kept.
package segments
