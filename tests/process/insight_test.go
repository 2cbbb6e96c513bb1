package process

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// maps converts a reply that is an array of maps.
func maps(t *testing.T, v respclient.Value) (list []map[string]string) {
	t.Helper()
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
	for _, e := range v.Elems {
		words, m := e.Strings(), map[string]string{}
		for i := 0; i+1 < len(words); i += 2 {
			m[words[i]] = words[i+1]
		}
		list = append(list, m)
	}
	return list
}

// figure returns a field of such a map as a number.
func figure(t *testing.T, m map[string]string, name string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(m[name], 64)
	if err != nil {
		t.Fatalf("%s of %v: %v", name, m, err)
	}
	return f
}

// TestHotKeysOfAZipfLoad: after ten seconds of a Zipf load, or longer on a busy host, the first 32 keys of HOTKEYS have
// the true top twenty. Their shares are right within a tenth on average, and each within four tenths. On a busy host
// commands come in bursts, of which fewer are sampled. Then the count of a rare key varies by chance.
func TestHotKeysOfAZipfLoad(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address)
	const keys, top, spare = 100_000, 20, 12
	sent := make([]float64, keys)
	total := 0.0
	var mu sync.Mutex // of sent and total
	s.Do("HOTKEYS", "RESET")
	// The load has three times as many commands a second as are sampled. Several clients make it, because each one waits
	// for its replies, which come late on a busy host.
	const clients, batch = 8, 600 // more samples reduce the effect of chance
	const enough = 400_000        // with fewer commands, chance matters too much
	began, load := time.Now(), sync.WaitGroup{}
	for i := range clients {
		c := s.Dial()
		load.Go(func() {
			zipf := rand.NewZipf(rand.New(rand.NewPCG(1, uint64(i))), 1.1, 1, keys-1)
			pace := time.NewTicker(clients * 10 * time.Millisecond)
			defer pace.Stop()
			for ; ; <-pace.C {
				mu.Lock()
				over := time.Since(began) > 9*time.Second && total >= enough
				mu.Unlock()
				if over || t.Failed() {
					return
				}
				var ranks [batch]uint64
				for j := range ranks {
					ranks[j] = zipf.Uint64()
				}
				testkit.Pipe(t, c, batch, func(j int) []any {
					if j%2 == 0 {
						return []any{"SET", "key:" + strconv.FormatUint(ranks[j], 10), "value"}
					}
					return []any{"GET", "key:" + strconv.FormatUint(ranks[j], 10)}
				})
				mu.Lock()
				for _, k := range ranks {
					sent[k]++
				}
				total += batch
				mu.Unlock()
			}
		})
	}
	load.Wait()
	took := time.Since(began)
	order := make([]int, keys)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(sent[b] - sent[a]) })
	named := map[string]map[string]string{}
	for _, m := range maps(t, s.Do("HOTKEYS", "GET", "COUNT", top+spare)) {
		named[m["key"]] = m
	}
	errors, reads, writes := 0.0, 0.0, 0.0 // errors: the sum of their squares
	for rank, k := range order[:top] {
		m, there := named[fmt.Sprintf("key:%d", k)]
		if !there {
			t.Errorf("key:%d, of rank %d, is not named", k, rank)
			continue
		}
		want := 100 * sent[k] / total
		off := figure(t, m, "share")/want - 1
		if errors += off * off; math.Abs(off) > 0.4 {
			t.Errorf("key:%d: %v, want a share of %.3f", k, m, want)
		}
		r, w := figure(t, m, "reads"), figure(t, m, "writes")
		if reads, writes = reads+r, writes+w; r == 0 || w == 0 || figure(t, m, "bytes") == 0 || figure(t, m, "cpu-usec") ==
			0 {
			t.Errorf("key:%d: %v", k, m)
		}
	}
	if off := math.Sqrt(errors / top); off > 0.1 {
		t.Errorf("the shares are wrong by %.3f on average", off)
	}
	if math.Abs(writes/reads-1) > 0.1 {
		t.Errorf("%.0f reads and %.0f writes a second; there were as many of both", reads, writes)
	}
	t.Logf("%.0f commands in %v; wrong by %.3f, writes / reads %.3f", total, took, math.Sqrt(errors/top), writes/reads)
	_, metrics := fetch(t, "http://"+address+"/metrics")
	if n := len(regexp.MustCompile(`(?m)^spindle_hotkey_share\{db="0",key="key:\d+"\} 0\.\d+`).FindAllString(metrics,
		-1)); n < 15 || n > 20 {
		t.Errorf("/metrics names %d hot keys", n)
	}
}

