package introspect

import (
	"fmt"
	"runtime/metrics"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/internal/info"
	"spindle/internal/number"
	"spindle/protocol"
)

// MemoryFigures are the values of INFO memory and MEMORY STATS, in bytes. The heap provides its own values.
type MemoryFigures struct {
	Used           int64 // used_memory: the heap, buffers and all else that is counted
	Peak           int64 // of Used
	PeakAtMs       int64 // Unix ms of Peak
	Startup        int64 // Used after the start of the empty server
	Process        int64 // resident memory at that time: Go's runtime and heap, without the program's pages
	Clients        int64 // buffers and queues of clients that are not replicas
	Replicas       int64
	Backlog        int64 // repl-backlog-size
	Stream         int64 // all that the stream keeps
	Links          int64 // of the cluster bus
	Scripts        int64 // the stored scripts
	Log            int64 // bytes not yet written to the append-only file
	Libraries      int64 // the stored function libraries
	NotForEviction int64 // part of Used that eviction cannot shrink: replicas' buffers, blocks of views or being freed
	Limit          int64 // maxmemory
	Policy         string
	LazyPending    int64
	LazyFreed      int64
	Mail           int64 // messages between loops that are not yet delivered
}

// MemorySection returns INFO memory. read is called once per report.
func MemorySection(space *keyspace.Keyspace, read func() MemoryFigures) info.Section {
	m := &measured{space: space, read: read}
	number := func(name string, at *int64) info.Field { return info.Int(name, func() int64 { return *at }) }
	size := func(name string, at *int64) info.Field { return info.Bytes(name, func() int64 { return *at }) }
	percent := func(name string, f func() float64) info.Field {
		return info.Field{Name: name, Value: func(b []byte) []byte {
			return append(strconv.AppendFloat(b, f()*100, 'f', 2, 64), '%')
		}}
	}
	ratio := func(name string, a, b *int64) info.Field {
		return info.Float(name, 2, func() float64 { return over(*a, *b) })
	}
	difference := func(name string, a, b *int64) info.Field { return info.Int(name, func() int64 { return *a - *b }) }
	return info.Section{Name: "Memory", Fields: []info.Field{
		info.Lines("used_memory", func(w *info.Writer) { // first in the layout: the fields below use its figures
			m.measure()
			w.Int("used_memory", m.Used)
			w.Human("used_memory_human", m.Used)
		}),
		size("used_memory_rss", &m.resident), size("used_memory_peak", &m.Peak),
		info.Int("used_memory_peak_time", func() int64 { return m.PeakAtMs / 1000 }),
		percent("used_memory_peak_perc", func() float64 { return over(m.Used, m.Peak) }),
		number("used_memory_overhead", &m.overhead), number("used_memory_startup", &m.Startup),
		number("used_memory_dataset", &m.dataset),
		percent("used_memory_dataset_perc", func() float64 { return over(m.dataset, m.Used-m.Startup) }),
		number("allocator_allocated", &m.heap.Used), number("allocator_active", &m.heap.Active),
		number("allocator_resident", &m.heapResident), number("allocator_muzzy", &m.heap.Dirty),
		size("total_system_memory", &m.system), size("maxmemory", &m.Limit),
		info.Text("maxmemory_policy", func() string { return m.Policy }),
		ratio("allocator_frag_ratio", &m.heap.Active, &m.heap.Used),
		difference("allocator_frag_bytes", &m.heap.Active, &m.heap.Used),
		ratio("allocator_rss_ratio", &m.heapResident, &m.heap.Active),
		difference("allocator_rss_bytes", &m.heapResident, &m.heap.Active),
		ratio("rss_overhead_ratio", &m.resident, &m.heapResident),
		difference("rss_overhead_bytes", &m.resident, &m.heapResident),
		ratio("mem_fragmentation_ratio", &m.forData, &m.Used), difference("mem_fragmentation_bytes", &m.forData, &m.Used),
		number("mem_not_counted_for_evict", &m.NotForEviction), number("mem_replication_backlog", &m.Backlog),
		info.Int("mem_total_replication_buffers", func() int64 { return m.Stream }),
		number("mem_clients_slaves", &m.Replicas), number("mem_clients_normal", &m.Clients),
		number("lazyfree_pending_objects", &m.LazyPending), number("lazyfreed_objects", &m.LazyFreed),
		// Our own fields follow those of Redis.
		number("memory_keys", &m.heap.ByPurpose[memory.Keys]), number("memory_values", &m.heap.ByPurpose[memory.Values]),
		number("memory_index", &m.heap.ByPurpose[memory.Index]), number("memory_kept_by_views", &m.heap.Retired),
		number("memory_mail", &m.Mail), number("go_heap", &m.goHeap),
		info.Lines("memory_purpose", func(w *info.Writer) {
			for _, p := range Purposes(space) {
				w.Int("memory_purpose_"+strings.ReplaceAll(p.Name, "-", "_"), p.Bytes)
			}
		}),
	}}
}

