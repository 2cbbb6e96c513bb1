package introspect

import (
	"runtime/metrics"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
)

// A Purpose is a use of the process's memory, with its size.
type Purpose struct {
	Name  string
	Bytes int64
}

// purposeNames are the names of all purposes, in order.
//
//	off the Go heap: keys … other-data are live blocks, fragmentation is the room between them, empty-pages wait for use,
//	                 allocator is its own records
//	Go:              go-heap is live objects, go-free is kept for new ones, go-stacks, go-runtime
//	program          its own pages, from its file
//	unaccounted      what is left of the resident set; below 0 if parts are not resident
var purposeNames = []string{"keys", "values", "index", "clients", "replication", "other-data",
	"fragmentation", "empty-pages",
	"allocator", "go-heap", "go-free", "go-stacks", "go-runtime", "program", "unaccounted"}

// goClasses are the runtime's memory classes for each purpose. Two are left out, other metadata and the profiler's
// table. They are mostly address space that is never touched.
var goClasses = map[string][]string{
	"go-heap":   {"/memory/classes/heap/objects:bytes"},
	"go-free":   {"/memory/classes/heap/unused:bytes", "/memory/classes/heap/free:bytes"},
	"go-stacks": {"/memory/classes/heap/stacks:bytes", "/memory/classes/os-stacks:bytes"},
	"go-runtime": {"/memory/classes/metadata/mcache/inuse:bytes", "/memory/classes/metadata/mcache/free:bytes",
		"/memory/classes/metadata/mspan/inuse:bytes", "/memory/classes/metadata/mspan/free:bytes",
		"/memory/classes/other:bytes"},
}

// Purposes divides the process's resident memory by purpose. The sum is the resident set. Turn only.
func Purposes(space *keyspace.Keyspace) (list []Purpose) {
	var heap memory.Stats
	space.Heap().Stats(&heap)
	resident, program := memory.ResidentParts()
	bytes := map[string]int64{
		"keys": heap.ByPurpose[memory.Keys], "values": heap.ByPurpose[memory.Values], "index": heap.ByPurpose[memory.Index],
		"clients": heap.ByPurpose[memory.Clients], "replication": heap.ByPurpose[memory.Replication],
		"other-data":    heap.ByPurpose[memory.Scripts] + heap.ByPurpose[memory.Retired] + heap.ByPurpose[memory.Other],
		"fragmentation": heap.Active - heap.Used, "empty-pages": heap.Dirty, "allocator": heap.Side, "program": program,
	}
	var samples []metrics.Sample
	var owners []string
	for purpose, classes := range goClasses {
		for _, class := range classes {
			samples, owners = append(samples, metrics.Sample{Name: class}), append(owners, purpose)
		}
	}
	metrics.Read(samples) // counters; it does not stop the world
	for i := range samples {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			bytes[owners[i]] += int64(samples[i].Value.Uint64())
		}
	}
	left := resident
	for _, name := range purposeNames[:len(purposeNames)-1] {
		list = append(list, Purpose{name, bytes[name]})
		left -= bytes[name]
	}
	return append(list, Purpose{"unaccounted", left})
}