// TestReplyLatency: each command's reply time is measured from the read of the request to the write of the reply, also
// in pipelines. The time includes waits for other commands, but not the time in which a client is blocked.
func TestReplyLatency(t *testing.T) {
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) { replyLatency(t, backend) })
	}
}

func replyLatency(t *testing.T, backend string) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address, "--enable-debug-command", "yes", "--reactor-backend", backend)
	testkit.Pipe(t, s.Dial(), 1000, func(i int) []any { return []any{"SET", i, i} })
	testkit.Pipe(t, s.Dial(), 1000, func(i int) []any { return []any{[]any{"GET", "INCR"}[i%2], i} })
	c := s.Dial()
	c.Send("ECHO", "x")
	c.Send("DEBUG", "SLEEP", "0.2")
	c.Send("ECHO", "y")
	c.Flush()
	for range 3 {
		c.Receive()
	}
	c.Do("BLPOP", "nothing", "0.05")
	parts := func(command string) map[string]float64 { return replyFigures(s, command) }
	for command, calls := range map[string]float64{"set": 1000, "get": 500, "incr": 500, "echo": 2,
		"debug": 1, "blpop": 0} {
		if got := parts(command); got["calls"] != calls ||
			calls > 0 && (got["p50"] <= 0 || got["max"] < got["p99"] || got["p99"] < got["p50"]) {
			t.Errorf("%s: %v, want %v calls", command, got, calls)
		}
	}
	if echo := parts("echo"); echo["max"] < 190e3 {
		t.Errorf("after DEBUG SLEEP 0.2: %v", echo)
	}
	if _, in := s.Info("latencystats")["latency_percentiles_usec_set"]; !in {
		t.Error("INFO latencystats has gone")
	}
	_, metrics := fetch(t, "http://"+address+"/metrics")
	for _, line := range []string{`spindle_reply_seconds_count{command="set"} 1000`,
		`spindle_reply_seconds_bucket{command="set",le="+Inf"} 1000`} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics has no %s", line)
		}
	}
	s.Do("CONFIG", "SET", "reply-latency", "no")
	s.Do("CONFIG", "RESETSTAT")
	s.Do("SET", "a", "b")
	if after := s.Info("replylatency")["reply_usec_set"]; after != "" {
		t.Errorf("switched off: %s", after)
	}
}

// replyFigures returns a row of INFO replylatency, or nil if there is none.
func replyFigures(s *testkit.Server, command string) map[string]float64 {
	row, in := s.Info("replylatency")["reply_usec_"+command]
	if !in {
		return nil
	}
	figures := map[string]float64{}
	for part := range strings.SplitSeq(row, ",") {
		name, text, _ := strings.Cut(part, "=")
		figures[name], _ = strconv.ParseFloat(text, 64)
	}
	return figures
}

// timed waits until a row has this many measured calls, and returns the row. The client gets its replies slightly
// earlier.
func timed(t *testing.T, s *testkit.Server, row string, calls float64) (figures map[string]float64) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(10*time.Second), row, func() error {
		figures = replyFigures(s, row)
		return testkit.Equal(figures["calls"], calls)
	})
	return figures
}

// quiet is how long the tests below leave a server idle. The measured time of a request must not include this pause.
const quiet = 1500 * time.Millisecond

// afterQuiet sends a command after a pause. It fails the test if the server's time for the command includes the pause.
func afterQuiet(t *testing.T, s *testkit.Server, c *respclient.Client, row string, command ...any) respclient.Value {
	t.Helper()
	time.Sleep(quiet)
	began := time.Now()
	v := c.Must(command...)
	took := time.Since(began)
	if got := timed(t, s, row, 1); got["max"] > float64((took + quiet/2).Microseconds()) {
		t.Errorf("%v took %v at the client, and %v at the server", command, took, got)
	}
	return v
}