// measured is one reading of all values in INFO memory and MEMORY STATS.
type measured struct {
	space *keyspace.Keyspace
	read  func() MemoryFigures
	MemoryFigures
	heap                   memory.Stats
	heapResident, resident int64
	forData                int64 // resident without the fixed part of the process
	overhead, dataset      int64
	system, goHeap         int64
}

func (m *measured) measure() {
	m.MemoryFigures = MemoryFigures{}
	if m.read != nil {
		m.MemoryFigures = m.read()
	}
	m.space.Heap().Stats(&m.heap)
	if m.Used == 0 {
		m.Used = m.heap.Used
	}
	m.Peak = max(m.Peak, m.heap.Peak, m.Used)
	m.heapResident = m.heap.Active + m.heap.Dirty + m.heap.Side
	var program int64
	m.resident, program = memory.ResidentParts()
	m.forData = residentForData(m.resident-program, m.Process, m.heapResident)
	// The index of an empty server is already part of Startup.
	m.overhead = max(m.Startup, m.heap.ByPurpose[memory.Index]) + m.Clients + m.Replicas + m.Backlog + m.Scripts +
		m.Libraries + m.Log
	m.dataset = max(m.Used-m.overhead, 0)
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) == nil {
		m.system = int64(s.Totalram) * int64(s.Unit)
	}
	live := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(live); live[0].Value.Kind() == metrics.KindUint64 { // reads counters; it does not stop the world
		m.goHeap = int64(live[0].Value.Uint64())
	}
}

// residentForData returns the resident memory that mem_fragmentation_ratio compares with used_memory. anonymous is the
// resident memory without file pages. process is the empty server's part of it. heap is the expected resident size of
// the data's heap.
//
// The ratio describes the data, so a server with little data must not look fragmented. Go's heap and buffers count only
// as far as they exceed those of the empty server. Swapped pages of the data's heap lower the ratio, as in Redis. A
// smaller Go heap does not.
func residentForData(anonymous, process, heap int64) int64 {
	return max(anonymous-process, min(anonymous, heap))
}

