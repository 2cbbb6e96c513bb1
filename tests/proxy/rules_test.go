package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestRules: a proxy refuses requests according to its rules, by user and by key prefix. The error names the rule, and
// the refusals are counted. CONFIG SET changes the rules while the proxy serves.
func TestRules(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 0)
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "batch", "on", ">pw", "+@all", "~*", "&*")
	}
	admin := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	p := startProxy(t, all.shards, "--admin-address", admin, "--proxy-rule", "no-tmp", "deny", "prefix", "tmp:",
		"--proxy-rule", "few", "rate", "2", "user", "batch", "prefix", "cart:")
	c, batch := p.Dial(), p.Dial()
	batch.Must("AUTH", "batch", "pw")
	denied := "ERR the rule 'no-tmp' refuses this request"
	expect(t, c, "[proxy-rule no-tmp deny prefix tmp: few rate 2 user batch prefix cart:]", "CONFIG", "GET", "proxy-rule")
	expect(t, c, denied, "SET", "tmp:a", "1")
	expect(t, c, denied, "MSET", "a", "1", "tmp:b", "2", "c", "3")
	expect(t, c, denied, "EVAL", "return 1", "1", "tmp:a")
	expect(t, c, "1", "EVAL", "return 1", "1", "atmp:a")
	expect(t, c, "OK", "MULTI")
	expect(t, c, denied, "GET", "tmp:a")
	expect(t, c, "EXECABORT Transaction discarded because of previous errors.", "EXEC")
	refused := 0
	for range 20 {
		ask(t, c, "SET", "cart:1", "x")
		if v, err := batch.Do("GET", "cart:1"); err != nil {
			t.Fatal(err)
		} else if v.Text == "ERR the rule 'few' allows 2 requests a second" {
			refused++
		}
	}
	if refused == 0 || refused > 18 {
		t.Errorf("%d of 20 requests were refused", refused)
	}
	expect(t, batch, "null", "GET", "other")
	text := p.Do("INFO", "rules").Text
	if !strings.Contains(text, "rule_no-tmp:passed=0,refused=4") ||
		!strings.Contains(text, fmt.Sprintf("rule_few:passed=%d,refused=%d", 20-refused, refused)) {
		t.Errorf("INFO: %s", text)
	}
	metrics := get(t, "http://"+admin+"/metrics")
	if !strings.Contains(metrics, `spindle_proxy_rule_refused_total{rule="no-tmp"} 4`+"\n") {
		t.Errorf("/metrics does not count the refusals")
	}
	expect(t, c, "OK", "CONFIG", "SET", "proxy-rule", "all deny user batch")
	expect(t, c, "OK", "SET", "tmp:a", "1")
	expect(t, batch, "ERR the rule 'all' refuses this request", "GET", "other")
	expect(t, batch, "RESET", "RESET")
	expect(t, batch, "1", "GET", "tmp:a")
	expect(t, c, "OK", "CONFIG", "SET", "proxy-rule", "")
	expect(t, c, "[proxy-rule ]", "CONFIG", "GET", "proxy-rule")
}

