package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/part"
	"spindle/internal/spikes"
	"spindle/tests/testkit/commandtest"
)

// newCore returns a core with SLOWLOG, limited to two entries, and LATENCY.
func newCore(t *testing.T) (*commandtest.Core, *client.Client, *CommandLogs, *spikes.Events) {
	core, cl, logs, events, _ := newSetCore(t)
	return core, cl, logs, events
}

// newSetCore is newCore, and also returns the settings of the logs.
func newSetCore(t *testing.T) (*commandtest.Core, *client.Client, *CommandLogs, *spikes.Events, *Settings) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	settings := &Settings{}
	settings.Rows() // sets the defaults
	for i := range settings.LogLens {
		settings.LogLens[i].Set(2)
	}
	logs, events := NewCommandLogs(settings), &spikes.Events{}
	var core *commandtest.Core
	rows := ServerRows(Deps{
		Catalogue: func() *command.Catalogue { return core.Catalogue }, Logs: logs, Events: events,
		LatencyThreshold: func() int64 { return 10 },
	})
	space := keyspace.New(heap, keyspace.Options{})
	if core, err = commandtest.New(space, 1_700_000_000_000, command.Family{Name: "server", Rows: rows}); err != nil {
		t.Fatal(err)
	}
	return core, core.Client(2), logs, events, settings
}

func TestSlowlogKeepsAndTrims(t *testing.T) {
	core, cl, logs, _ := newCore(t)
	slow := logs[part.Slow]
	long := [][]byte{[]byte("MSET"), []byte(strings.Repeat("a", 128)), []byte(strings.Repeat("b", 129))}
	for len(long) < 40 {
		long = append(long, []byte("x"))
	}
	for i := range 200 {
		args := long
		if i != 199 {
			args = [][]byte{[]byte("GET"), fmt.Appendf(nil, "%d", i)}
		}
		slow.Record(core.Now()+int64(i)*1000, cl, args, int64(i)*1000)
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

// TestEntryLimits: entries keep as many arguments and bytes as the settings allow. A later setting does not change
// existing entries.
func TestEntryLimits(t *testing.T) {
	core, cl, logs, _, settings := newSetCore(t)
	args := [][]byte{[]byte("MSET"), []byte("k"), []byte("value"), []byte("k2"), []byte("v2")}
	logs[part.Slow].Record(0, cl, args, 0)
	settings.EntryArgs.Set(4)
	settings.EntryBytes.Set(3)
	logs[part.Slow].Record(0, cl, args, 0)
	logs[part.LargeRequest].Record(0, cl, args, 0)
	short :=
		"*4\r\n$21\r\nMSE... (1 more bytes)\r\n$1\r\nk\r\n$21\r\nval... (2 more bytes)\r\n$22\r\n... (2 more arguments)\r\n"
	got := core.Do(cl, "SLOWLOG", "GET")
	if !strings.Contains(got, short) || !strings.Contains(got, "*5\r\n$4\r\nMSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n") {
		t.Errorf("SLOWLOG GET: %q", got)
	}
	if got := core.Do(cl, "COMMANDLOG", "GET", "10", "large-request"); !strings.Contains(got, short) {
		t.Errorf("COMMANDLOG GET: %q", got)
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