// over returns a/b, or 0 if b is not positive.
func over(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// memoryUsage is MEMORY USAGE key [SAMPLES count]. Replies: the bytes of the key, including its share of the index, or
// null for a missing key.
func memoryUsage(c *command.Context) error {
	samples := int64(5)
	for i := 3; i < len(c.Args); i += 2 {
		if !command.Is(c.Args[i], "SAMPLES") || i+1 == len(c.Args) {
			return protocol.ErrSyntax
		}
		n, ok := number.ParseInt(c.Args[i+1])
		if !ok {
			return protocol.ErrNotInteger
		}
		if n < 0 {
			return protocol.ErrSyntax
		}
		samples = n
	}
	v := c.DB.Peek(c.Args[2])
	if !v.Exists() {
		c.Reply.Null()
		return nil
	}
	return answerUsage(c, v, int(samples))
}

// answerUsage replies v's size in bytes, estimated from samples elements. 0 means all elements.
func answerUsage(c *command.Context, v value.Value, samples int) error {
	store := c.Space.Store()
	n := store.Weight(v)
	if samples > 0 {
		n = min(n, samples)
	}
	if v.Type() != value.String && c.IsLong(n) {
		return c.ReadBeside(func(r *command.Reading) error {
			r.Reply.Int(int64(store.MemoryUsage(v, samples)))
			return nil
		})
	}
	c.Reply.Int(int64(store.MemoryUsage(v, samples)))
	return nil
}

func (f *family) memoryStats(c *command.Context) error {
	m := &measured{space: c.Space, read: f.Memory}
	m.measure()
	r, mark, n := c.Reply, c.Reply.Mark(), 0
	whole := func(name string, v int64) { r.BulkString(name); r.Int(v); n++ }
	double := func(name string, v float64) { r.BulkString(name); r.Double(v); n++ }
	whole("peak.allocated", m.Peak)
	whole("total.allocated", m.Used)
	whole("startup.allocated", m.Startup)
	whole("replication.backlog", m.Backlog)
	whole("clients.slaves", m.Replicas)
	whole("clients.normal", m.Clients)
	whole("cluster.links", m.Links)
	whole("aof.buffer", m.Log)
	whole("lua.caches", m.Scripts)
	whole("functions.caches", m.Libraries)
	keys := 0
	for i := range c.Space.Len() {
		keys += c.Space.DB(i).Len()
	}
	for i := range c.Space.Len() {
		db := c.Space.DB(i)
		if db.Len() == 0 {
			continue
		}
		// The memory of the index is known only for all databases together.
		share := m.heap.ByPurpose[memory.Index] * int64(db.Len()) / int64(keys)
		r.BulkString("db." + strconv.Itoa(i))
		r.Map(2)
		r.BulkString("overhead.hashtable.main")
		r.Int(share)
		r.BulkString("overhead.hashtable.expires")
		r.Int(0) // deadlines are stored in the keys and the index
		n++
	}
	whole("overhead.db.hashtable.lut", m.heap.ByPurpose[memory.Index])
	whole("overhead.db.hashtable.rehashing", 0)
	whole("overhead.total", m.overhead)
	whole("db.dict.rehashing.count", 0)
	whole("keys.count", int64(keys))
	perKey := int64(0)
	if keys > 0 {
		perKey = max(m.Used-m.Startup, 0) / int64(keys)
	}
	whole("keys.bytes-per-key", perKey)
	whole("dataset.bytes", m.dataset)
	double("dataset.percentage", 100*over(m.dataset, m.Used-m.Startup))
	double("peak.percentage", 100*over(m.Used, m.Peak))
	whole("allocator.allocated", m.heap.Used)
	whole("allocator.active", m.heap.Active)
	whole("allocator.resident", m.heapResident)
	whole("allocator.muzzy", m.heap.Dirty)
	double("allocator-fragmentation.ratio", over(m.heap.Active, m.heap.Used))
	whole("allocator-fragmentation.bytes", m.heap.Active-m.heap.Used)
	double("allocator-rss.ratio", over(m.heapResident, m.heap.Active))
	whole("allocator-rss.bytes", m.heapResident-m.heap.Active)
	double("rss-overhead.ratio", over(m.resident, m.heapResident))
	whole("rss-overhead.bytes", m.resident-m.heapResident)
	double("fragmentation", over(m.forData, m.Used))
	whole("fragmentation.bytes", m.forData-m.Used)
	r.MapAt(mark, n)
	return nil
}

// memoryDoctor is MEMORY DOCTOR. It replies which figures are out of proportion.
func (f *family) memoryDoctor(c *command.Context) error {
	m := &measured{space: c.Space, read: f.Memory}
	m.measure()
	const small = 5 << 20
	size := func(bytes int64) string { return string(info.AppendHuman(nil, bytes)) }
	var found []string
	note := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if m.Used >= small {
		if r := over(m.Peak, m.Used); r > 1.5 {
			note("Peak memory: the peak was %s, %.2f times the %s that are used now. Pages that were freed go back to the "+
				"system; MEMORY PURGE speeds it up.", size(m.Peak), r, size(m.Used))
		}
		if r, n := over(m.heap.Active, m.heap.Used), m.heap.Active-m.heap.Used; r > 1.1 && n > 10<<20 {
			note("High allocator fragmentation: ratio %.2f, %s of room between blocks. Blocks of sizes that are no longer "+
				"asked for hold pages. It falls as keys are rewritten.", r, size(n))
		}
		if r, n := over(m.heapResident, m.heap.Active), m.heapResident-m.heap.Active; r > 1.1 && n > 10<<20 {
			note("Empty pages are still resident: %s, ratio %.2f. MEMORY PURGE gives them back now.", size(n), r)
		}
		if r, n := over(m.resident, m.heapResident), m.resident-m.heapResident; r > 1.1 && n > 64<<20 {
			note("Much memory lies outside the data set: %s of %s, of which the Go heap is %s. Connections' buffers are there "+
				"too. See memory_purpose_ in INFO memory.", size(n), size(m.resident), size(m.goHeap))
		}
		if m.heap.Retired > m.heap.Used/3 {
			note("Views hold %s of old versions: a save or a full synchronisation reads data that has been overwritten "+
				"since. It is given back when it ends.", size(m.heap.Retired))
		}
		if m.Clients > 200<<10*100 && m.Clients > m.Used/10 {
			note("Clients' buffers take %s, more than a tenth of all memory: look for large omem and qbuf in CLIENT LIST.",
				size(m.Clients))
		}
		if m.Replicas > 10<<20 {
			note("Replicas' output buffers take %s: a replica may not keep up.", size(m.Replicas))
		}
	}
	var text string
	switch {
	case m.Used < small:
		text = "This instance is empty or uses very little memory, " + size(m.Used) + ": nothing can be said of it yet.\n"
	case len(found) == 0:
		text = fmt.Sprintf("No memory issue was found: %s used, fragmentation ratio %.2f.\n", size(m.Used),
			over(m.forData, m.Used))
	default:
		text = "These memory issues were found:\n\n * " + strings.Join(found, "\n * ") + "\n"
	}
	c.Reply.Verbatim("txt", text)
	return nil
}

// purge is MEMORY PURGE. It returns empty pages to the system.
func purge(c *command.Context) error {
	c.Space.Heap().Purge()
	c.Reply.OK()
	return nil
}

// mallocStats is MEMORY MALLOC-STATS: the size classes in use.
func mallocStats(c *command.Context) error {
	var s memory.Stats
	c.Space.Heap().Stats(&s)
	var b strings.Builder
	fmt.Fprintf(&b, "used %d, peak %d, active %d, dirty %d, given back %d, reserved %d, kept by %d views %d\n",
		s.Used, s.Peak, s.Active, s.Dirty, s.Clean, s.Reserved, s.Holds, s.Retired)
	for p, n := range s.ByPurpose {
		fmt.Fprintf(&b, "%-12s %d\n", memory.Purpose(p), n)
	}
	fmt.Fprintf(&b, "%8s %12s %10s %12s\n", "size", "blocks", "slabs", "unused")
	for _, class := range s.Classes {
		if class.Slabs > 0 {
			fmt.Fprintf(&b, "%8d %12d %10d %12d\n", class.Size, class.Live, class.Slabs, class.Waste)
		}
	}
	fmt.Fprintf(&b, "%8s %12d %10s %12d\n", "larger", s.Runs, "", s.RunBytes)
	c.Reply.Verbatim("txt", b.String())
	return nil
}

func memoryHelp(c *command.Context) error {
	command.Help(c,
		"DOCTOR",
		"    What is out of proportion.",
		"MALLOC-STATS",
		"    The allocator's size classes.",
		"PURGE",
		"    Give empty pages back to the system.",
		"STATS",
		"    Where memory goes.",
		"USAGE <key> [SAMPLES <count>]",
		"    What <key> and its value cost in bytes. Of a nested value <count>",
		"    elements are looked at (default: 5, 0 for all).",
	)
	return nil
}