// TestReplyLatencyAfterSilence: a command without a reply has no reply time. A pause after it counts for no command.
func TestReplyLatencyAfterSilence(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--reactor-backend", backend, "--io-threads", "1")
			silent, other := s.Dial(), s.Dial()
			other.Must("PING")
			silent.Send("CLIENT", "REPLY", "OFF")
			silent.Send("SET", "a", "1")
			silent.Flush()
			if v := afterQuiet(t, s, other, "get", "GET", "a"); v.Text != "1" {
				t.Fatalf("GET a: %q: the silent client's SET has not run", v.Text)
			}
			silent.Send("SET", "a", "2")
			silent.Flush()
			afterQuiet(t, s, other, "strlen", "STRLEN", "a")
			skipping := s.Dial()
			skipping.Send("CLIENT", "REPLY", "SKIP")
			skipping.Send("SET", "a", "3")
			skipping.Send("SET", "a", "4")
			skipping.Flush()
			if v, err := skipping.Receive(); err != nil || v.Text != "OK" {
				t.Fatalf("SET after SKIP and one more: %v, %v", v, err)
			}
			timed(t, s, "set", 1) // three have no reply
			if got := replyFigures(s, "client|reply"); got != nil {
				t.Errorf("CLIENT REPLY OFF and SKIP answer nothing: %v", got)
			}
		})
	}
}

// TestReplyLatencyWithAReplica: acknowledgements of an idle replica have no reply time. They do not change the time of
// other commands.
func TestReplyLatencyWithAReplica(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--reactor-backend", backend, "--io-threads", "1")
			replica := testkit.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port))
			replica.AwaitInfo(testkit.Slowly(30*time.Second), "replication", "master_link_status", "up")
			c := s.Dial()
			if v := c.Must("WAIT", 1, 0); v.Int != 1 {
				t.Fatalf("WAIT: %v", v)
			}
			before := replyFigures(s, "replconf")["calls"]
			for _, command := range []string{"set", "append", "setrange"} {
				args := []any{command, "a", "1"}
				if command == "setrange" {
					args = []any{command, "a", 0, "1"}
				}
				afterQuiet(t, s, c, command, args...)
			}
			if after := replyFigures(s, "replconf")["calls"]; after != before {
				t.Errorf("REPLCONF ACK has no reply, and %v more are timed", after-before)
			}
		})
	}
}

// TestHotKeysOfAllCommands: every key of a command is counted in its database, even in scripts and transactions. Keys
// with unprintable bytes are escaped on /metrics. A setting stops the counting.
func TestHotKeysOfAllCommands(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address)
	hot := func(key string) map[string]string {
		for _, m := range maps(t, s.Do("HOTKEYS", "GET", "COUNT", 256)) {
			if m["key"] == key {
				return m
			}
		}
		return nil
	}
	c := s.Dial()
	odd := "odd\x00\xff\"\n<b>\\"
	c.Must("SELECT", 3)
	for range 20 {
		c.Must("MGET", "many:1", "many:2")
		c.Must("COPY", "from", "to")
		c.Must("SET", odd, "v")
		c.Must("MULTI")
		c.Must("INCR", "in:multi")
		c.Must("EXEC")
		c.Must("EVAL", "return redis.call('GET', KEYS[1])", 1, "in:script")
	}
	for _, refused := range [][]any{{"BITFIELD"}, {"GET"}, {"SORT"}, {"OBJECT", "ENCODING"}, {"EVAL", "x"},
		{"NOSUCH", "k"}, {"MGET"}} {
		c.Do(refused...)
	}
	c.Must("OBJECT", "ENCODING", odd)
	for _, want := range []struct {
		key           string
		reads, writes bool
	}{{"many:1", true, false}, {"many:2", true, false}, {"from", true, false}, {"to", false, true}, {odd, true, true},
		{"in:multi", false, true}, {"in:script", true, false}} {
		m := hot(want.key)
		if m == nil {
			t.Errorf("%q is not named", want.key)
			continue
		}
		if r, w := figure(t, m, "reads") > 0, figure(t, m, "writes") > 0; r != want.reads || w != want.writes ||
			m["db"] != "3" {
			t.Errorf("%q: %v", want.key, m)
		}
	}
	_, metrics := fetch(t, "http://"+address+"/metrics")
	if !strings.Contains(metrics, `key="odd\\x00\\xff\"\\x0a<b>\\\\\\\\"`) &&
		!strings.Contains(metrics, `key="odd\\x00\\xff\"\\x0a<b>\\\\"`) {
		t.Errorf("/metrics does not escape: %q", regexp.MustCompile(`(?m)^spindle_hotkey_share.*odd.*$`).FindString(metrics))
	}
	for _, bad := range [][]any{{"HOTKEYS", "GET", "COUNT"}, {"HOTKEYS", "GET", "COUNT", 0},
		{"HOTKEYS", "GET", "COUNT", "x"}, {"HOTKEYS", "RESET", "x"}, {"HOTKEYS", "NO"}} {
		if v, err := s.Ask(bad...); err != nil || v.Err() == nil {
			t.Errorf("%v: %v %v", bad, v, err)
		}
	}
	s.Do("CONFIG", "SET", "hot-keys", "no")
	c.Must("GET", "unseen")
	if m := maps(t, s.Do("HOTKEYS", "GET", "COUNT", 20)); len(m) != 0 {
		t.Errorf("switched off: %v", m)
	}
	s.Do("CONFIG", "SET", "hot-keys", "yes")
	c.Must("GET", "seen")
	if hot("seen") == nil {
		t.Error("switched on again: nothing is seen")
	}
}

