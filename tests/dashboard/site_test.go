package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/proxy/store"
	"spindle/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Waiting(m) }

// limit is the time limit for anything that a test waits for.
var limit = testkit.Slowly(90 * time.Second)

// secret is the token for writing.
const secret = "a-token-for-tests"

// A site is a store with dashboards.
type site struct {
	t          *testing.T
	address    string        // the address of the store, in the form of the directive
	etcd       *testkit.Etcd // nil if the store is a folder
	store      store.Store   // for the test itself
	product    store.Product // its rule for slots
	dashboards []*process
	down       int // calls go to the first dashboard that runs
}

// A process is one dashboard process.
type process struct {
	*testkit.Server
	url string
}

// newSite starts an etcd of n members, or uses a folder, and starts some dashboards.
func newSite(t *testing.T, members, count int, more ...string) *site {
	t.Helper()
	s := &site{t: t, product: store.Product{Hash: store.HashCRC16, Slots: 16384}}
	if members == 0 {
		dir := testkit.MemoryDir(t)
		f, err := store.OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.address, s.store = "folder:"+dir, f
	} else {
		e := testkit.StartEtcd(t, members)
		s.etcd = e
		s.address = "etcd://" + strings.Join(e.Addrs(), ",")
		s.store = store.OpenEtcd(e.Addrs(), store.Options{Timeout: testkit.Slowly(3 * time.Second)})
	}
	t.Cleanup(s.store.Close)
	for range count {
		s.startDashboard(more...)
	}
	s.awaitActive()
	return s
}

func (s *site) startDashboard(more ...string) *process {
	s.t.Helper()
	port := testkit.FreePort(s.t)
	args := append([]string{"--dashboard", "--dashboard-address", fmt.Sprintf("127.0.0.1:%d", port), "--store", s.address,
		"--dashboard-write-token", secret, "--dashboard-lease", "2"}, more...)
	b := &process{testkit.Launch(s.t, testkit.Spec{Bare: true, NoWait: true, Port: port, Args: args}),
		fmt.Sprintf("http://127.0.0.1:%d", port)}
	s.dashboards = append(s.dashboards, b)
	testkit.Until(s.t, limit, "a dashboard", func() error {
		if b.Ended() {
			s.t.Fatalf("the dashboard ended:\n%s", b.Log())
		}
		_, _, err := s.call(b, "GET", "/healthz", nil)
		return err
	})
	return b
}

// awaitActive waits until a dashboard is active, and returns it.
func (s *site) awaitActive() (active *process) {
	s.t.Helper()
	testkit.Until(s.t, limit, "an active dashboard", func() error {
		for _, b := range s.dashboards {
			_, body, err := s.call(b, "GET", "/healthz", nil)
			if err == nil && strings.Contains(body, `"active"`) && strings.Contains(body, b.url) {
				active = b
				return nil
			}
		}
		return errors.New("none is active")
	})
	return active
}

// client follows no redirects by itself.
var client = &http.Client{Timeout: testkit.Slowly(time.Minute),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// call sends one request with the token for writing.
func (s *site) call(b *process, method, path string, body any) (status int, reply string, err error) {
	var text io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, "", err
		}
		text = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, b.url+path, text)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+secret)
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return response.StatusCode, string(all), err
}

// try sends a request to the active dashboard, and returns an error if it is refused.
func (s *site) try(method, path string, body, reply any) error {
	s.t.Helper()
	status, text, err := s.call(s.awaitActive(), method, path, body)
	for err == nil && (strings.Contains(text, `"code":"no_active"`) || strings.Contains(text, `"code":"not_active"`)) {
		// On a busy host its short lease has lapsed.
		status, text, err = s.call(s.awaitActive(), method, path, body)
	}
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%d %s", status, text)
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal([]byte(text), reply)
}

// do is try, but a refusal fails the test.
func (s *site) do(method, path string, body, reply any) {
	s.t.Helper()
	if err := s.try(method, path, body, reply); err != nil {
		s.t.Fatalf("%s %s %v: %v", method, path, body, err)
	}
}

// refuses sends a request that must be refused with code.
func (s *site) refuses(method, path string, body any, code string) {
	s.t.Helper()
	err := s.try(method, path, body, nil)
	if err == nil || !strings.Contains(err.Error(), `"code":"`+code+`"`) {
		s.t.Errorf("%s %s %v is not refused with %s: %v", method, path, body, code, err)
	}
}

// A record is a JSON object.
type record = map[string]any

// fewSlots gives the product Codis's rule, so that a move of a large part of it has few slots. With SPINDLE_TEST_SCALE
// it keeps the rule of Redis Cluster.
func (s *site) fewSlots() *site {
	if testkit.Scale() == 1 {
		s.product = store.Product{Hash: store.HashCRC32, Slots: 1024}
	}
	return s
}

// groups creates the product "shop" over groups g0, g1, … with one server each. The first groups have all slots, in
// equal parts.
func (s *site) groups(with int, servers ...*testkit.Server) {
	s.t.Helper()
	s.do("POST", "/v1/products", record{"name": "shop", "kind": "groups", "hash": s.product.Hash}, nil)
	for i, server := range servers {
		s.do("POST", "/v1/products/shop/groups", record{"id": fmt.Sprintf("g%d", i), "primary": server.Addr}, nil)
		if i == with-1 {
			s.do("POST", "/v1/products/shop/slots", record{"even": true}, nil)
		}
	}
}

// A plan is the reply of /plan.
type plan struct {
	Steps     []store.Step
	Moved     int
	Imbalance struct{ Before, After float64 }
}

