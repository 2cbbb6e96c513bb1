package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == load.Arg:
		err = load.Main(os.Stdin, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == process.StallArg:
		err = process.StallMain(os.Stdin, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestParseRedisBenchmark(t *testing.T) {
	text := "WARNING: Could not fetch server CONFIG\n" +
		`"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"PING_INLINE","1000000.00","0.492","0.112","0.359","0.967","1.775","2.151"
"MSET (10 keys)","136363.62","0.389","0.104","0.359","0.591","0.959","1.607"
`
	got, err := parseRedisBenchmark(text)
	want := []DriverResult{
		{Test: "PING_INLINE", PerSecond: 1e6, Mean: 492 * time.Microsecond, P50: 359 * time.Microsecond,
			P99: 1775 * time.Microsecond, Max: 2151 * time.Microsecond},
		{Test: "MSET (10 keys)", PerSecond: 136363.62, Mean: 389 * time.Microsecond, P50: 359 * time.Microsecond,
			P99: 959 * time.Microsecond, Max: 1607 * time.Microsecond},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "Error: refused", `"test","rps"` + "\n" + `"GET","1"` + "\n",
		strings.Replace(text, "1000000.00", "x", 1)} {
		if got, err := parseRedisBenchmark(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestParseMemtier(t *testing.T) {
	text := `1         Threads

ALL STATS
============================================================================================================================
Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency   p99.9 Latency       KB/sec 
----------------------------------------------------------------------------------------------------------------------------
Sets       152886.73          ---          ---         0.06512         0.06300         0.15100         0.23900     11179.69 
Gets       152886.73    147914.14      4972.59         0.06512         0.06300         0.15100         0.23900     10268.51 
Waits           0.00          ---          ---             ---             ---             ---             ---          --- 
Totals     305773.47    147914.14      4972.59         0.06512         0.06300         0.15100         0.23900     21448.20 
`
	got, err := parseMemtier(text)
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	want := DriverResult{Test: "Totals", PerSecond: 305773.47, Mean: 65120, P50: 63 * time.Microsecond,
		P99: 151 * time.Microsecond, P999: 239 * time.Microsecond}
	if got[2] != want {
		t.Errorf("%+v", got[2])
	}
	for _, text := range []string{"", "ALL STATS\nnothing", strings.Replace(text, "305773.47", "many", 1)} {
		if got, err := parseMemtier(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestParseInfo(t *testing.T) {
	info := parseInfo("# Server\r\nredis_version:7.4.1\r\nused_memory:123\r\nratio:1.50\r\n" +
		"listener0:name=tcp,bind=127.0.0.1:6379\r\n\r\n")
	if n, ok := info.Int("used_memory"); !ok || n != 123 {
		t.Error(n, ok)
	}
	if n, ok := info.Float("ratio"); !ok || n != 1.5 {
		t.Error(n, ok)
	}
	if _, ok := info.Int("redis_version"); ok || info["listener0"] != "name=tcp,bind=127.0.0.1:6379" {
		t.Error(info)
	}
	if _, ok := info.Int("nothing"); ok {
		t.Error("a field that is not there is a number")
	}
}

func TestParseMetrics(t *testing.T) {
	got := parseMetrics("# HELP a b\n# TYPE a counter\na 12\nb 1.5e+06\nc{x=\"y\"} 3\nd NaNo\n")
	if want := map[string]float64{"a": 12, "b": 1.5e6}; !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
}

func TestParseTrace(t *testing.T) {
	line := "gc 12 @3.402s 2%: 0.017+0.30+0.005 ms clock, 0.5+0.25/0.125/0.0625+1 ms cpu, 4->4->1 MB, 4 MB goal, 0 MB " +
		"stacks, 0 MB globals, 1 P"
	if got, ok := parseTrace(line); !ok || got != 1937500*time.Nanosecond {
		t.Error(got, ok)
	}
	if got, ok := parseTrace(line + " (forced)"); !ok || got == 0 {
		t.Error(got, ok)
	}
	for _, line := range []string{"", "1:M 21 Nov 2026 * Ready to accept connections", "scvg: 8 MB released"} {
		if _, ok := parseTrace(line); ok {
			t.Errorf("%q is a trace", line)
		}
	}
}

func TestParseAllocations(t *testing.T) {
	const header = "heap profile: 3: 2337 [19146: 3678408] @ heap/2\n"
	records := []string{
		"1: 64 [3: 192] @ 0x1 0x2\n#\t0x1\tspindle/engine.(*Core).call+0x1\t/x.go:1\n",
		"0: 0 [2: 1152] @ 0x1\n#\t0x1\tgithub.com/panjf2000/gnet/v2/pkg/netpoll.(*eventList).expand+0x1\t/x.go:1\n",
		"0: 0 [40: 640] @ 0x1\n#\t0x1\tnet/http.(*conn).serve+0x1\t/x.go:1\n",
		"0: 0 [5: 80] @ 0x1\n#\t0x1\tspindle/engine.(*Core).noteClients+0x1\t/x.go:1\n" +
			"#\t0x1\tspindle/engine.(*Core).tick+0x1\t/x.go:1\n",
		"2: 32 [2: 32] @ 0x1\n",
		"\n# runtime.MemStats\n# Alloc = 1\n",
	}
	got, err := parseAllocations(header + strings.Join(records, "\n"))
	want := allocations{byRequests: {5, 224}, byGnetList: {2, 1152}, byDuties: {5, 80}, byAsking: {40, 640}}
	if err != nil || got != want {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	if got = got.since(allocations{byDuties: {1, 16}}); got[byDuties].objects != 4 || got[byDuties].bytes != 64 {
		t.Error(got)
	}
	for _, text := range []string{"", "404 page not found\n", "heap profile: 1: 2 [3: 4] @ heap/1048576\n"} {
		if _, err := parseAllocations(text); err == nil {
			t.Errorf("%q is a profile of everything", text)
		}
	}
}

func TestParseVersion(t *testing.T) {
	redis := "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1\n"
	if got := parseVersion(redis); got != "7.0.15 (malloc=jemalloc-5.3.0)" {
		t.Error(got)
	}
	const version = "Redis server v=7.4.1 sha=0:0 bits=64\nspindle v=0.1.0\n"
	if got := parseVersion(version); got != "spindle v=0.1.0, compatible with 7.4.1" {
		t.Error(got)
	}
}

func TestCatalogue(t *testing.T) {
	for _, name := range Names() {
		if s := Find(name); s == nil || s.Run == nil || s.What == "" {
			t.Errorf("%s has nothing to run, or does not say what it does", name)
		}
	}
	if Find("nothing") != nil {
		t.Error("there is a scenario called nothing")
	}
}

func TestTurnTargetUsesTheWorstRun(t *testing.T) {
	x := &sights{wall: report.Sample{1e5, 3e6, 1e5}}
	if f := turnTarget("w", time.Millisecond, x); f.Verdict != report.Missed {
		t.Error(f)
	}
	x.cpu = report.Sample{1e5, 2e5, 1e5} // a known CPU time counts: a stall is not part of the turn
	if f := turnTarget("w", time.Millisecond, x); f.Verdict != report.Met {
		t.Error(f)
	}
	x.cpu = report.Sample{1e5, 2e6, 1e5}
	if f := turnTarget("w", time.Millisecond, x); f.Verdict != report.Missed {
		t.Error(f)
	}
	x.own = report.Sample{1e5, 2e5, 1e5} // nor does time that the machine took away, even within the CPU time
	if f := turnTarget("w", time.Millisecond, x); f.Verdict != report.Met {
		t.Error(f)
	}
	if f := turnTarget("w", time.Millisecond, &sights{}); f.Verdict != report.NotDecided {
		t.Error(f)
	}
}

// TestTurnTargetOfWays: stalls that also occur without load are not attributed to the server. Long turns that are usual
// in one way of dropping, or much more frequent than without load, are.
func TestTurnTargetOfWays(t *testing.T) {
	of := func(own ...float64) *sights { return &sights{cpu: own, own: own} }
	calm, one, two, rule := of(2e4, 5e4, 9e4), of(2e4, 5e4, 2.5e5), of(2.8e5, 5e4, 9e4), of(2e4, 2e5, 2.5e5)
	for i, c := range []struct {
		ways []*sights
		rest *sights
		want report.Verdict
	}{
		{[]*sights{calm, calm}, calm, report.Met},
		{[]*sights{calm, one}, calm, report.Met},
		{[]*sights{calm, rule}, calm, report.Missed},
		{[]*sights{one, two}, calm, report.Met},
		{[]*sights{one, two, one}, calm, report.Missed},
		{[]*sights{one, two, one}, one, report.Met},
		{[]*sights{calm, of(2e4, 5e4, 4e5)}, calm, report.Missed}, // only one turn, but far longer
		{[]*sights{calm, of(2e4, 5e4, 4e5)}, one, report.Met},
		{[]*sights{{}}, calm, report.NotDecided},
	} {
		if f := turnTargetOfWays("w", 100*time.Microsecond, c.ways, c.rest); f.Verdict != c.want {
			t.Errorf("%d: %s %s, want %s", i, f.Ours, f.Verdict, c.want)
		}
	}
}

// TestWithoutGaps: the time that the machine took away during a turn does not count. Gaps outside a turn change
// nothing.
func TestWithoutGaps(t *testing.T) {
	long, err := parseLongTurns("began=1000000,usec=16000,cpu_usec=15000;began=5000000,usec=900,cpu_usec=300")
	if err != nil || len(long) != 2 {
		t.Fatal(long, err)
	}
	turns := Turns{Long: long}
	for _, c := range []struct {
		gaps [][2]int64
		want time.Duration
	}{
		{nil, 15 * time.Millisecond},
		{[][2]int64{{0, 999_999}, {1_016_000, 1_100_000}}, 15 * time.Millisecond},
		{[][2]int64{{0, 1_002_000}, {1_010_000, 1_013_000}, {1_015_900, 1_017_000}},
			(16000 - 2000 - 3000 - 100) * time.Microsecond},
		{[][2]int64{{900_000, 1_015_950}}, 300 * time.Microsecond},
	} {
		var gaps []process.Gap
		for _, g := range c.gaps {
			gaps = append(gaps, process.Gap{From: g[0], To: g[1]})
		}
		if got := turns.without(gaps); got != c.want {
			t.Errorf("%v: %v, want %v", gaps, got, c.want)
		}
	}
	if _, err := parseLongTurns("began=x"); err == nil {
		t.Error("no number")
	}
	for len(turns.Long) < longTurnsKept {
		turns.Long = append(turns.Long, longTurn{cpu: 7 * time.Millisecond})
	}
	if got := turns.without([]process.Gap{{From: 900_000, To: 1_100_000}}); got != 7*time.Millisecond {
		t.Errorf("%v, though the list was too short", got)
	}
}

// testEnv returns an Env that compares redis-server with itself, because the tests are about the bench.
func testEnv(t *testing.T, port int) *Env {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed: make deps installs it")
	}
	return &Env{Context: t.Context(), Reference: Contender{Name: "redis", Path: path}, Runs: 1,
		Duration: 50 * time.Millisecond, Warmup: 10 * time.Millisecond,
		Keys: 1000, ManyKeys: 2000, Port: port, Scratch: t.TempDir(), Log: io.Discard}
}

func TestServer(t *testing.T) {
	e := testEnv(t, 21470)
	s, err := e.Begin(e.Reference, Start{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(fill(1000, 0, setWords...)); err != nil {
		t.Error(err)
	}
	if v, err := s.Do("GET", "key:000000000999"); err != nil || len(v.Text) != 32 ||
		!strings.HasPrefix(v.Text, "v000000000999") {
		t.Error(v, err)
	}
	sight, r, err := s.watchedWrites(load.Spec{Connections: 2, Pipeline: 4, Duration: time.Hour,
		Mix: []load.Command{load.Request(setWords...)}, Keys: load.KeySpace{Count: 1000}},
		load.KeySpace{Count: 1000}, func() error { return s.save() })
	if err != nil || r.Requests == 0 || r.ServerCPU <= 0 || sight.Probe.Requests == 0 || sight.Turns.Known {
		t.Errorf("%+v, %+v, %v", sight, r, err)
	}
	if verdict := e.loadedBy(s.Dir+"/dump.rdb", 1000, ""); !strings.Contains(verdict, "loads all keys") {
		t.Error(verdict)
	}
	if verdict := e.loadedBy(s.Dir+"/dump.rdb", 999, ""); strings.Contains(verdict, "loads all keys") {
		t.Error("a key too many is not seen:", verdict)
	}
	if _, err := s.Load(load.Spec{Connections: 1, Requests: 3,
		Mix: []load.Command{load.Request("NOSUCHCOMMAND")}}); err == nil {
		t.Error("errors count as answers")
	}
	dir := s.Dir
	s.End()
	if err := syscall.Kill(s.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Error("the server lives:", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("its folder is still there:", err)
	}
}

func TestAServerThatDoesNotStart(t *testing.T) {
	e := testEnv(t, 21470)
	began := time.Now()
	_, err := e.Begin(e.Reference, Start{Args: []string{"--no-such-directive", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") || time.Since(began) > 10*time.Second {
		t.Error(err)
	}
}

func TestInterrupted(t *testing.T) {
	e := testEnv(t, 21470)
	var cancel context.CancelFunc
	e.Context, cancel = context.WithCancel(t.Context())
	cancel()
	if err := e.alternate([]Contender{e.Reference}, func(Contender, int) error {
		t.Error("a run began")
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestMeasureAlternates(t *testing.T) {
	e := testEnv(t, 21470)
	e.Runs = 2
	a, b := e.Reference.With("a"), e.Reference.With("b", "--io-threads", "1")
	var order string
	if err := e.alternate([]Contender{a, b}, func(c Contender, _ int) error { order += c.Name; return nil }); err != nil ||
		order != "abab" {
		t.Error(order, err)
	}
	m, err := e.measure([]Contender{a, b}, workloads[:1], []int{4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := m.at("b", cell{"GET", 4})
	if len(x.cpu) != 2 || x.cpu.Min() <= 0 || math.IsNaN(x.cpu.Ratio(m.at("a", cell{"GET", 4}).cpu)) {
		t.Errorf("%+v", x)
	}
	table := e.costTable(m, []Contender{a, b}, workloads[:1], 4)
	if len(table.Rows) != 2 || len(table.Rows[0]) != len(table.Columns) {
		t.Error(table)
	}
}

// TestCollections: every type is filled exactly, written to without an error, saved, and dropped in every way.
func TestCollections(t *testing.T) {
	e := testEnv(t, 21470)
	for i := range collections {
		c := &collections[i]
		s, err := e.Begin(e.Reference, Start{})
		if err != nil {
			t.Fatal(err)
		}
		const n = 1000
		if err := s.fillCollection(c, "big", 7, n); err != nil {
			t.Error(err)
		}
		r, err := s.Load(load.Spec{Connections: 2, Pipeline: 16, Requests: 2000, Mix: c.writes(n),
			Keys: load.KeySpace{Count: n}})
		if err != nil || r.Requests != 2000 {
			t.Error(c.name, r, err)
		}
		for _, l := range lettings() {
			if _, err := s.Do("SET", "source", "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Do("COPY", "source", "victim", "REPLACE"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.letGo(l); err != nil {
				t.Error(c.name, l.name, err)
			}
			v, err := s.Do("GET", "victim")
			if left := v.Text; err != nil || left == "x" && l.name != "overwrite by SET" && l.name != "RENAME onto it" {
				t.Error(c.name, l.name, left, err)
			}
		}
		s.End()
	}
	if got := elements(12_345); got != 12_300 || elements(3) != 100 {
		t.Error(got)
	}
}

// TestTypeTests: each of redis-benchmark's tests runs without an error, and removes all elements that it should remove.
func TestTypeTests(t *testing.T) {
	e := testEnv(t, 21470)
	e.Duration, e.Warmup = 10*time.Millisecond, time.Millisecond
	s, err := e.Begin(e.Reference, Start{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.End()
	for i := range typeTests {
		spec, err := s.readyTypeTest(&typeTests[i], 16)
		if err != nil {
			t.Error(typeTests[i].name, err)
			continue
		}
		spec.Warmup = 0 // every request is counted
		r, err := s.Load(spec)
		if err != nil || typeTests[i].drains && (r.Nulls > 0 ||
			r.Requests != int64(elements(uint64(drainRate[16]*e.Duration.Seconds())))) {
			t.Error(typeTests[i].name, r, err)
		}
	}
}
