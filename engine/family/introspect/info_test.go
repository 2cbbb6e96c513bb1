package introspect

import (
	"strings"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/internal/info"
	"spindle/tests/testkit/commandtest"
)

// newInfoCore returns a core with the family and some sections of INFO.
func newInfoCore(t *testing.T) (*commandtest.Core, *client.Client) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	space := keyspace.New(heap, keyspace.Options{})
	var core *commandtest.Core
	family := Family(Deps{
		Catalogue: func() *command.Catalogue { return core.Catalogue },
		Sections: func() []info.Section {
			sections := append(KeyspaceSections(space), CommandSections(func() *command.Catalogue { return core.Catalogue },
				func() []float64 { return []float64{50, 99.9} })...)
			return append(sections, MemorySection(space, nil), CPUSection(func() time.Duration { return 0 }),
				StatsSection(func() Counters { return Counters{Commands: 7} }),
				ErrorsSection(func(yield func(string, uint64) bool) { yield("ERR", 3) }))
		},
	})
	if core, err = commandtest.New(space, 1_700_000_000_000, family); err != nil {
		t.Fatal(err)
	}
	return core, core.Client(2)
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
	const plain = "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace Keysizes"
	const all = "Server TLS Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats " +
		"Cluster Keyspace Keysizes Spindle"
	for wanted, want := range map[string]string{"": plain, "default": plain, "all": all, "Everything": all,
		"cpu server": "Server CPU",
		"default commandstats": "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats " +
			"Cluster Keyspace Keysizes"} {
		if got := headers(text(strings.Fields(wanted)...)); got != want {
			t.Errorf("INFO %s: %s", wanted, got)
		}
	}
}

func TestInfoFields(t *testing.T) {
	core, cl := newInfoCore(t)
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
