package scenarios

import "spindle/bench/report"

// A Scenario makes one section of results.
type Scenario struct {
	Name string // also of its files in bench/results
	What string
	Run  func(*Env) (*report.Section, error)
}

// Catalogue lists the scenarios in the order of BENCHMARKS.md.
var Catalogue = []Scenario{
	{"throughput", "GET SET INCR MSET at pipeline 1, 16, 64: CPU per request, throughput, latency; every backend",
		throughput},
	{"redis-benchmark", "the same driven by redis-benchmark", redisBenchmark},
	{"memtier", "the same driven by memtier_benchmark, if it is on PATH", memtier},
	{"io-threads", "1 and 2 io-threads with all cores free to both sides", ioThreads},
	{"latency", "open loop at fixed rates: p50 to max from the intended time", latency},
	{"rates", "CPU of a request at 100 to 20,000 requests a second, on 1 and 50 connections", rates},
	{"memory", "bytes per key by shape, at two sizes", memory},
	{"gc", "GC's share of CPU, allocations per request, with many keys", garbage},
	{"bgsave", "BGSAVE under full write load: longest turn, memory, wall time, the file's readers", bgsave},
	{"loading", "load time of files that each side wrote", loading},
	{"lazyfree", "UNLINK, overwrite, expiry, FLUSHALL ASYNC of many keys and of 512 MB", lazyfree},
	{"expiry", "a million keys that expire within one second, under 50 clients", expiry},
	{"types", "every test of redis-benchmark -q at pipeline 1, 16, 64: CPU per request, throughput", types},
	{"values", "GET and SET of values of 1 to 256 KB at pipeline 1 and 16", values},
	{"elements", "bytes per element of every type, and of small hashes", elementMemory},
	{"large", "ranks, ranges, indexes, intersections and streams in values of many elements", large},
	{"whole", "stores, trims, sorts, copies: commands whose turn is as long as a value", whole},
	{"longreads", "KEYS, SMEMBERS, ZUNION, SORT … of many elements beside a probe: its longest wait, CPU", longReads},
	{"sort", "SORT of 1,000 to 1,000,000 numbers, with LIMIT and without", sorting},
	{"letgo", "DEL, UNLINK, expiry, overwrite, RENAME onto, FLUSHALL of a value of many elements of every type", letGo},
	{"bgsave-types", "BGSAVE of a value of many elements of every type under writes to it", bgsaveTypes},
	{"scripting", "EVALSHA of seven scripts as they are in use, at pipeline 1 and 16; what calls allocate", scripting},
	{"pubsub", "PUBLISH to 0, 1, 100 and 10,000 subscribers at pipeline 1 and 16; memory of a subscriber", pubsub},
	{"sessions", "GET with client-side caching, under an ACL user, beside a MONITOR", sessions},
	{"insight", "GET and SET with everything on that the server sees of itself, and with it off", insight},
	{"tls", "GET and SET over TLS, driven by redis-benchmark; CPU of a handshake", overTLS},
	{"aof", "SET with the append-only file, on disks as they are and slow ones; loading a file of commands", logs},
	{"replication", "CPU of a command at the replica, full synchronisation of many keys", replicas},
	{"cluster-nodes", "30 nodes of a cluster: convergence, three primaries killed at once, bus, CPU at rest, memory; a " +
		"reshard under writes", clusterNodes},
	{"connections", "10,000 idle and 1,000 busy connections", connections},
}

// Names returns the scenarios' names.
func Names() (names []string) {
	for _, s := range Catalogue {
		names = append(names, s.Name)
	}
	return names
}

// Find returns the scenario with a name, or nil if there is none.
func Find(name string) *Scenario {
	for i := range Catalogue {
		if Catalogue[i].Name == name {
			return &Catalogue[i]
		}
	}
	return nil
}
