package proxy

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A shop is a product of four shards with two proxies and two dashboards. Its store is etcd. The second proxy reaches
// the store through a relay, which can be cut.
type shop struct {
	tier
	t          *testing.T
	etcd       *testkit.Etcd
	relay      *relay
	dashboards []*dashboard
}

// startShop makes a product of groups, or a cluster. The fourth shard has no slots yet.
func startShop(t *testing.T, cluster, redis bool) *shop {
	t.Helper()
	s := &shop{t: t, etcd: testkit.StartEtcd(t, 1)}
	s.relay = startRelay(t, s.etcd.Members[0].Addr)
	address := "etcd://" + s.etcd.Members[0].Addr
	for range 2 {
		s.dashboards = append(s.dashboards, startDashboard(t, address, "--dashboard-lease", "2"))
	}
	var group []map[string]any
	if cluster {
		s.shards = startTier(t, redis, 0, 0).shards
		s.shards = append(s.shards, testkit.Launch(t, testkit.Spec{Redis: redis, Args: []string{"--cluster-enabled", "yes",
			"--cluster-node-timeout", "15000", "--cluster-port", strconv.Itoa(testkit.FreePort(t))}}))
		s.do("POST", "/v1/products", map[string]any{"name": "shop", "kind": "cluster", "seeds": []string{s.shards[0].Addr}})
		group = append(group, map[string]any{"primary": s.shards[3].Addr})
	} else {
		s.do("POST", "/v1/products", map[string]any{"name": "shop", "kind": "groups"})
		for i := range 4 {
			s.shards = append(s.shards, testkit.Launch(t, testkit.Spec{Redis: redis}))
			group = append(group, map[string]any{"id": "g" + strconv.Itoa(i), "primary": s.shards[i].Addr})
		}
	}
	for i, g := range group {
		s.do("POST", "/v1/products/shop/groups", g)
		if !cluster && i == 2 {
			s.do("POST", "/v1/products/shop/slots", map[string]any{"even": true})
		}
	}
	for i, store := range []string{address, "etcd://" + s.relay.addr} {
		port := testkit.FreePort(t)
		s.proxies = append(s.proxies, testkit.Launch(t, testkit.Spec{Bare: true, Port: port, Args: []string{"--proxy",
			"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--store", store, "--proxy-product", "shop", "--proxy-id",
			"p" + strconv.Itoa(i), "--proxy-timeout", "60000"}}))
	}
	return s
}

// try sends a request to the active dashboard.
func (s *shop) try(method, path string, body any) (reply map[string]any, err error) {
	for _, d := range s.dashboards {
		if d.server.Ended() {
			continue
		}
		health, failed := d.try("GET", "/healthz", nil)
		if failed != nil || health["status"] != "active" {
			err = fmt.Errorf("%v (%v)", health, failed)
			continue
		}
		return d.try(method, path, body)
	}
	return nil, err
}

// do sends a request that must succeed once a dashboard is active.
func (s *shop) do(method, path string, body any) (reply map[string]any) {
	s.t.Helper()
	testkit.Until(s.t, testkit.Slowly(time.Minute), method+" "+path, func() (err error) {
		reply, err = s.try(method, path, body)
		return err
	})
	return reply
}

// awaitMove waits until the move holds.
func (s *shop) awaitMove(what string, holds func(move map[string]any) bool) (move map[string]any) {
	s.t.Helper()
	testkit.Until(s.t, testkit.Slowly(2*time.Minute), what, func() (err error) {
		if move, err = s.try("GET", "/v1/products/shop/move", nil); err == nil && !holds(move) {
			err = fmt.Errorf("the move: %v", move)
		}
		return err
	})
	return move
}

// group is the name of the group of the fourth shard.
func (s *shop) group() string {
	s.t.Helper()
	for _, g := range s.do("GET", "/v1/products/shop/groups", nil)["groups"].([]any) {
		if g := g.(map[string]any); g["primary"] == s.shards[3].Addr {
			return g["id"].(string)
		}
	}
	s.t.Fatal("the fourth shard has no group")
	return ""
}

