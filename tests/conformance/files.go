package main

// suiteFiles are the files of the suite that mostly concern what exists here, in the order they are run.
//
// A family that arrives brings its files: add them here, run -reference -file for them, and commit reference.txt.
var suiteFiles = []string{
	"unit/printver",
	"unit/quit",
	"unit/auth",
	"unit/protocol",
	"unit/keyspace",
	"unit/scan",
	"unit/expire",
	"unit/dump",
	"unit/limits",
	"unit/querybuf",
	"unit/obuf-limits",
	"unit/client-eviction",
	"unit/maxmemory",
	"unit/networking",
	"unit/multi",
	"unit/type/string",
	"unit/type/incr",
	"unit/bitops",
	"unit/bitfield",
	"unit/hyperloglog",
	"unit/info",
	"unit/info-command",
	"unit/introspection",
	"unit/introspection-2",
	"unit/other",
	"unit/latency-monitor",
	"unit/slowlog",
	"unit/pause",
	"unit/shutdown",
}
