package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A dashboard is a dashboard process with its REST interface.
type dashboard struct {
	t      *testing.T
	server *testkit.Server
	store  []string // the store's directives, which proxies use too
	url    string
}

const writeToken = "for-tests-only-0123456789"

// startDashboard starts a dashboard with a store, and with more arguments.
func startDashboard(t *testing.T, store string, more ...string) *dashboard {
	t.Helper()
	port := testkit.FreePort(t)
	d := &dashboard{t: t, store: []string{"--store", store}, url: "http://127.0.0.1:" + strconv.Itoa(port)}
	d.server = testkit.Launch(t, testkit.Spec{Bare: true, NoWait: true, Port: port, Args: append([]string{"--dashboard",
		"--dashboard-address", "127.0.0.1:" + strconv.Itoa(port), "--dashboard-write-token", writeToken, "--store", store},
		more...)})
	testkit.Until(t, testkit.Slowly(30*time.Second), "the dashboard answers", func() error {
		_, err := d.try("GET", "/v1/products", nil) // a dashboard that is not active sends it to the active one
		return err
	})
	return d
}

// ask sends a request that must succeed.
func (d *dashboard) ask(method, path string, body any) map[string]any {
	d.t.Helper()
	reply, err := d.persist(method, path, body)
	if err != nil {
		d.t.Fatal(err)
	}
	return reply
}

// persist is try, repeated while no dashboard is active. On a busy host a lease may end. The request has changed
// nothing then (dashboard.L1).
func (d *dashboard) persist(method, path string, body any) (reply map[string]any, err error) {
	_ = testkit.Poll(testkit.Slowly(time.Minute), func() error {
		reply, err = d.try(method, path, body)
		if err != nil && (strings.Contains(err.Error(), `"not_active"`) || strings.Contains(err.Error(), `"no_active"`)) {
			return err
		}
		return nil
	})
	return reply, err
}

func (d *dashboard) try(method, path string, body any) (reply map[string]any, err error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, d.url+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+writeToken)
	request.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		return nil, err
	}
	if got.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, got.Status, text)
	}
	if len(bytes.TrimSpace(text)) > 0 && text[0] == '{' {
		err = json.Unmarshal(text, &reply)
	}
	return reply, err
}

// startGroups makes a product of plain servers, each in its own group, and starts proxies in front of it. They have a
// long timeout, because a slot that moves may be held for some seconds on a busy host.
func startGroups(t *testing.T, d *dashboard, redis bool, hash string, groups, proxies int) *tier {
	t.Helper()
	d.ask("POST", "/v1/products", map[string]any{"name": "shop", "kind": "groups", "hash": hash})
	all := &tier{}
	for i := range groups {
		all.shards = append(all.shards, testkit.Launch(t, testkit.Spec{Redis: redis}))
		d.ask("POST", "/v1/products/shop/groups", map[string]any{"id": "g" + strconv.Itoa(i), "primary": all.shards[i].Addr})
	}
	d.ask("POST", "/v1/products/shop/slots", map[string]any{"even": true})
	for range proxies {
		port := testkit.FreePort(t)
		all.proxies = append(all.proxies,
			testkit.Launch(t, testkit.Spec{Bare: true, Port: port, Args: append([]string{"--proxy",
				"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--io-threads", strconv.Itoa(1 + 2*len(all.proxies)),
				"--proxy-product", "shop", "--proxy-timeout", "60000", "--proxy-id",
				"p" + strconv.Itoa(len(all.proxies))}, d.store...)}))
	}
	return all
}

