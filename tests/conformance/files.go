package main

// suiteFiles are the files of the suite that mostly concern what exists here, in the order they are run.
//
// A family that arrives brings its files: add them here, run -reference -file for them, and commit reference.txt.
var suiteFiles = []string{
	"unit/printver",
	"unit/quit",
	"unit/auth",
	"unit/acl",
	"unit/acl-v2",
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
	"unit/scripting",
	"unit/functions",
	"unit/type/string",
	"unit/type/incr",
	"unit/type/list",
	"unit/type/list-2",
	"unit/type/list-3",
	"unit/type/set",
	"unit/type/zset",
	"unit/type/hash",
	"unit/type/stream",
	"unit/type/stream-cgroups",
	"unit/sort",
	"unit/bitops",
	"unit/bitfield",
	"unit/geo",
	"unit/hyperloglog",
	"unit/info",
	"unit/info-command",
	"unit/introspection",
	"unit/introspection-2",
	"unit/other",
	"unit/latency-monitor",
	"unit/slowlog",
	"unit/pause",
	"unit/pubsub",
	"unit/pubsubshard",
	"unit/tracking",
	"unit/shutdown",
	"integration/rdb",
	"integration/corrupt-dump",
	"integration/corrupt-dump-fuzzer",
	"integration/convert-zipmap-hash-on-load",
	"integration/convert-ziplist-hash-on-load",
	"integration/convert-ziplist-zset-on-load",
}

// newerFiles are the files of 7.4.1's suite that are run: the older ones, and those that came with it or were of no use
// before. unit/memefficiency is left out: it is about jemalloc's figures and its defragmentation.
var newerFiles = append(suiteFiles[:len(suiteFiles):len(suiteFiles)],
	"unit/type/hash-field-expire",
	"unit/replybufsize",
	"unit/lazyfree",
	"unit/oom-score-adj",
	"unit/violations",
	"integration/logging",
	"integration/redis-cli",
	"integration/redis-benchmark",
	"integration/dismiss-mem",
)

// newerLater are the files of 7.4.1's suite that are about a feature to come as a whole. A feature that lands moves its
// files up.
var newerLater = []laterFiles{
	{"the append-only file", []string{"unit/aofrw", "integration/aof", "integration/aof-multi-part", "integration/aof-race"}},
	{"being a replica", []string{
		"unit/wait", "integration/block-repl", "integration/failover", "integration/psync2", "integration/psync2-master-restart",
		"integration/psync2-pingoff", "integration/psync2-reg", "integration/replication", "integration/replication-2", "integration/replication-3",
		"integration/replication-4", "integration/replication-buffer", "integration/replication-psync", "integration/shutdown",
	}},
	{"cluster mode", []string{"unit/cluster/*", "tests/cluster"}},
	{"sentinel mode", []string{"tests/sentinel"}},
	{"modules", []string{"unit/moduleapi/*"}},
}
