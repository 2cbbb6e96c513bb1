package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// keysOf returns a key of a shard, and one of another shard.
func (all *tier) keysOf(t *testing.T, shard *testkit.Server) (here, elsewhere string) {
	t.Helper()
	for _, key := range spread {
		if all.ownerOf(t, key) == shard {
			here = key
		} else {
			elsewhere = key
		}
	}
	if here == "" || elsewhere == "" {
		t.Fatal("no key of the shard, or all are")
	}
	return here, elsewhere
}

// TestShardInTrouble: a shard's errors about a long script, its memory and its disk reach the client unchanged. Clients
// of other shards are served meanwhile.
func TestShardInTrouble(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startTier(t, redis, 0, 1)
			t.Run("a long script", func(t *testing.T) { meetScript(t, all) })
			t.Run("no memory", func(t *testing.T) { meetFullMemory(t, all) })
			t.Run("a full disk", func(t *testing.T) { meetFullDisk(t, all) })
		})
	}
}

// TestRequestsWaitForAShard: a shard is down for a moment. A transaction, WATCH and a blocking command wait for it, and
// so do requests that go to several shards.
func TestRequestsWaitForAShard(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 1, "--proxy-timeout", "60000")
	p, shard := all.proxies[0], all.ownerOf(t, "a")
	here, elsewhere := all.keysOf(t, shard)
	shard.Kill()
	single := p.Dial()
	send(t, single, "SET", here, "x")
	testkit.Until(t, testkit.Slowly(time.Minute), "the proxy has tried to reach the shard", func() error {
		if p.InfoInt("stats", "proxy_retries") < 3 {
			return fmt.Errorf("it has not")
		}
		return nil
	})
	var clients []*respclient.Client
	requests := [][]any{{"WATCH", here}, {"BLPOP", "{" + here + "}list", 0.01}, {"FLUSHALL"},
		{"MGET", "{" + here + "}other", elsewhere}}
	for _, request := range requests {
		c := p.Dial()
		send(t, c, request...)
		clients = append(clients, c)
	}
	multi := p.Dial()
	expect(t, multi, "OK", "MULTI")
	send(t, multi, "GET", "{"+here+"}other")
	shard.Restart()
	hears(t, single, "OK")
	for i, want := range []string{"OK", "null", "OK", "[null null]"} {
		if v, err := clients[i].Receive(); err != nil || show(v) != want {
			t.Errorf("%v: %s (%v); want %s", requests[i], show(v), err, want)
		}
	}
	hears(t, multi, "QUEUED")
	expect(t, multi, "[null]", "EXEC")
}

func meetScript(t *testing.T, all *tier) {
	p := all.proxies[0]
	shard := all.ownerOf(t, "a")
	here, elsewhere := all.keysOf(t, shard)
	shard.Do("CONFIG", "SET", "lua-time-limit", 20)
	lengthen(p)
	c, here1, other := p.Dial(), p.Dial(), p.Dial()
	send(t, c, "EVAL", "while true do end", 1, here)
	testkit.Until(t, testkit.Slowly(10*time.Second), "the shard is busy", func() error {
		v, err := shard.Dial().Do("SET", here, "x")
		if err != nil || !strings.HasPrefix(v.Text, "BUSY") {
			return fmt.Errorf("%v (%v)", v, err)
		}
		return nil
	})
	testkit.Lapse(testkit.Slowly(300 * time.Millisecond)) // by then only the script uses its connection
	if v := ask(t, here1, "SET", here, "x"); !strings.HasPrefix(v.Text, "BUSY") {
		t.Errorf("SET at the shard: %v", v)
	}
	for range 20 {
		expect(t, other, "OK", "SET", elsewhere, "x")
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "the script is killed", func() error {
		return ask(t, other, "SCRIPT", "KILL").Err()
	})
	if v, err := c.Receive(); err != nil || v.Err() == nil {
		t.Errorf("the script's client reads %v (%v)", v, err)
	}
	expect(t, here1, "OK", "SET", here, "x")
}

