package dashboard

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/proxy/store"
	"spindle/tests/testkit"
)

// put writes an entry of the product "a".
func put(t testing.TB, d *Dashboard, key string, v store.Checked) {
	t.Helper()
	value, err := store.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Commit(t.Context(), nil, []store.Write{{Key: "/spindle/a/" + key, Value: value}}); err != nil {
		t.Fatal(err)
	}
}

// look returns the overview of the product "a".
func look(t testing.TB, d *Dashboard) (v overview) {
	t.Helper()
	w := query{method: "GET", path: "/v1/products/a/overview"}.send(d)
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s %v", w.Code, w.Body, err)
	}
	return v
}

// TestOverview: a proxy's rates are those between two overviews. A proxy without figures is shown with the reason.
func TestOverview(t *testing.T) {
	var rounds atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := rounds.Add(1)
		fmt.Fprintf(w, `# HELP spindle_proxy_clients Connected clients.
spindle_proxy_clients 7
spindle_proxy_owed_replies 3
spindle_proxy_failures_total %d
spindle_proxy_request_seconds_bucket{le="0.001"} %d
spindle_proxy_request_seconds_bucket{le="+Inf"} %d
spindle_proxy_request_seconds_sum %g
spindle_proxy_request_seconds_count %d
spindle_proxy_shard_seconds_bucket{shard="127.0.0.1:7001",le="0.001"} %d
spindle_proxy_shard_seconds_bucket{shard="127.0.0.1:7001",le="+Inf"} %d
spindle_proxy_shard_seconds_sum{shard="127.0.0.1:7001"} %g
spindle_proxy_shard_seconds_count{shard="127.0.0.1:7001"} %d
spindle_proxy_shard_errors_total{shard="127.0.0.1:7001"} %d
spindle_proxy_shard_queue{shard="127.0.0.1:7001"} 5
`, 10*n, 1000*n, 1000*n, 0.5*float64(n), 1000*n, 1000*n, 1000*n, 0.4*float64(n), 1000*n, 50*n)
	}))
	defer proxy.Close()
	d := begin(t, func(s *settings) { s.ServerTimeoutMs.Set(60_000) }) // for proxies, too
	query{method: "POST", path: "/v1/products", body: `{"name":"a","kind":"groups"}`, token: "writer"}.send(d)
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.TrimPrefix(proxy.URL, "http://")
	for _, p := range []store.Proxy{{ID: "p1", Admin: admin, Host: own}, {ID: "p2", Admin: admin, Host: "elsewhere"},
		{ID: "p3"}, {ID: "p4", Admin: "127.0.0.1:1", Host: own}} {
		p.Address, p.Started, p.Instance = "127.0.0.1:7000", time.Now().UTC(), "one"
		put(t, d, "proxies/"+p.ID, &p)
	}
	put(t, d, "groups/g", &store.Group{ID: "g", Primary: "127.0.0.1:1", Servers: []store.Server{{Address: "127.0.0.1:1"}}})
	first := look(t, d)
	if len(first.Proxies) != 4 || first.Proxies[0].Traffic != nil || first.Proxies[0].Clients != 7 ||
		first.Proxies[0].Owed != 3 {
		t.Fatalf("%+v", first.Proxies)
	}
	if len(first.Groups) != 1 || first.Groups[0].Servers[0].Problem == "" || first.Groups[0].Servers[0].Role != "unknown" {
		t.Errorf("a dead server: %+v", first.Groups)
	}
	for i, want := range []string{"", "reached from elsewhere only", "no admin-address", "refused"} {
		if got := first.Proxies[i].Problem; !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("p%d has the problem %q, want %q", i+1, got, want)
		}
	}
	var second overview
	testkit.Until(t, limit, "a second look", func() error {
		if second = look(t, d); second.At == first.At {
			return fmt.Errorf("the look is shared")
		}
		return nil
	})
	took := float64(second.At-first.At) / 1e3
	got := second.Proxies[0]
	if got.Traffic == nil || len(second.Servers) != 1 {
		t.Fatalf("%+v", second)
	}
	// Both overviews begin some time before they read the figures.
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > want/2 {
			t.Errorf("%s is %v, want about %v", name, got, want)
		}
	}
	near("calls", got.Traffic.Calls, 1000/took)
	near("errors", got.Traffic.Errors, 50/took)
	near("failures", got.Failures, 10/took)
	near("a server's calls", second.Servers[0].Calls, 1000/took)
	if s := second.Servers[0]; s.Address != "127.0.0.1:7001" || s.MeanUs != 400 || s.P50Us != 500 || s.Queue != 5 {
		t.Errorf("%+v", s)
	}
	if s := got.Traffic; s.MeanUs != 500 || s.P99Us != 990 || s.Queue != 3 {
		t.Errorf("%+v", s)
	}
	if asked := rounds.Load(); asked != 2 {
		t.Errorf("the proxy was asked %d times for two looks", asked)
	}
	// Another process has other counters, so no rate is computed across the two.
	put(t, d, "proxies/p1", &store.Proxy{ID: "p1", Admin: admin, Host: own, Address: "127.0.0.1:7000", Instance: "two",
		Started: time.Now().UTC()})
	testkit.Until(t, limit, "a third look", func() error {
		v := look(t, d)
		if v.At != second.At && v.Proxies[0].Traffic == nil {
			return nil
		}
		return fmt.Errorf("%+v", v.Proxies[0])
	})
	for _, path := range []string{"/v1/products/b/overview", "/v1/products/%3Cb%3E/overview"} {
		if w := (query{method: "GET", path: path}).send(d); codeOf(t, w) != "no_product" {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}

// TestSpan: the calls of several proxies are added up, each over its own interval, even if their bounds differ.
func TestSpan(t *testing.T) {
	s := &span{}
	s.add(nil, &counters{calls: 100, seconds: 1, below: map[float64]float64{0.01: 100, math.Inf(1): 100}}, 2*time.Second)
	before := &counters{calls: 50, seconds: 9, failed: 5, below: map[float64]float64{0.02: 50, math.Inf(1): 50}}
	s.add(before, &counters{calls: 150, seconds: 10, failed: 7, below: map[float64]float64{0.02: 50, math.Inf(1): 150}},
		time.Second)
	got := *s.traffic()
	if want := (traffic{Calls: 150, Errors: 2, MeanUs: 10000, P50Us: 10000, P99Us: 20000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := *(&span{}).traffic(); got != (traffic{}) {
		t.Errorf("without a call: %+v", got)
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct{ line, name, label, rest string }{
		{`clients 7`, "clients", "", "7"},
		{`calls{shard="a:1"} 3`, "calls", "a:1", " 3"},
		{`calls{x="}",shard="a\"b\\\n"} 3 99`, "calls", "a\"b\\\n", " 3 99"},
		{`calls{shard="a`, "calls", "a", ""},
		{`calls{} 3`, "calls", "", " 3"},
		{`calls`, "calls", "", ""},
	} {
		name, labels, rest := cutLabels(c.line)
		if name != c.name || labels["shard"] != c.label || rest != c.rest {
			t.Errorf("%q: %q, %q, %q", c.line, name, labels, rest)
		}
	}
}

// FuzzFigures: whatever an admin address returns, no figure is negative, and each can be written as JSON.
func FuzzFigures(f *testing.F) {
	f.Add("spindle_proxy_clients 7\nspindle_proxy_shard_seconds_bucket{shard=\"a\",le=\"0.1\"} 5\n")
	f.Add("spindle_proxy_request_seconds_bucket{le=\"+Inf\"} 1e308\nspindle_proxy_request_seconds_count 1e300")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := readSample(strings.NewReader(text))
		if err != nil {
			return
		}
		p := proxySight{}
		servers := map[string]*span{}
		p.fill(&sample{at: s.at}, s, servers)
		for _, span := range servers {
			if t0 := span.traffic(); t0.Calls < 0 || t0.Errors < 0 || t0.P99Us < 0 || t0.MeanUs < 0 {
				t.Fatalf("%+v of %q", t0, text)
			}
		}
		if _, err := json.Marshal(p); err != nil {
			t.Fatalf("%v of %q", err, text)
		}
	})
}