// TestHotKeysSession: HOTKEYS START, GET and STOP measure the cost of keys, with replies in the form that client
// libraries parse. The always-on figures stay available, as HOTKEYS GET COUNT and as SPINDLE HOTKEYS GET.
func TestHotKeysSession(t *testing.T) {
	s := testkit.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)),
		"--cluster-require-full-coverage", "no")
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	testkit.Await(t, testkit.Slowly(10*time.Second), "the slots to be served", func() bool {
		return strings.Contains(s.Do("CLUSTER", "INFO").Text, "cluster_state:ok")
	})
	slot := s.Do("CLUSTER", "KEYSLOT", "big").Int
	s.Do("HOTKEYS", "START", "METRICS", 2, "CPU", "NET", "COUNT", 2, "SAMPLE", 4, "SLOTS", 1, slot)
	for range 20 {
		s.Do("SET", "other", strings.Repeat("x", 5000))
		s.Do("SET", "big", strings.Repeat("x", 1000))
	}
	field := func(name string) respclient.Value {
		t.Helper()
		v, ok := s.Do("HOTKEYS", "GET").Elems[0].Get(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		return v
	}
	if field("tracking-active").Int != 1 {
		t.Error("the session is not active")
	}
	s.Do("HOTKEYS", "STOP")
	if field("tracking-active").Int != 0 || field("selected-slots").Elems[0].Elems[0].Int != slot {
		t.Error("the session is active, or of another slot")
	}
	all, ours := field("net-bytes-all-commands-all-slots").Int, field("net-bytes-all-commands-selected-slots").Int
	if top := field("by-net-bytes").Elems; len(top) != 2 || top[0].Text != "big" || top[1].Int < 20_000 {
		t.Errorf("by-net-bytes: %v", top)
	}
	if ours < 20_000 || all < ours+100_000 || field("total-net-bytes").Int != all {
		t.Errorf("%d bytes of the slot, %d of all", ours, all)
	}
	for _, name := range []string{"sample-ratio", "collection-start-time-unix-ms", "collection-duration-ms",
		"total-cpu-time-user-ms", "total-cpu-time-sys-ms", "by-cpu-time-us", "all-commands-all-slots-us",
		"sampled-commands-selected-slots-us"} {
		field(name)
	}
	if sampled := field("net-bytes-sampled-commands-selected-slots").Int; sampled != ours/4 {
		t.Errorf("%d bytes of sampled commands, %d of all", sampled, ours)
	}
	for _, args := range [][]any{{"HOTKEYS", "GET", "COUNT", 10}, {"SPINDLE", "HOTKEYS", "GET"}} {
		if m := maps(t, s.Do(args...)); len(m) == 0 || m[0]["key"] == "" {
			t.Errorf("%v: %v", args, m)
		}
	}
	s.Do("HOTKEYS", "RESET")
	s.Do("HOTKEYS", "START", "METRICS", 1, "NET", "DURATION", 1)
	testkit.Await(t, testkit.Slowly(10*time.Second), "the session to end", func() bool {
		return field("tracking-active").Int == 0
	})
	if ms := field("collection-duration-ms").Int; ms != 1000 {
		t.Errorf("a session of a second took %d ms", ms)
	}
}