// TestRepliesOverGroups: replies equal those of one server, as in TestRepliesAreThoseOfOneServer, over plain servers in
// groups. Meanwhile a group joins and gets slots.
func TestRepliesOverGroups(t *testing.T) {
	for name, how := range map[string]struct {
		redis bool
		hash  string
		slots int // that move in make test; 0: only make soak plays this kind
	}{"spindle": {false, "crc16", 0}, "redis": {true, "crc16", 150}, "redis, Codis's slots": {true, "crc32", 0},
		"spindle, Codis's slots": {false, "crc32", 40}} {
		slots := how.slots
		if testkit.Scale() > 1 {
			slots = 500
		}
		if slots == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
			all := startGroups(t, d, how.redis, how.hash, 3, 2)
			one := testkit.Launch(t, testkit.Spec{Redis: how.redis})
			moved := make(chan struct{})
			go func() {
				defer close(moved)
				fresh := testkit.Launch(t, testkit.Spec{Redis: how.redis})
				group := map[string]any{"id": "g9", "primary": fresh.Addr}
				if _, err := d.persist("POST", "/v1/products/shop/groups", group); err != nil {
					t.Error(err)
					return
				}
				plan, err := d.persist("POST", "/v1/products/shop/plan", map[string]any{"balance": "slots"})
				if err != nil {
					t.Error(err)
					return
				}
				steps := firstOf(plan["steps"].([]any), slots)
				if _, err := d.persist("POST", "/v1/products/shop/move", map[string]any{"steps": steps}); err != nil {
					t.Error(err)
				}
			}()
			play(t, all, one, 20, 250*testkit.Scale(), false)
			<-moved
			testkit.Until(t, testkit.Slowly(120*time.Second), "the move ends", func() error {
				move, err := d.try("GET", "/v1/products/shop/move", nil)
				if err != nil {
					return err
				}
				if move["state"] != "done" {
					return fmt.Errorf("the move: %v", move)
				}
				return nil
			})
			play(t, all, one, 10, 100, true)
		})
	}
}

// TestProxiesOfOneName: moves wait for the newest proxy of a name. So the one before it ends, with the reason in its
// log. Proxies that are given no name have different ones, also with the same port.
func TestProxiesOfOneName(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc16", 1, 1)
	port := testkit.FreePort(t)
	start := func(address string, more ...string) *testkit.Server {
		args := append([]string{"--proxy", "--port", strconv.Itoa(port), "--bind", address, "--proxy-product", "shop"},
			d.store...)
		return testkit.Launch(t, testkit.Spec{Bare: true, NoWait: true, Port: port, Args: append(args, more...)})
	}
	start("127.0.0.2", "--proxy-id", "p0")
	if code := all.proxies[0].Wait(testkit.Slowly(30 * time.Second)); code == 0 {
		t.Error("a proxy whose name another one has taken ends without an error")
	}
	all.proxies[0].AwaitLog(testkit.Slowly(5*time.Second), "another process has this proxy's name")
	start("127.0.0.3")
	start("127.0.0.4")
	testkit.Until(t, testkit.Slowly(30*time.Second), "three proxies are registered", func() error {
		proxies, _ := d.ask("GET", "/v1/products/shop/proxies", nil)["proxies"].([]any)
		return testkit.Equal(len(proxies), 3)
	})
}

// TestKeysOfAnotherDatabaseMove: while a slot moves, the keys of a request move from the database of its client. Keys
// of the same name in another one do not.
func TestKeysOfAnotherDatabaseMove(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc32", 2, 1)
	const count = 500
	clients := map[int]*respclient.Client{0: all.proxies[0].Dial(), 3: all.proxies[0].Dial()}
	clients[3].Must("SELECT", 3)
	for db, c := range clients {
		for i := range count {
			c.Must("SET", fmt.Sprintf("key:%d", i), fmt.Sprintf("%d in %d", i, db))
		}
	}
	check := func(what string) {
		t.Helper()
		wrong := 0
		for db, c := range clients {
			for i := range count {
				if got := c.Must("GET", fmt.Sprintf("key:%d", i)).Text; got != fmt.Sprintf("%d in %d", i, db) {
					if wrong++; wrong <= 3 {
						t.Errorf("%s: key:%d in database %d is %q", what, i, db, got)
					}
				}
			}
		}
	}
	plan := d.ask("POST", "/v1/products/shop/plan", map[string]any{"drain": "g0"})
	d.ask("POST", "/v1/products/shop/move", map[string]any{"steps": plan["steps"], "pace": 1})
	testkit.Until(t, testkit.Slowly(60*time.Second), "slots migrate", func() error {
		ranges := fmt.Sprint(d.ask("GET", "/v1/products/shop/slots", nil)["ranges"])
		if !strings.Contains(ranges, "migrating") {
			return fmt.Errorf("the slots: %.200s", ranges)
		}
		return nil
	})
	check("while slots migrate")
	d.ask("PATCH", "/v1/products/shop/move", map[string]any{"pace": 0})
	testkit.Until(t, testkit.Slowly(120*time.Second), "the move ends", func() error {
		return testkit.Equal(d.ask("GET", "/v1/products/shop/move", nil)["state"], any("done"))
	})
	check("after the move")
}

