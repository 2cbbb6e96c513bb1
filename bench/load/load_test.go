package load

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/protocol/respclient"
)

// TestHistogram compares a histogram with the sorted list of the same durations (load.H1, load.H2).
func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h, other Histogram
	var all []int64
	for i := range 20_000 {
		ns := int64(math.Exp(rng.Float64() * 24)) // 1 ns to 26 s
		all = append(all, ns)
		if i%2 == 0 {
			h.Record(time.Duration(ns), 1)
		} else {
			other.Record(time.Duration(ns), 1)
		}
	}
	h.Merge(&other)
	slices.Sort(all)
	if h.Count() != int64(len(all)) || int64(h.Max()) != all[len(all)-1] {
		t.Error(h.Count(), h.Max())
	}
	for _, p := range []float64{0, 1, 50, 90, 99, 99.9, 99.99, 100} {
		want := all[max(0, int(math.Ceil(p/100*float64(len(all))))-1)]
		got := int64(h.Percentile(p))
		if got < want || float64(got) > float64(want)*1.01+1 {
			t.Errorf("p%v: %d, want %d", p, got, want)
		}
	}
	text, err := json.Marshal(&h)
	if err != nil {
		t.Fatal(err)
	}
	var back Histogram
	if err := json.Unmarshal(text, &back); err != nil || back != h {
		t.Error("JSON loses counts:", err)
	}
}

func TestBucketsAreInOrder(t *testing.T) {
	last := -1
	for ns := int64(0); ns < 1<<42; ns += 1 + ns/300 {
		b := bucketOf(ns)
		if b < last || b >= buckets {
			t.Fatalf("%d ns: bucket %d after %d", ns, b, last)
		}
		if b < buckets-1 && (upperEnd(b) < ns || b > 0 && upperEnd(b-1) >= ns) {
			t.Fatalf("%d ns is not within bucket %d: %d..%d", ns, b, upperEnd(b-1), upperEnd(b))
		}
		last = b
	}
	if last != buckets-1 || bucketOf(-5) != 0 || bucketOf(math.MaxInt64) != buckets-1 {
		t.Error(last)
	}
	var empty Histogram
	if empty.Percentile(99) != 0 || empty.Mean() != 0 {
		t.Error("an empty histogram has no latency")
	}
}

func TestTile(t *testing.T) {
	a, b := Command{Words: []string{"a"}, Weight: 1}, Command{Words: []string{"b"}, Weight: 3}
	var got string
	for _, c := range tile([]Command{a, b}) {
		got += c.String()
	}
	if strings.Count(got, "a") != 1 || strings.Count(got, "b") != 3 || strings.Contains(got, "bbb") {
		t.Error(got)
	}
}

func TestBatch(t *testing.T) {
	spec := &Spec{Pipeline: 2, Mix: []Command{Request("MSET", "{key}", "{value:16}", "x{key}", "{value:3}"),
		Request("SET", "{key}", "{number}", "PXAT", "{deadline}")}}
	all, err := variants(spec)
	if err != nil || len(all) != 1 {
		t.Fatal(len(all), err)
	}
	b := all[0]
	b.fill(&chooser{first: 7, count: 100, sequential: true}, &Deadlines{FirstMs: 1_900_000_000_000, SpreadMs: 5})
	tail := string(filler(16)[13:])
	want := "*5\r\n$4\r\nMSET\r\n$16\r\nkey:000000000007\r\n$16\r\nv000000000007" + tail +
		"\r\n$17\r\nxkey:000000000008\r\n$3\r\n" + string(filler(3)) + "\r\n"
	if got := string(b.bytes[:b.ends[0]]); got != want {
		t.Errorf("%q\n%q", got, want)
	}
	want = "*5\r\n$3\r\nSET\r\n$16\r\nkey:000000000009\r\n$12\r\n100000000009\r\n$4\r\nPXAT\r\n$13\r\n1900000000004\r\n"
	if got := string(b.bytes[b.ends[0]:]); got != want {
		t.Errorf("%q\n%q", got, want)
	}
	if all, err = variants(&Spec{Pipeline: 1, Mix: []Command{Request("ZADD", "z", "{number}", "m-{member}", "{number}",
		"m-{member}")}}); err != nil {
		t.Fatal(err)
	}
	all[0].fill(&chooser{first: 7, count: 100, sequential: true}, &Deadlines{})
	want = "*6\r\n$4\r\nZADD\r\n$1\r\nz\r\n$12\r\n100000000000\r\n$14\r\nm-000000000007\r\n$12\r\n100000000007\r\n" +
		"$14\r\nm-000000000008\r\n"
	if got := string(all[0].bytes); got != want {
		t.Errorf("%q\n%q", got, want)
	}
	for _, word := range []string{"{nothing}", "{key", "{key}{key}", "{value}", "{value:-1}"} {
		if _, err := variants(&Spec{Pipeline: 1, Mix: []Command{Request(word)}}); err == nil {
			t.Errorf("%s is accepted", word)
		}
	}
}