// A relay passes connections on to a server, unless it is cut.
type relay struct {
	addr  string
	mu    sync.Mutex
	isCut bool
	open  map[net.Conn]struct{}
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String(), open: map[net.Conn]struct{}{}}
	t.Cleanup(func() {
		l.Close()
		r.setCut(true)
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(c, to)
		}
	}()
	return r
}

func (r *relay) pass(c net.Conn, to string) {
	defer c.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	if r.isCut {
		r.mu.Unlock()
		return
	}
	r.open[c], r.open[server] = struct{}{}, struct{}{}
	r.mu.Unlock()
	go func() {
		_, _ = io.Copy(server, c)
		server.Close()
	}()
	_, _ = io.Copy(c, server)
	r.mu.Lock()
	delete(r.open, c)
	delete(r.open, server)
	r.mu.Unlock()
}

// setCut ends all connections, and refuses later ones, or lets them pass again.
func (r *relay) setCut(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isCut = cut; cut {
		for c := range r.open {
			c.Close()
		}
	}
}

// writers write rising numbers to keys through the proxies, each writer to its own keys. Most send pipelines. Some are
// probes: they send one request at a time, and are timed.
type writers struct {
	rate    int // writes a second of those with pipelines
	keys    int // of each writer
	stop    chan struct{}
	running sync.WaitGroup
	writes  atomic.Int64

	acknowledged, sent [][]int64 // by writer and key

	mu     sync.Mutex
	failed map[string]int // errors
	took   latencies      // of the probes
}

const (
	pipeline   = 16
	pipelining = 8 // writers that send pipelines
	probing    = 4
)

