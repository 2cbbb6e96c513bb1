package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/command/commandtest"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/internal/info"
)

// newCore is a core with the family, its slow log of two entries and its events.
func newCore(t *testing.T) (*commandtest.Core, *client.Client, *Slowlog, *Events) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	space := keyspace.New(heap, keyspace.Options{})
	slow, events := NewSlowlog(func() int64 { return 2 }), NewEvents()
	var core *commandtest.Core
	family := Family(Deps{
		Catalogue: func() *command.Catalogue { return core.Catalogue }, Slowlog: slow, Events: events,
		LatencyThreshold: func() int64 { return 10 },
		Sections: func() []info.Section {
			sections := append(KeyspaceSections(space), CommandSections(func() *command.Catalogue { return core.Catalogue },
				func() []float64 { return []float64{50, 99.9} })...)
			return append(sections, MemorySection(space, nil), CPUSection(),
				StatsSection(func() Counters { return Counters{Commands: 7} }),
				ErrorsSection(func(yield func(string, uint64) bool) { yield("ERR", 3) }))
		},
	})
	if core, err = commandtest.New(space, 1_700_000_000_000, family); err != nil {
		t.Fatal(err)
	}
	return core, core.Client(2), slow, events
}

func TestSlowlogKeepsAndTrims(t *testing.T) {
	core, cl, slow, _ := newCore(t)
	long := [][]byte{[]byte("MSET"), []byte(strings.Repeat("a", 128)), []byte(strings.Repeat("b", 129))}
	for len(long) < 40 {
		long = append(long, []byte("x"))
	}
	for i := range 200 {
		args := long
		if i != 199 {
			args = [][]byte{[]byte("GET"), fmt.Appendf(nil, "%d", i)}
		}
		slow.Record(core.Now()+int64(i)*1000, cl, args, time.Duration(i)*time.Millisecond)
	}
	for i := range long { // R2: the arguments are lent
		clear(long[i])
	}
	if slow.Len() != 2 {
		t.Errorf("%d entries of 2", slow.Len())
	}
	got := core.Do(cl, "SLOWLOG", "GET", "1")
	for _, want := range []string{"*1\r\n*6\r\n:199\r\n:1700000199\r\n:199000\r\n*32\r\n$4\r\nMSET\r\n$128\r\n" +
		strings.Repeat("a", 128) + "\r\n",
		strings.Repeat("b", 128) + "... (1 more bytes)\r\n", "\r\n$22\r\n... (9 more arguments)\r\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if got := core.Do(cl, "SLOWLOG", "GET"); !strings.HasPrefix(got, "*2\r\n") || !strings.Contains(got, "$3\r\n198\r\n") {
		t.Errorf("GET: %q", got)
	}
	core.Do(cl, "SLOWLOG", "RESET")
	if slow.Record(0, cl, [][]byte{[]byte("PING")}, 0); !strings.Contains(core.Do(cl, "SLOWLOG", "GET"), ":200\r\n") {
		t.Error("ids begin again after RESET")
	}
}

func TestLatencyEvents(t *testing.T) {
	core, cl, _, events := newCore(t)
	for i := range 200 { // two events a second: the longer one is kept
		events.Record(core.Now()+int64(i)*500, "command", time.Duration(20+i)*time.Millisecond)
	}
	events.Record(core.Now(), "fork", 11*time.Millisecond)
	if got := core.Do(cl, "LATENCY",
		"LATEST"); got != "*2\r\n*4\r\n$7\r\ncommand\r\n:1700000099\r\n:219\r\n:219\r\n*4\r\n$4\r\nfork\r\n"+
		":1700000000\r\n:11\r\n:11\r\n" {
		t.Errorf("LATEST: %q", got)
	}
	if got := core.Do(cl, "LATENCY", "HISTORY", "command"); !strings.HasPrefix(got,
		"*100\r\n*2\r\n:1700000000\r\n:21\r\n") {
		t.Errorf("HISTORY: %q", got)
	}
	core.SetNow(core.Now() + 100_000)
	if got := core.Do(cl, "LATENCY", "GRAPH", "command"); !strings.Contains(got,
		"command - high 219 ms, low 21 ms (all time high 219 ms)\n") || !strings.Contains(got, "#") {
		t.Errorf("GRAPH: %q", got)
	}
	if got := core.Do(cl, "LATENCY", "DOCTOR"); !strings.Contains(got,
		"1. command: 100 spikes (average 120ms, mean deviation 50ms, period 1.00 sec). Worst all time event 219ms.") {
		t.Errorf("DOCTOR: %q", got)
	}
	if got := core.Do(cl, "LATENCY", "RESET", "fork", "nope"); got != ":1\r\n" {
		t.Errorf("RESET: %q", got)
	}
	if got := core.Do(cl, "LATENCY", "RESET"); got != ":1\r\n" {
		t.Errorf("RESET of the rest: %q", got)
	}
}