func TestVariantsKeepTheProportions(t *testing.T) {
	spec := &Spec{Pipeline: 4, Mix: []Command{{Words: []string{"aa"}, Weight: 1}, {Words: []string{"bb"}, Weight: 2}}}
	all, err := variants(spec)
	if err != nil {
		t.Fatal(err)
	}
	var sent string
	for _, b := range all {
		sent += string(b.bytes)
	}
	if a, b := strings.Count(sent, "aa"), strings.Count(sent, "bb"); len(all) != 3 || a != 4 || b != 8 {
		t.Error(len(all), a, b)
	}
}

func TestChooser(t *testing.T) {
	const count = 1000
	for _, order := range []Order{Uniform, Zipf, Sequential} {
		c := newChooser(KeySpace{First: 50, Count: count, Order: order}, 3)
		var seen [count]int
		for range 100 * count {
			k := c.key()
			if k < 50 || k >= 50+count {
				t.Fatalf("%s: key %d", order, k)
			}
			seen[k-50]++
		}
		slices.Sort(seen[:])
		top := 0
		for _, n := range seen[count-count/10:] {
			top += n
		}
		switch share := float64(top) / (100 * count); {
		case order == Sequential && (seen[0] != 100 || seen[count-1] != 100):
			t.Error("sequential is not")
		case order == Uniform && (share > 0.13 || seen[0] == 0):
			t.Error("uniform: the tenth asked most gets", share)
		case order == Zipf && (share < 0.6 || share > 0.85):
			t.Error("zipf: the tenth asked most gets", share)
		}
	}
}

// TestScanner: the counts are the same however the bytes are split into pieces.
func TestScanner(t *testing.T) {
	wire := "+OK\r\n$-1\r\n$5\r\na\r\nbc\r\n:12\r\n-ERR " +
		"no\r\n*2\r\n$1\r\na\r\n*1\r\n:1\r\n*0\r\n*-1\r\n%1\r\n+k\r\n_\r\n$0\r\n\r\n+OK\r\n,1.5\r\n|1\r\n+a\r\n:1\r\n" +
		"+OK\r\n+QUEUED\r\n"
	const replies, nulls = 14, 3
	for step := 1; step < len(wire); step++ {
		var s scanner
		got := int64(0)
		for at := 0; at < len(wire); at += step {
			got += s.feed([]byte(wire[at:min(at+step, len(wire))]))
		}
		if got != replies || s.nulls != nulls || s.errors != 1 || s.firstErr != "-ERR no" || s.broken {
			t.Fatalf("steps of %d: %d replies, %+v", step, got, s)
		}
	}
	for _, wire := range []string{"x\r\n", "$a\r\n", "*\r\n", "+OK\n\n\n", "\r\n"} {
		var s scanner
		if s.feed([]byte(wire)); !s.broken {
			t.Errorf("%q is RESP", wire)
		}
	}
}

func TestRing(t *testing.T) {
	var r ring
	next, want := time.Duration(0), time.Duration(0)
	for step := range 1000 {
		for range step % 7 {
			r.push(next)
			next++
		}
		for range min(step%6, r.len()) {
			if r.at(0) != want || r.pop() != want {
				t.Fatal("not a queue")
			}
			want++
		}
	}
	if r.len() != int(next-want) {
		t.Error(r.len())
	}
}

// A fake is a server that replies +OK to every request. It delays its reply to request number stallAfter by stall, and
// counts the keys that it has seen.
type fake struct {
	net.Listener
	stallAfter int
	stall      time.Duration
	mu         sync.Mutex
	requests   int
	keys       map[string]int
}