// probeEvery is how long a probe waits between requests. With SPINDLE_TEST_SCALE the times of many requests are of use.
func probeEvery() time.Duration {
	if testkit.Scale() > 1 {
		return 2 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// startWriters writes each key once, and begins to write.
func (s *shop) startWriters(rate, keys int) *writers {
	s.t.Helper()
	w := &writers{rate: rate, keys: keys / (pipelining + probing), stop: make(chan struct{}), failed: map[string]int{}}
	for range pipelining + probing {
		w.acknowledged = append(w.acknowledged, make([]int64, w.keys))
		w.sent = append(w.sent, make([]int64, w.keys))
	}
	testkit.Pipe(s.t, s.proxies[0].Dial(), len(w.sent)*w.keys, func(i int) []any {
		writer, at := i/w.keys, i%w.keys
		w.sent[writer][at], w.acknowledged[writer][at] = 1, 1
		return []any{"SET", keyOf(writer, at), 1}
	})
	for i := range pipelining + probing {
		w.running.Go(func() { w.write(s, i) })
	}
	return w
}

// write is one writer. After its connection has ended it uses the other proxy.
func (w *writers) write(s *shop, writer int) {
	var c *respclient.Client
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	batch, every := pipeline, time.Second*pipeline*pipelining/time.Duration(w.rate)
	if writer >= pipelining {
		batch, every = 1, probeEvery()
	}
	proxy, next := writer, time.Now()
	for at := 0; ; at = (at + batch) % w.keys {
		select {
		case <-w.stop:
			return
		default:
		}
		if c == nil {
			var err error
			if c, err = respclient.DialTimeout(s.proxies[proxy%len(s.proxies)].Addr, time.Second); err != nil {
				c = nil
				proxy++
				testkit.Lapse(5 * time.Millisecond)
				continue
			}
			c.SetTimeout(testkit.Slowly(5 * time.Minute))
		}
		var requests [][]any
		for i := range min(batch, w.keys-at) {
			w.sent[writer][at+i]++
			requests = append(requests, []any{"SET", keyOf(writer, at+i), w.sent[writer][at+i]})
		}
		begun := time.Now()
		replies, err := c.Pipeline(requests...)
		w.mu.Lock()
		if batch == 1 {
			w.took = append(w.took, time.Since(begun))
		}
		if err != nil {
			w.failed["connection"]++
		}
		for i, v := range replies {
			if v.Text == "OK" {
				w.acknowledged[writer][at+i] = w.sent[writer][at+i]
				w.writes.Add(1)
			} else {
				w.failed[v.Text]++
			}
		}
		w.mu.Unlock()
		if err != nil {
			c.Close()
			c = nil
			proxy++
		}
		next = next.Add(every)
		if pause := time.Until(next); pause > 0 {
			testkit.Lapse(pause)
		} else {
			next = time.Now()
		}
	}
}

func keyOf(writer, i int) string { return fmt.Sprintf("w:%d:%d", writer, i) }

// lap returns what happened since the last lap: how long the probes' requests took, and errors by text.
func (w *writers) lap() (latencies, map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	took, failed := w.took, w.failed
	w.took, w.failed = nil, map[string]int{}
	return took, failed
}

// check reads each key. Its number is the last acknowledged one, or a later one that was sent.
func (w *writers) check(t *testing.T, p *testkit.Server) {
	t.Helper()
	c := p.Dial()
	for writer := range w.acknowledged {
		for from := 0; from < w.keys; from += 1000 {
			var requests [][]any
			for i := from; i < min(from+1000, w.keys); i++ {
				requests = append(requests, []any{"GET", keyOf(writer, i)})
			}
			replies, err := c.Pipeline(requests...)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range replies {
				got, _ := strconv.ParseInt(v.Text, 10, 64)
				if least, most := w.acknowledged[writer][from+i], w.sent[writer][from+i]; got < least || got > most {
					t.Errorf("%s is %v; %d was acknowledged, %d was sent last", keyOf(writer, from+i), show(v), least, most)
				}
			}
		}
	}
}

// TestQuarterMovesUnderWrites: a quarter of the slots moves to a fresh shard and back, while clients write through two
// proxies. Each time something else fails. Every acknowledged write is there, and no client reads an error except of
// what has failed. SPINDLE_TEST_SCALE=10 writes 10,000 times a second, and each failure lasts for a minute.
func TestQuarterMovesUnderWrites(t *testing.T) {
	for _, kind := range []struct {
		name           string
		cluster, redis bool
		slots          int // that move in make test, a cluster's one by one; 0: only make soak plays this kind
	}{{"groups of redis-servers", false, true, 250}, {"a cluster of spindle", true, false, 40},
		{"groups of spindle", false, false, 0}, {"a cluster of redis-servers", true, true, 0}} {
		slots := kind.slots
		if testkit.Scale() > 1 {
			slots = 1 << 14
		}
		if slots == 0 {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			if testkit.Scale() == 1 {
				t.Parallel()
			}
			moveQuarters(t, startShop(t, kind.cluster, kind.redis), slots, kind.cluster)
		})
	}
}

// A trouble is what fails during a move.
type trouble struct {
	name   string
	begins func()
	ends   func()
	errors []string // that clients may read, by their beginning
	groups bool     // a move over groups asks proxies; that of a cluster does not
}

// moveQuarters moves slots with each trouble. In a cluster, without SPINDLE_TEST_SCALE, nothing happens to proxies.
func moveQuarters(t *testing.T, s *shop, slots int, cluster bool) {
	scale := testkit.Scale()
	rate, keys, pace, outage := 300, 4000, 50, time.Second
	if scale > 1 {
		rate, keys, pace = 1000*scale, 4000*scale, 100*scale
		outage = min(6*time.Duration(scale)*time.Second, time.Minute)
	}
	fourth := s.group()
	w := s.startWriters(rate, keys)
	testkit.Lapse(outage)
	quiet, failed := w.lap()
	if len(failed) > 0 {
		t.Fatalf("errors before the first move: %v", failed)
	}
	t.Logf("quiet: %v", quiet)
	killed := s.shards[3]
	unserved := []string{"ERR the connection to the shard", "CLUSTERDOWN "} // what may have run is not sent again
	if scale > 1 {
		unserved = append(unserved, "ERR the shard ") // a request waits for some seconds, and the outage is longer
	}
	const waits = "TRYAGAIN the slot is moving"
	troubles := []trouble{
		{name: "nothing", begins: func() {}, ends: func() {}},
		{name: "the source's primary is killed", begins: func() {
			s.protect(killed)
			killed.Kill()
		}, ends: func() {
			killed.Restart("--appendonly", "yes", "--appendfsync", "always")
			killed.AwaitReady(testkit.Slowly(time.Minute))
		}, errors: unserved},
		{name: "the active dashboard is killed", begins: func() { s.killActive() }, ends: func() { s.restartDashboard() }},
		{name: "a proxy is killed", begins: func() { s.proxies[0].Kill() }, ends: func() { s.proxies[0].Restart() },
			errors: []string{"connection"}, groups: true},
		{name: "etcd is down", begins: s.etcd.Members[0].Kill, ends: s.etcd.Members[0].Restart, errors: []string{waits}},
		{name: "a proxy is cut off from the store", begins: func() { s.relay.setCut(true) },
			ends: func() { s.relay.setCut(false) }, errors: []string{waits}, groups: true},
	}
	if cluster && scale == 1 {
		troubles = slices.DeleteFunc(troubles, func(tr trouble) bool { return tr.groups })
	}
	for round, trouble := range troubles {
		order := map[string]any{"balance": "slots"}
		if round%2 == 1 {
			order = map[string]any{"drain": fourth}
		}
		// The pace makes the move last longer than the trouble's beginning.
		begun, before := time.Now(), w.writes.Load()
		plan := s.do("POST", "/v1/products/shop/plan", order)
		steps := firstOf(plan["steps"].([]any), slots)
		s.do("POST", "/v1/products/shop/move", map[string]any{"steps": steps, "pace": pace})
		s.awaitMove("some keys", func(m map[string]any) bool { return m["keys"].(float64) > 3 || m["state"] == "done" })
		trouble.begins()
		if round > 0 {
			testkit.Lapse(outage)
		}
		trouble.ends()
		hurries := false
		m := s.awaitMove("the move is done", func(m map[string]any) bool {
			if m["state"] == "done" {
				return true
			}
			if !hurries {
				_, err := s.try("PATCH", "/v1/products/shop/move", map[string]any{"pace": 0}) // refused if it is done by now
				hurries = err == nil
			}
			return false
		})
		if m["done"] != m["slots"] || m["slots"].(float64) < float64(min(slots, 4000)) {
			t.Errorf("%s: %v", trouble.name, m)
		}
		took, failed := w.lap()
		for text, n := range failed {
			if !slices.ContainsFunc(trouble.errors, func(prefix string) bool { return strings.HasPrefix(text, prefix) }) {
				t.Errorf("%s: %d times %q", trouble.name, n, text)
			}
		}
		seconds := time.Since(begun).Seconds()
		t.Logf("%s: %v slots with %v keys in %.1f s at %.0f writes/s, errors %v, probes: %v", trouble.name,
			m["slots"], m["keys"], seconds, float64(w.writes.Load()-before)/seconds, failed, took)
	}
	close(w.stop)
	w.running.Wait()
	for _, p := range s.proxies {
		w.check(t, p)
	}
}

// firstOf returns the steps of a plan that move its first slots.
func firstOf(steps []any, slots int) (first []any) {
	for _, step := range steps {
		step := step.(map[string]any)
		from, to := int(step["from"].(float64)), int(step["to"].(float64))
		if to = min(to, from+slots-1); to < from {
			break
		}
		step["to"] = to
		first, slots = append(first, step), slots-(to-from+1)
	}
	return first
}

// protect has a server write each change to disk before it answers.
func (s *shop) protect(server *testkit.Server) {
	server.Do("CONFIG", "SET", "appendfsync", "always", "appendonly", "yes")
	testkit.Until(s.t, testkit.Slowly(time.Minute), "the log is on", func() error {
		return testkit.Equal(server.Info("persistence")["aof_rewrite_in_progress"], "0")
	})
}

// killActive kills the active dashboard.
func (s *shop) killActive() {
	s.t.Helper()
	testkit.Until(s.t, testkit.Slowly(time.Minute), "a dashboard is active", func() error {
		for _, d := range s.dashboards {
			if health, err := d.try("GET", "/healthz", nil); err == nil && health["status"] == "active" {
				d.server.Kill()
				return nil
			}
		}
		return fmt.Errorf("none is")
	})
}

// restartDashboard starts the dashboard again that was killed.
func (s *shop) restartDashboard() {
	for _, d := range s.dashboards {
		if d.server.Ended() {
			d.server.Again()
		}
	}
}