// TestRoutes: rules send keys to a server that is no shard, by prefix and by user. Requests are cut, transactions run,
// and clients block there like at a shard.
func TestRoutes(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 0)
	far := testkit.Launch(t, testkit.Spec{Redis: true})
	for _, s := range append([]*testkit.Server{far}, all.shards...) {
		s.Do("ACL", "SETUSER", "batch", "on", ">pw", "+@all", "~*", "&*")
	}
	p := startProxy(t, all.shards, "--proxy-timeout", "60000", "--proxy-cache-size", "1mb", "--proxy-rule", "far", "route",
		far.Addr, "prefix", "far:", "--proxy-rule", "batch", "route", far.Addr, "user", "batch")
	c, other, batch := p.Dial(), p.Dial(), p.Dial()
	batch.Must("AUTH", "batch", "pw")
	expect(t, c, "OK", "MSET", "far:a", "1", "a", "2", "far:b", "3", "b", "4")
	expect(t, c, "[4 3 2 1]", "MGET", "b", "far:b", "a", "far:a")
	expect(t, c, "2", "EXISTS", "far:a", "b", "c")
	for range 50 { // as often as a key has to be read for the cache
		expect(t, c, "1", "GET", "far:a")
	}
	expect(t, c, "CROSSSLOT Keys in request don't hash to the same slot", "RENAME", "far:a", "a")
	expect(t, c, "1", "EVAL", "return redis.call('append', KEYS[1], ARGV[1])", "1", "far:script", "x")
	expect(t, c, "OK", "WATCH", "far:a", "far:b")
	expect(t, c, "OK", "MULTI")
	expect(t, c, "QUEUED", "INCR", "far:a")
	expect(t, c, "QUEUED", "INCR", "far:b")
	expect(t, c, "CROSSSLOT Keys in request don't hash to the same slot", "INCR", "a")
	expect(t, c, "EXECABORT Transaction discarded because of previous errors.", "EXEC")
	expect(t, c, "OK", "MULTI")
	expect(t, c, "QUEUED", "INCR", "far:a")
	expect(t, c, "QUEUED", "INCR", "far:b")
	expect(t, c, "[2 4]", "EXEC")
	send(t, c, "BLPOP", "far:list", "far:another", 0)
	p.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "1")
	expect(t, other, "1", "RPUSH", "far:another", "x")
	hears(t, c, "[far:another x]")
	expect(t, batch, "OK", "SET", "a", "of batch")
	expect(t, c, "2", "GET", "a")
	if v := far.Do("MGET", "far:a", "far:b", "far:script", "a"); show(v) != "[2 4 x of batch]" {
		t.Errorf("the server has %s", show(v))
	}
	expect(t, c, "2", "DBSIZE") // of the shards
	listener, tracking := p.Dial(), tracker(t, p, "BCAST", "PREFIX", "far:")
	expect(t, listener, "[ssubscribe far:news 1]", "SSUBSCRIBE", "far:news")
	expect(t, c, "1", "SPUBLISH", "far:news", "x")
	hears(t, listener, "[smessage far:news x]")
	testkit.Until(t, testkit.Slowly(time.Minute), "a client hears of a key that it has not asked for", func() error {
		expect(t, c, "OK", "SET", "far:told", "x")
		if tracking.Must("PING"); len(tracking.Pushes) == 0 {
			return fmt.Errorf("it has not")
		}
		return nil
	})
	if text := p.Do("INFO", "rules").Text; !strings.Contains(text, "rule_batch:passed=1,refused=0") {
		t.Errorf("INFO: %s", text)
	}
	expect(t, c, "OK", "CONFIG", "SET", "proxy-rule", "wrong route nowhere prefix none:")
	expect(t, c, "null", "GET", "far:a")
	expect(t, batch, "2", "GET", "a")
	expect(t, c, "OK", "CONFIG", "SET", "proxy-rule", "wrong route nowhere prefix none: round route "+p.Addr+
		" prefix round:")
	expect(t, c, "ERR a rule sends the key to '"+p.Addr+"', and that is this proxy", "GET", "round:a")
	begun := time.Now()
	expect(t, c, "ERR a rule sends the key to '"+p.Addr+"', and that is this proxy (shard "+p.Addr+")", "MGET", "a",
		"round:a")
	if took := time.Since(begun); took > 30*time.Second { // proxy-timeout is 60 s
		t.Errorf("MGET for the proxy itself took %v", took)
	}
	expect(t, c, "OK", "CONFIG", "SET", "proxy-timeout", 1000) // after that, a request without a target fails
	if v := ask(t, c, "GET", "none:a"); v.Err() == nil || !strings.Contains(v.Text, "'nowhere'") {
		t.Errorf("GET at a target that there is not: %v", v)
	}
}

// TestRouteToAGroup: a rule sends keys to a group of the product that has no slots, whichever server is its primary.
func TestRouteToAGroup(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, false, "crc16", 2, 1)
	cold, replica, p := testkit.Start(t), testkit.Start(t), all.proxies[0]
	d.ask("POST", "/v1/products/shop/groups", map[string]any{"id": "cold", "primary": cold.Addr})
	d.ask("POST", "/v1/products/shop/groups/cold/servers", map[string]any{"address": replica.Addr})
	p.Do("CONFIG", "SET", "proxy-rule", "old route cold prefix old:")
	c := p.Dial()
	testkit.Until(t, testkit.Slowly(time.Minute), "the proxy knows the group", func() error {
		return ask(t, c, "SET", "old:a", "1").Err()
	})
	expect(t, c, "OK", "SET", "a", "2")
	if v := cold.Do("KEYS", "*"); show(v) != "[old:a]" {
		t.Errorf("the group has %s", show(v))
	}
	cold.AwaitOnline(testkit.Slowly(time.Minute), 1)
	d.ask("POST", "/v1/products/shop/groups/cold/promote", map[string]any{"server": replica.Addr})
	testkit.Until(t, testkit.Slowly(time.Minute), "the replica serves the keys", func() error {
		expect(t, c, "OK", "SET", "old:a", "3")
		return testkit.Equal(replica.Do("GET", "old:a").Text, "3")
	})
}