func newFake(t *testing.T, stallAfter int, stall time.Duration) *fake {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{Listener: l, stallAfter: stallAfter, stall: stall, keys: map[string]int{}}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f
}

func (f *fake) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	client := respclient.New(readOnly{in, c})
	for {
		v, err := client.Receive()
		if err != nil {
			return
		}
		f.mu.Lock()
		if f.requests++; f.requests == f.stallAfter {
			time.Sleep(f.stall)
		}
		f.keys[v.Elems[1].Text]++
		f.mu.Unlock()
		if _, err := io.WriteString(c, "+OK\r\n"); err != nil {
			return
		}
	}
}

type readOnly struct {
	io.Reader
	net.Conn
}

func (r readOnly) Read(p []byte) (int, error) { return r.Reader.Read(p) }

func TestClosedLoop(t *testing.T) {
	f := newFake(t, 0, 0)
	r, err := Run(Spec{Address: f.Addr().String(), Connections: 3, Pipeline: 8, Requests: 1001, Idle: 2,
		Interval: time.Second,
		Mix:      []Command{Request("SET", "{key}", "{value:32}")}, Keys: KeySpace{Count: 1001, Order: Sequential}})
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests != 1001 || len(f.keys) != 1001 || f.keys["key:000000001000"] != 1 {
		t.Errorf("the server saw %d requests of %d keys", f.requests, len(f.keys))
	}
	if r.Requests != 1001 || r.Latency.Count() != 1001 || r.Errors != 0 || r.Elapsed <= 0 || r.LoadCPU <= 0 ||
		len(r.Timeline) == 0 {
		t.Errorf("%+v", r)
	}
}