// TestPidFilesOfAnother: a proxy or dashboard whose address another one has leaves that one's pid file alone.
func TestPidFilesOfAnother(t *testing.T) {
	t.Parallel()
	store, folder := "folder:"+testkit.MemoryDir(t), t.TempDir()
	d := startDashboard(t, store, "--pidfile", filepath.Join(folder, "dashboard"))
	all := startGroups(t, d, true, "crc16", 1, 0)
	port := testkit.FreePort(t)
	asProxy := []string{"--proxy", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--proxy-product", "shop",
		"--store", store, "--pidfile", filepath.Join(folder, "proxy")}
	p := testkit.Launch(t, testkit.Spec{Bare: true, Port: port, Args: asProxy})
	all.proxies = append(all.proxies, p)
	_, dashboardPort, _ := strings.Cut(d.url, "127.0.0.1:")
	for _, c := range []struct {
		first *testkit.Server
		file  string
		args  []string
	}{{d.server, "dashboard", []string{"--dashboard", "--dashboard-address", "127.0.0.1:" + dashboardPort,
		"--store", store, "--pidfile", filepath.Join(folder, "dashboard")}}, {p, "proxy", asProxy}} {
		second := testkit.Launch(t, testkit.Spec{Bare: true, NoWait: true, Port: c.first.Port, Args: c.args})
		if code := second.Wait(testkit.Slowly(30 * time.Second)); code == 0 {
			t.Errorf("a second %s ends without an error", c.file)
		}
		if text, err := os.ReadFile(filepath.Join(folder, c.file)); strings.TrimSpace(string(text)) !=
			strconv.Itoa(c.first.PID) {
			t.Errorf("the pid file of the %s is %q (%v), want %d", c.file, text, err, c.first.PID)
		}
	}
}

// TestSourceLoads: while a slot moves, its source starts again and loads its data. A request for a key that is still
// there waits. It once got the source's error.
func TestSourceLoads(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc16", 2, 1)
	c := all.proxies[0].Dial()
	c.SetTimeout(testkit.Slowly(2 * time.Minute))
	const count = 2000
	for i := range count {
		c.Must("SET", fmt.Sprintf("{b}%d", i), i)
	}
	const slot = 3300 // of {b}
	d.ask("POST", "/v1/products/shop/move", map[string]any{"pace": 10,
		"steps": []map[string]any{{"from": slot, "to": slot, "source": "g0", "target": "g1"}}})
	testkit.Until(t, testkit.Slowly(time.Minute), "some keys have moved", func() error {
		return testkit.Equal(all.shards[1].Do("DBSIZE").Int > 0, true)
	})
	source := all.shards[0]
	source.Do("SAVE")
	source.Kill()
	source.Again("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	for i := count - 1; i >= 0; i -= 100 {
		if v := c.Must("GET", fmt.Sprintf("{b}%d", i)); v.Text != strconv.Itoa(i) {
			t.Fatalf("key %d is %v", i, v)
		}
	}
}

// TestTargetRestarts: while a slot moves, its target ends and starts again. Requests for keys that are still at the
// source wait meanwhile. A request that came right after another one had failed to connect got an error.
func TestTargetRestarts(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc16", 2, 1)
	c := all.proxies[0].Dial()
	const count, clients = 2000, 20
	for i := range count {
		c.Must("SET", fmt.Sprintf("{b}%d", i), i)
	}
	const slot = 3300 // of {b}
	d.ask("POST", "/v1/products/shop/move", map[string]any{"pace": 10,
		"steps": []map[string]any{{"from": slot, "to": slot, "source": "g0", "target": "g1"}}})
	testkit.Until(t, testkit.Slowly(time.Minute), "some keys have moved", func() error {
		return testkit.Equal(all.shards[1].Do("DBSIZE").Int > 0, true)
	})
	target := all.shards[1]
	target.Do("SAVE")
	target.Kill()
	type answer struct {
		i   int
		v   respclient.Value
		err error
	}
	answers := make(chan answer, clients)
	for i := count - 1; i >= count-clients; i-- {
		c := all.proxies[0].Dial()
		c.SetTimeout(testkit.Slowly(2 * time.Minute))
		go func() {
			v, err := c.Do("GET", fmt.Sprintf("{b}%d", i))
			answers <- answer{i, v, err}
		}()
		testkit.Lapse(10 * time.Millisecond) // some of them come after an attempt to connect has failed
	}
	target.Again()
	for range clients {
		if a := <-answers; a.err != nil || a.v.Text != strconv.Itoa(a.i) {
			t.Errorf("key %d is %v, %v", a.i, a.v, a.err)
		}
	}
}
