package process

import (
	"fmt"
	stdmaps "maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// sizes returns the lengths of all keys above the bound, by "type db key". It SCANs all keys.
func sizes(t *testing.T, s *testkit.Server, databases int) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	c := s.Dial()
	defer c.Close()
	for db := range databases {
		c.Must("SELECT", db)
		for _, key := range c.Must("KEYS", "*").Strings() {
			kind := c.Must("TYPE", key).Text
			length := map[string]string{"string": "STRLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "hash": "HLEN",
				"stream": "XLEN"}[kind]
			if length == "" {
				continue // it has expired since then
			}
			n := c.Must(length, key).Int
			if bound := map[bool]int64{true: 64 << 10, false: 1000}[kind == "string"]; n >= bound {
				found[fmt.Sprintf("%s %d %s", kind, db, key)] = n
			}
		}
	}
	return found
}

// told returns the lengths from BIGKEYS, by "type db key", and also their order.
func told(t *testing.T, s *testkit.Server, count int) (found map[string]int64, order map[string][]int64) {
	t.Helper()
	found, order = map[string]int64{}, map[string][]int64{}
	types := s.Do("BIGKEYS", "GET", "COUNT", count)
	if err := types.Err(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(types.Elems); i += 2 {
		kind := types.Elems[i].Text
		for _, m := range maps(t, types.Elems[i+1]) {
			field := "elements"
			if kind == "string" {
				field = "bytes"
			}
			n, _ := strconv.ParseInt(m[field], 10, 64)
			found[fmt.Sprintf("%s %s %s", kind, m["db"], m["key"])] = n
			order[kind] = append(order[kind], n)
		}
	}
	return found, order
}

// agree compares BIGKEYS with a SCAN: all keys if there are few, otherwise the ten largest of each type.
func agree(t *testing.T, s *testkit.Server, databases int, when string) {
	t.Helper()
	want := sizes(t, s, databases)
	all, _ := told(t, s, 1000)
	for key, n := range want {
		if all[key] != n {
			t.Fatalf("%s: %s has size %d, BIGKEYS says %d; %v", when, key, n, all[key], all)
		}
	}
	for key, n := range all {
		if want[key] != n {
			t.Fatalf("%s: BIGKEYS says %s has size %d; it has %d", when, key, n, want[key])
		}
	}
	_, order := told(t, s, 10)
	byType := map[string][]int64{}
	for key, n := range want {
		kind, _, _ := strings.Cut(key, " ")
		byType[kind] = append(byType[kind], n)
	}
	for kind, ns := range byType {
		slices.Sort(ns)
		slices.Reverse(ns)
		if got := order[kind]; !slices.Equal(got, ns[:min(10, len(ns))]) {
			t.Fatalf("%s: the ten largest of type %s: %v, want %v", when, kind, got, ns)
		}
	}
}

// TestBigKeysModel: after random commands that create, change, move and remove keys, BIGKEYS and a SCAN agree. They
// also agree after a reload, on a replica, and after evictions.
func TestBigKeysModel(t *testing.T) {
	const databases, keys = 3, 12
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("replay with SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := testkit.Start(t, "--databases", strconv.Itoa(databases), "--enable-debug-command", "yes",
		"--set-max-intset-entries", "3000", "--hash-max-listpack-entries", "2000", "--maxmemory-policy", "allkeys-random")
	clients := []*respclient.Client{s.Dial(), s.Dial()}
	some := func(words ...any) []any { // adds several hundred elements
		width := rng.IntN(2)*60 + 1
		for i := range 100 + rng.IntN(1200) {
			words = append(words, fmt.Sprintf("%0*d", width, i+rng.IntN(300)))
		}
		return words
	}
	pairs := func(words ...any) []any {
		for i := range 100 + rng.IntN(800) {
			words = append(words, i+rng.IntN(300), i)
		}
		return words
	}
	key := func(kind string) string { return fmt.Sprintf("%s%d", kind, rng.IntN(keys)) }
	kinds := []string{"string", "list", "set", "zset", "hash", "stream"}
	bytes := func() string { return strings.Repeat("x", rng.IntN(130_000)) }
	steps := map[string]func(c *respclient.Client){
		"SET":      func(c *respclient.Client) { c.Must("SET", key("string"), bytes()) },
		"SET over": func(c *respclient.Client) { c.Must("SET", key(kinds[rng.IntN(6)]), bytes()[:]) },
		"APPEND":   func(c *respclient.Client) { c.Do("APPEND", key("string"), bytes()) },
		"SETRANGE": func(c *respclient.Client) { c.Do("SETRANGE", key("string"), rng.IntN(150_000), "y") },
		"SETBIT":   func(c *respclient.Client) { c.Do("SETBIT", key("string"), rng.IntN(1_200_000), 1) },
		"RPUSH":    func(c *respclient.Client) { c.Do(some("RPUSH", key("list"))...) },
		"LPOP":     func(c *respclient.Client) { c.Do("LPOP", key("list"), 1+rng.IntN(1500)) },
		"LTRIM":    func(c *respclient.Client) { c.Do("LTRIM", key("list"), rng.IntN(200), 1200) },
		"LMOVE":    func(c *respclient.Client) { c.Do("LMOVE", key("list"), key("list"), "LEFT", "RIGHT") },
		"SADD":     func(c *respclient.Client) { c.Do(some("SADD", key("set"))...) },
		"SPOP":     func(c *respclient.Client) { c.Do("SPOP", key("set"), 1+rng.IntN(900)) },
		"SUNION":   func(c *respclient.Client) { c.Do("SUNIONSTORE", key("set"), key("set"), key("set")) },
		"SMOVE":    func(c *respclient.Client) { c.Do("SMOVE", key("set"), key("set"), 100) },
		"ZADD":     func(c *respclient.Client) { c.Do(pairs("ZADD", key("zset"))...) },
		"ZREM":     func(c *respclient.Client) { c.Do("ZREMRANGEBYRANK", key("zset"), 0, rng.IntN(900)) },
		"ZSTORE":   func(c *respclient.Client) { c.Do("ZUNIONSTORE", key("zset"), 2, key("zset"), key("zset")) },
		"HSET":     func(c *respclient.Client) { c.Do(pairs("HSET", key("hash"))...) },
		"HDEL":     func(c *respclient.Client) { c.Do(some("HDEL", key("hash"))...) },
		"XADD": func(c *respclient.Client) {
			k := key("stream")
			testkit.Pipe(t, c, 1+rng.IntN(700), func(int) []any {
				return []any{"EVAL", "return redis.pcall('XADD', KEYS[1], '*', 'a', 'b') and 1", 1, k}
			})
		},
		"XTRIM": func(c *respclient.Client) { c.Do("XTRIM", key("stream"), "MAXLEN", rng.IntN(1500)) },
		"one by one": func(c *respclient.Client) {
			k := key("list")
			testkit.Pipe(t, c, rng.IntN(900), func(i int) []any {
				return []any{"EVAL", "return redis.pcall('RPUSH', KEYS[1], 'x') and 1", 1, k}
			})
		},
		"pipeline": func(c *respclient.Client) {
			n := rng.IntN(900)
			for i := range n {
				c.Send("SADD", "set0", i)
				c.Send("RPUSH", "list1", "x")
			}
			for range 2 * n {
				c.Receive()
			}
		},
		"DEL":     func(c *respclient.Client) { c.Do("DEL", key(kinds[rng.IntN(6)])) },
		"PEXPIRE": func(c *respclient.Client) { c.Do("PEXPIRE", key(kinds[rng.IntN(6)]), 1+rng.IntN(30)) },
		"RENAME":  func(c *respclient.Client) { k := kinds[rng.IntN(6)]; c.Do("RENAME", key(k), key(k)) },
		"COPY": func(c *respclient.Client) {
			k := kinds[rng.IntN(6)]
			c.Do("COPY", key(k), key(k), "DB", rng.IntN(databases), "REPLACE")
		},
		"MOVE": func(c *respclient.Client) { c.Do("MOVE", key(kinds[rng.IntN(6)]), rng.IntN(databases)) },
		"RESTORE": func(c *respclient.Client) {
			k := kinds[rng.IntN(6)]
			if v, err := c.Do("DUMP", key(k)); err == nil && !v.Null {
				c.Must("RESTORE", key(k), 0, v.Text, "REPLACE")
			}
		},
		"MULTI": func(c *respclient.Client) {
			c.Must("MULTI")
			c.Must("RPUSH", "list2", "a", "b")
			c.Must("DEL", "set2")
			c.Must("EXEC")
		},
		"SELECT": func(c *respclient.Client) { c.Must("SELECT", rng.IntN(databases)) },
	}
	rare := map[string]func(){
		"FLUSHDB":      func() { clients[0].Must("FLUSHDB") },
		"FLUSHALL":     func() { clients[0].Must("FLUSHALL") },
		"SWAPDB":       func() { clients[0].Must("SWAPDB", rng.IntN(databases), rng.IntN(databases)) },
		"DEBUG RELOAD": func() { clients[0].Must("DEBUG", "RELOAD") },
	}
	names, rareNames := slices.Sorted(stdmaps.Keys(steps)), slices.Sorted(stdmaps.Keys(rare))
	var lately []string
	for round := range 15 * testkit.Scale() {
		lately = lately[:0]
		for range 30 {
			name := names[rng.IntN(len(names))]
			steps[name](clients[rng.IntN(len(clients))])
			lately = append(lately, name)
		}
		if round%3 == 2 {
			name := rareNames[rng.IntN(len(rareNames))]
			rare[name]()
			lately = append(lately, name)
		}
		testkit.Lapse(40 * time.Millisecond) // all deadlines have passed
		agree(t, s, databases, fmt.Sprintf("round %d, after %v", round, lately))
	}
	for i := range 40 { // the last round may have left no key
		clients[i%2].Must("SET", "filler:"+strconv.Itoa(i), strings.Repeat("x", 50_000+1_000*i))
		clients[i%2].Do(some("RPUSH", "fillers:"+strconv.Itoa(i%15))...)
	}
	replica := testkit.Start(t, "--databases", strconv.Itoa(databases), "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port))
	replica.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	agree(t, replica, databases, "on the replica")
	used := s.InfoInt("memory", "used_memory")
	s.Do("CONFIG", "SET", "maxmemory", used*3/4)
	testkit.Until(t, testkit.Slowly(10*time.Second), "evictions", func() error {
		if n := s.InfoInt("stats", "evicted_keys"); n == 0 {
			return fmt.Errorf("%d keys were evicted", n)
		}
		return nil
	})
	s.Do("CONFIG", "SET", "maxmemory", 0)
	agree(t, s, databases, "after evictions")
}

// TestBigKeysCommand: the forms and errors of the command are right, and a filter is listed as a module's type.
// /metrics has the figures, and a setting disables them.
func TestBigKeysCommand(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address)
	s.Do("SET", "long\x00", strings.Repeat("x", 70_000))
	s.Do("BF.RESERVE", "filter", "0.001", 1_000_000)
	testkit.Pipe(t, s.Dial(), 100_000, func(i int) []any { return []any{"BF.ADD", "filter", i} })
	if got := s.Do("BIGKEYS", "GET", "COUNT", 1).String(); !strings.Contains(got, "long") ||
		!strings.Contains(got, "filter") {
		t.Errorf("BIGKEYS GET: %s", got)
	}
	if got := s.Do("BIGKEYS", "HELP").String(); !strings.Contains(got, "COUNT") {
		t.Errorf("BIGKEYS HELP: %s", got)
	}
	for _, bad := range [][]any{{"BIGKEYS", "GET", "x"}, {"BIGKEYS", "GET", "COUNT", -1}, {"BIGKEYS"},
		{"BIGKEYS", "RESET"}} {
		if v, err := s.Ask(bad...); err != nil || v.Err() == nil {
			t.Errorf("%v: %v %v", bad, v, err)
		}
	}
	const line = `spindle_bigkey_bytes{db="0",key="long\\x00",type="string"} 70000`
	if _, metrics := fetch(t, "http://"+address+"/metrics"); !strings.Contains(metrics, line) {
		t.Error("/metrics does not name the long string")
	}
	off := testkit.Start(t, "--big-keys", "no")
	off.Do("SET", "long", strings.Repeat("x", 70_000))
	if got := off.Do("BIGKEYS", "GET").String(); strings.Contains(got, "long") {
		t.Errorf("switched off: %s", got)
	}
}