func TestDurationEndsARun(t *testing.T) {
	f := newFake(t, 0, 0)
	r, err := Run(Spec{Address: f.Addr().String(), Connections: 2, Warmup: 30 * time.Millisecond,
		Duration: 100 * time.Millisecond,
		Mix:      []Command{Request("GET", "{key}")}})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || r.Elapsed < 100*time.Millisecond || r.Requests == 0 || r.Requests >= int64(f.requests) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTogether: two servers are loaded in turn, and neither gets a request during the other's slices.
func TestTogether(t *testing.T) {
	a, b := newFake(t, 0, 0), newFake(t, 0, 0)
	specs := []Spec{
		{Address: a.Addr().String(), Connections: 3, Pipeline: 8, Requests: 1001,
			Mix: []Command{Request("SET", "{key}", "{value:32}")}, Keys: KeySpace{Count: 1001, Order: Sequential}},
		{Address: b.Addr().String(), Connections: 2, Warmup: 20 * time.Millisecond, Duration: 90 * time.Millisecond,
			Mix: []Command{Request("GET", "{key}")}},
	}
	results, err := Together(specs, Slices{Count: 3, Settle: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.requests != 1001 {
		t.Errorf("the server saw %d requests, want 1001", a.requests)
	}
	sum, counted, whole, end := int64(0), int64(0), int64(0), int64(0)
	for i := range 3 {
		x, y := &results[0][i], &results[1][i]
		sum, counted, whole = sum+x.Requests, counted+y.Requests, whole+y.Whole.Requests
		if x.Requests < 333 || x.Latency.Count() != x.Requests {
			t.Errorf("slice %d: %d requests, %d latencies", i, x.Requests, x.Latency.Count())
		}
		if y.Elapsed < 30*time.Millisecond || y.Requests == 0 {
			t.Errorf("slice %d: %d requests in %v", i, y.Requests, y.Elapsed)
		}
		order := []*Result{x, y}
		for k := range order {
			r := order[(i+k)%2]
			if r.Began < end {
				t.Errorf("slice %d of server %d began while the other's was under way", i, (i+k)%2)
			}
			end = r.Began + int64(r.Elapsed)
		}
	}
	if sum != 1001 || counted >= int64(b.requests) || whole != int64(b.requests) {
		t.Errorf("%d of 1001 counted, and %d of %d that were not all to be; %d with the others",
			sum, counted, b.requests, whole)
	}
	for _, bad := range []Slices{{}, {Count: 2000}} {
		if _, err := Together(specs, bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// TestOpenLoopOmitsNothing: a server stalls for 200 ms at 1,000 requests a second. The latency of the 200 requests that
// were due meanwhile includes the stall.
func TestOpenLoopOmitsNothing(t *testing.T) {
	f := newFake(t, 200, 200*time.Millisecond)
	r, err := Run(Spec{Address: f.Addr().String(), Connections: 4, Rate: 1000, Requests: 1000,
		Mix: []Command{Request("GET", "{key}")}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 1000 || r.Overrun {
		t.Errorf("%+v", r)
	}
	if p := r.Latency.Percentile(90); p < 50*time.Millisecond {
		t.Errorf("p90 is %v: what was due during the stall is missing", p)
	}
	if p := r.Latency.Percentile(1); p > 100*time.Millisecond { // not the median: the machine itself may stall
		t.Errorf("p1 is %v: what was due outside the stall is charged for it", p)
	}
	if r.Elapsed < 950*time.Millisecond || r.SendDelay.Count() != 1000 {
		t.Errorf("%v for 1000 requests at 1000 a second, %d sendings", r.Elapsed, r.SendDelay.Count())
	}
}

func TestBadSpecs(t *testing.T) {
	get := []Command{Request("GET", "{key}")}
	for name, s := range map[string]Spec{
		"no connections": {Requests: 1, Mix: get}, "no end": {Connections: 1, Mix: get},
		"no request":    {Connections: 1, Requests: 1},
		"empty request": {Connections: 1, Requests: 1, Mix: []Command{{}}},
		"order":         {Connections: 1, Requests: 1, Mix: get, Keys: KeySpace{Order: "x"}},
		"address":       {Connections: 1, Requests: 1, Mix: get, Address: "nowhere"},
		"refused":       {Connections: 1, Requests: 1, Mix: get, Address: "127.0.0.1:1"},
	} {
		if r, err := Run(s); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// BenchmarkFill measures the generator's own work for a request, without system calls. Watch ns/request: a server needs
// 300 and more.
func BenchmarkFill(b *testing.B) {
	all, err := variants(&Spec{Pipeline: 64, Mix: []Command{Request("SET", "{key}", "{value:32}")}})
	if err != nil {
		b.Fatal(err)
	}
	keys := newChooser(KeySpace{Count: 1 << 20}, 1)
	var s scanner
	replies := []byte(strings.Repeat("$4\r\nabcd\r\n", 64))
	for b.Loop() {
		all[0].fill(keys, &Deadlines{})
		s.feed(replies)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/request")
}

// spread serves a connection. A connection that has sent LISTEN gets a push "+m" for each request of the other
// connections, after the reply to that request.
func (f *fake) spread(c net.Conn, listeners *[]net.Conn) {
	client := respclient.New(readOnly{bufio.NewReader(c), c})
	for {
		v, err := client.Receive()
		if err != nil {
			c.Close()
			return
		}
		f.mu.Lock()
		_, _ = io.WriteString(c, "+OK\r\n") // after a failure the run ends with an error
		if v.Elems[0].Text == "LISTEN" {
			*listeners = append(*listeners, c)
		} else {
			f.requests++
			for _, l := range *listeners {
				_, _ = io.WriteString(l, "+m\r\n")
			}
		}
		f.mu.Unlock()
	}
}

// TestListenersAreWaitedFor: a batch is sent only when every listener has received a push for each request of the
// previous batch.
func TestListenersAreWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := &fake{Listener: l}
	var listeners []net.Conn
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go f.spread(c, &listeners)
		}
	}()
	spec := Spec{Address: l.Addr().String(), Connections: 2, Pipeline: 4, Requests: 401, Listeners: 7,
		ListenTo: []string{"LISTEN"},
		Prelude:  [][]string{{"HELLO", "3"}}, Mix: []Command{Request("PUBLISH", "{key}")}}
	r, err := Run(spec)
	f.mu.Lock()
	if err != nil || r.Requests != 401 || len(listeners) != 7 || f.requests != 401+2 {
		t.Errorf("%+v, %v; %d listeners, %d requests", r, err, len(listeners), f.requests)
	}
	f.mu.Unlock()
	spec.Rate = 10
	if _, err := Run(spec); err == nil {
		t.Error("listeners in an open loop")
	}
}