func meetFullMemory(t *testing.T, all *tier) {
	p, shard := all.proxies[0], all.ownerOf(t, "a")
	here, elsewhere := all.keysOf(t, shard)
	c := p.Dial()
	shard.Do("CONFIG", "SET", "maxmemory", 1)
	if v := ask(t, c, "SET", here, "x"); !strings.HasPrefix(v.Text, "OOM ") {
		t.Errorf("SET at the shard: %v", v)
	}
	expect(t, c, "OK", "SET", elsewhere, "y")
	if v := ask(t, c, "MSET", here, "z", elsewhere, "z"); !strings.HasPrefix(v.Text, "OOM ") ||
		!strings.HasSuffix(v.Text, "(shard "+shard.Addr+"; done by 1 of 2 shards)") {
		t.Errorf("MSET: %v", v)
	}
	expect(t, c, "z", "GET", elsewhere)
	expect(t, c, "OK", "MULTI")
	if v := ask(t, c, "SET", here, "x"); !strings.HasPrefix(v.Text, "OOM ") {
		t.Errorf("SET in MULTI: %v", v)
	}
	expect(t, c, "EXECABORT Transaction discarded because of previous errors.", "EXEC")
	shard.Do("CONFIG", "SET", "maxmemory", 0)
	expect(t, c, "OK", "SET", here, "x")
}

func meetFullDisk(t *testing.T, all *tier) {
	p, shard := all.proxies[0], all.ownerOf(t, "a")
	here, elsewhere := all.keysOf(t, shard)
	if err := os.Mkdir(filepath.Join(shard.Dir, "dump.rdb"), 0o755); err != nil { // so that no file can replace it
		t.Fatal(err)
	}
	shard.Do("CONFIG", "SET", "save", "3600 1")
	shard.Do("BGSAVE")
	shard.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "rdb_last_bgsave_status", "err")
	c := p.Dial()
	if v := ask(t, c, "SET", here, "x"); !strings.HasPrefix(v.Text, "MISCONF ") {
		t.Errorf("SET at the shard: %v", v)
	}
	expect(t, c, "x", "GET", here)
	expect(t, c, "OK", "SET", elsewhere, "y")
	replies, err := c.Pipeline([]any{"SET", here, "1"}, []any{"SET", elsewhere, "2"}, []any{"GET", here},
		[]any{"GET", elsewhere})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range replies {
		code, _, _ := strings.Cut(v.Text, " ")
		got = append(got, code)
	}
	if !slices.Equal(got, []string{"MISCONF", "OK", "x", "2"}) {
		t.Errorf("a pipeline: %v", got)
	}
	shard.Do("CONFIG", "SET", "save", "")
	if v := ask(t, c, "SET", here, "x"); v.Text != "OK" {
		t.Errorf("after it: %v", v)
	}
}

// TestFewFiles: a proxy whose limit of open files is below its maxclients lowers that, as a server does, and keeps
// descriptors for its shards.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	_, port := lyingTier(t, &liar{})
	own := testkit.FreePort(t)
	p := testkit.Launch(t, testkit.Spec{Bare: true, Port: own, Shell: "ulimit -n 60", Args: []string{"--proxy",
		"--port", strconv.Itoa(own), "--bind", "127.0.0.1", "--proxy-cluster", "127.0.0.1:" + strconv.Itoa(port)}})
	most, err := strconv.Atoi(p.Do("CONFIG", "GET", "maxclients").Elems[1].Text)
	if err != nil || most >= 60 {
		t.Fatalf("maxclients is %d with 60 open files (%v)", most, err)
	}
	if !strings.Contains(p.Log(), "maxclients has been reduced to "+strconv.Itoa(most)) {
		t.Error("the log does not say that maxclients is lower")
	}
	for range most - 1 { // one is the test kit's
		expect(t, p.Dial(), "OK", "SET", "key", "value")
	}
	if v, err := p.Dial().Do("PING"); err == nil && !strings.Contains(v.Text, "max number of clients reached") {
		t.Errorf("one client more gets %v", v)
	}
	v, err := p.Ask("CONFIG", "SET", "maxclients", most+1)
	if err != nil || !strings.Contains(v.Text, "try with "+strconv.Itoa(most)) {
		t.Errorf("CONFIG SET of one client more: %v (%v)", v, err)
	}
	if strings.Contains(p.Log(), "too many open files") {
		t.Error("descriptors have run out")
	}
}