func TestHistogramReply(t *testing.T) {
	core, cl, _, _ := newCore(t)
	row := core.Catalogue.ByFullName([]byte("slowlog|len"))
	row.Stats.Record(3, 3*1500)
	row.Stats.Record(1, 100_000)
	want := "*2\r\n$11\r\nslowlog|len\r\n*4\r\n$5\r\ncalls\r\n:4\r\n$14\r\nhistogram_usec\r\n*4\r\n:2\r\n:3\r\n:132\r\n:4\r\n"
	if got := core.Do(cl, "LATENCY", "HISTOGRAM", "slowlog", "nope"); got != want {
		t.Errorf("of a container: %q, want %q", got, want)
	}
}

func TestReportOrder(t *testing.T) {
	constant := info.Constant
	r := NewReport([]info.Section{
		{Name: "Spindle", Fields: []info.Field{constant("own", "1")}},
		{Name: "Clients", Fields: []info.Field{constant("strange", "x"), constant("maxclients", "9")}},
		{Name: "Clients", Fields: []info.Field{constant("connected_clients", "3")}},
	})
	text := func(wanted ...string) string {
		var list [][]byte
		for _, s := range wanted {
			list = append(list, []byte(s))
		}
		var w info.Writer
		r.Append(&w, list)
		return string(w.B)
	}
	got := text("CLIENTS")
	if !strings.HasPrefix(got, "# Clients\r\nconnected_clients:3\r\ncluster_connections:0\r\nmaxclients:9\r\n") ||
		!strings.HasSuffix(got, "strange:x\r\n") {
		t.Errorf("clients: %q", got)
	}
	if got := text("nope"); got != "" {
		t.Errorf("an unknown section: %q", got)
	}
	headers := func(s string) string {
		var list []string
		for line := range strings.SplitSeq(s, "\r\n") {
			if name, ok := strings.CutPrefix(line, "# "); ok {
				list = append(list, name)
			}
		}
		return strings.Join(list, " ")
	}
	const plain = "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace"
	const all = "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats " +
		"Cluster Keyspace Spindle"
	for wanted, want := range map[string]string{"": plain, "default": plain, "all": all, "Everything": all,
		"cpu server": "Server CPU",
		"default commandstats": "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats " +
			"Cluster Keyspace"} {
		if got := headers(text(strings.Fields(wanted)...)); got != want {
			t.Errorf("INFO %s: %s", wanted, got)
		}
	}
}

func TestInfoFields(t *testing.T) {
	core, cl, _, _ := newCore(t)
	core.Space.DB(2).SetString([]byte("k"), []byte("v"), core.Now()+5000)
	row := core.Catalogue.Lookup([]byte("time"))
	row.Stats.Record(2, 8000)
	core.Catalogue.Lookup([]byte("lolwut")).Stats.Record(3, 1_001_999) // a call takes a third of 1001 µs, not of 1002
	core.Catalogue.Lookup([]byte("monitor")).Stats.Record(1, 321_900)
	got := core.Do(cl, "INFO", "everything")
	for _, want := range []string{
		"\r\ndb2:keys=1,expires=1,avg_ttl=",
		"\r\ncmdstat_time:calls=2,usec=8,usec_per_call=4.00,rejected_calls=0,failed_calls=0\r\n",
		"\r\ncmdstat_lolwut:calls=3,usec=1001,usec_per_call=333.67,",
		"\r\ncmdstat_monitor:calls=1,usec=321,usec_per_call=321.00,",
		"\r\nlatency_percentiles_usec_time:p50=4.015,p99.9=4.015\r\n",
		"\r\nerrorstat_ERR:count=3\r\n", "\r\ntotal_commands_processed:7\r\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("INFO lacks %q", want)
		}
	}
	seen := map[string]bool{}
	for line := range strings.SplitSeq(got, "\r\n") {
		if name, _, isField := strings.Cut(line, ":"); isField {
			if seen[name] {
				t.Errorf("%s is told twice", name)
			}
			seen[name] = true
		}
	}
	for _, name := range []string{"used_memory", "used_memory_human", "used_memory_rss",
		"total_system_memory_human", "mem_fragmentation_ratio", "used_cpu_sys"} {
		if !seen[name] {
			t.Errorf("INFO lacks %s", name)
		}
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.00K", 1536: "1.50K", 25276514304: "23.54G"} {
		if got := string(info.AppendHuman(nil, n)); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

func TestThreadFits(t *testing.T) {
	for _, columns := range []int{1, 2, 48, 160} {
		for line := range strings.SplitSeq(thread(columns, 5), "\n") {
			if len(line) > columns {
				t.Errorf("%d columns: a line of %d", columns, len(line))
			}
		}
	}
}