// A move is the reply of /move.
type move struct {
	State   string
	Slots   int
	Done    int
	Keys    int64
	Bytes   int64
	Waiting []string
	Problem string
}

// plan requests a plan.
func (s *site) plan(order record) (p plan) {
	s.t.Helper()
	s.do("POST", "/v1/products/shop/plan", order, &p)
	return p
}

func (s *site) move() (m move, err error) {
	err = s.try("GET", "/v1/products/shop/move", nil, &m)
	return m, err
}

// awaitMove waits until the move is in a state.
func (s *site) awaitMove(state string) (m move) {
	s.t.Helper()
	testkit.Until(s.t, limit, "the move's end", func() (err error) {
		if m, err = s.move(); err == nil && m.State != state {
			err = fmt.Errorf("it is %+v", m)
		}
		return err
	})
	return m
}

// table returns the table of slots in the store.
func (s *site) table() *store.Slots {
	s.t.Helper()
	e, err := s.store.Get(context.Background(), "/spindle/shop/slots")
	if err != nil {
		s.t.Fatal(err)
	}
	var slots store.Slots
	if err := store.Decode(e, &slots); err != nil {
		s.t.Fatal(err)
	}
	return &slots
}

// owners returns the group of each slot, and fails the test if a slot is under way.
func (s *site) owners() []string {
	s.t.Helper()
	t := s.table()
	owners := make([]string, t.Slots)
	for _, r := range t.Ranges {
		if r.State != "" {
			s.t.Errorf("slots %d to %d are in state %s", r.From, r.To, r.State)
		}
		for slot := r.From; slot <= r.To; slot++ {
			owners[slot] = r.Group
		}
	}
	return owners
}

// place writes n keys, each to the server of its slot's group, in two databases and with some deadlines.
func (s *site) place(n int, servers ...*testkit.Server) {
	s.t.Helper()
	owners, product := s.owners(), s.product
	for i, server := range servers {
		c := server.Dial()
		for _, db := range []int{0, 3} {
			c.Must("SELECT", db)
			var keys []string
			for j := range n {
				if key := fmt.Sprintf("key:%d", j); owners[product.SlotOf([]byte(key))] == fmt.Sprintf("g%d", i) {
					keys = append(keys, key)
				}
			}
			testkit.Pipe(s.t, c, len(keys), func(i int) []any {
				if i%5 == 0 {
					return []any{"SET", keys[i], value(keys[i], db), "EX", 100000}
				}
				return []any{"SET", keys[i], value(keys[i], db)}
			})
		}
	}
}

func value(key string, db int) string { return fmt.Sprintf("value of %s in %d", key, db) }

// holdsAll checks that each of the n keys of place is on the server of its slot's group, and nowhere else.
func (s *site) holdsAll(n int, servers ...*testkit.Server) {
	s.t.Helper()
	owners, product := s.owners(), s.product
	var found int64
	for i, server := range servers {
		c := server.Dial()
		for _, db := range []int{0, 3} {
			c.Must("SELECT", db)
			found += c.Must("DBSIZE").Int
			var keys []string
			for j := range n {
				if key := fmt.Sprintf("key:%d", j); owners[product.SlotOf([]byte(key))] == fmt.Sprintf("g%d", i) {
					keys = append(keys, key)
				}
			}
			for _, key := range keys {
				c.Send("GET", key)
			}
			for _, key := range keys {
				if v, err := c.Receive(); err != nil || v.Text != value(key, db) {
					s.t.Fatalf("g%d has %v under %s in database %d, %v", i, v, key, db, err)
				}
			}
		}
	}
	if found != int64(2*n) {
		s.t.Errorf("the servers hold %d keys of %d: some are there twice", found, 2*n)
	}
}

// A proxy is the store client of a proxy, without a data path.
type proxy struct {
	client *store.Client
	info   store.Proxy
	stop   context.CancelFunc

	mu     sync.Mutex
	silent bool // the proxy confirms no tables
	last   *store.Table
}

// addProxy registers a proxy that confirms every table, until it is silenced.
func (s *site) addProxy(id, address string) *proxy {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	host, err := os.Hostname()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &proxy{stop: cancel, info: store.Proxy{ID: id, Address: address, Host: host, Started: time.Now().UTC()},
		client: store.NewClient(s.store, "/spindle", "shop", func(err error) { s.t.Log(err) })}
	testkit.Until(s.t, limit, "a registration", func() error { return p.client.Register(ctx, p.info) })
	go func() {
		for table := range p.client.Follow(ctx) {
			p.mu.Lock()
			p.last = table
			if !p.silent {
				p.client.Confirm(table.Revision)
			}
			p.mu.Unlock()
		}
	}()
	return p
}

// setSilent stops the proxy's confirmations, or makes it confirm everything again.
func (p *proxy) setSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
	if !silent && p.last != nil {
		p.client.Confirm(p.last.Revision)
	}
}

// awaitCurrent waits until every proxy is present and has confirmed the table.
func (s *site) awaitCurrent() {
	s.t.Helper()
	testkit.Until(s.t, limit, "the proxies", func() error {
		var reply struct {
			Proxies []struct {
				ID               string
				Present, Current bool
			}
		}
		if err := s.try("GET", "/v1/products/shop/proxies", nil, &reply); err != nil {
			return err
		}
		for _, p := range reply.Proxies {
			if !p.Present || !p.Current {
				return fmt.Errorf("%+v", p)
			}
		}
		return nil
	})
}
