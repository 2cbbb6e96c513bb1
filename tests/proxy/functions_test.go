package proxy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/tests/testkit"
)

func luaLibrary(name, function string) string {
	return "#!lua name=" + name + "\nredis.register_function('" + function +
		"', function(keys) return redis.call('incr', keys[1]) end)"
}

// TestFunctionsOfNewShards: a shard that joins gets the libraries before the first call of a function is sent to it.
func TestFunctionsOfNewShards(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
			all := startGroups(t, d, redis, "crc16", 2, 2)
			c := all.proxies[0].Dial()
			expect(t, c, "one", "FUNCTION", "LOAD", luaLibrary("one", "f"))
			expect(t, c, "two", "FUNCTION", "LOAD", luaLibrary("two", "g"))
			stop := make(chan struct{})
			var calling sync.WaitGroup
			for i := range 4 {
				calling.Go(func() {
					c := all.proxies[i%2].Dial()
					for n := 1; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						key := fmt.Sprintf("called:%d:%d", i, n%200)
						if v, err := c.Do("FCALL", []string{"f", "g"}[n%2], 1, key); err != nil || v.Err() != nil {
							t.Errorf("FCALL of %s: %v (%v)", key, v, err)
							return
						}
						rest()
					}
				})
			}
			fresh := testkit.Launch(t, testkit.Spec{Redis: redis})
			d.ask("POST", "/v1/products/shop/groups", map[string]any{"id": "g9", "primary": fresh.Addr})
			plan := d.ask("POST", "/v1/products/shop/plan", map[string]any{"balance": "slots"})
			d.ask("POST", "/v1/products/shop/move", map[string]any{"steps": firstOf(plan["steps"].([]any),
				min(500, 150*testkit.Scale()))})
			testkit.Until(t, testkit.Slowly(120*time.Second), "the move ends", func() error {
				return testkit.Equal(d.ask("GET", "/v1/products/shop/move", nil)["state"], any("done"))
			})
			close(stop)
			calling.Wait()
			if v := fresh.Do("FUNCTION", "LIST"); len(v.Elems) != 2 {
				t.Errorf("the new group has the libraries %s", show(v))
			}
			if v := ask(t, c, "FUNCTION", "LIST"); len(v.Elems) != 2 {
				t.Errorf("FUNCTION LIST: %s", show(v))
			}
		})
	}
}

// TestFunctionsOfNewNodes: a node that joins a cluster gets the libraries too. Clients learn about its slots by
// redirections.
func TestFunctionsOfNewNodes(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 2, "--proxy-refresh-interval", "60000")
	c := all.proxies[0].Dial()
	expect(t, c, "one", "FUNCTION", "LOAD", luaLibrary("one", "f"))
	fresh := all.grow(t, true)
	fresh.Do("FUNCTION", "FLUSH") // redis-cli has copied the functions
	if !all.move(t, 0, 3, 150) {
		return
	}
	for _, p := range all.proxies {
		var requests [][]any
		for i := range 1200 {
			requests = append(requests, []any{"FCALL", "f", 1, fmt.Sprint("node:", i)})
		}
		replies, err := p.Dial().Pipeline(requests...)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range replies {
			if v.Err() != nil {
				t.Fatalf("%v: %v", requests[i], v)
			}
		}
	}
	if v := fresh.Do("FUNCTION", "LIST"); len(v.Elems) != 1 {
		t.Errorf("the new node has the libraries %s", show(v))
	}

	// If one shard lacks a library, FUNCTION LIST reports it.
	fresh.Do("FUNCTION", "DELETE", "one")
	v := ask(t, c, "FUNCTION", "LIST")
	if !strings.HasPrefix(v.Text, "ERR the shards differ in the library 'one'") {
		t.Errorf("FUNCTION LIST: %v", v)
	}
	expect(t, c, "one", "FUNCTION", "LOAD", "REPLACE", luaLibrary("one", "f"))
	if v := ask(t, c, "FUNCTION", "LIST"); len(v.Elems) != 1 || !slices.Contains(v.Elems[0].Strings(), "one") {
		t.Errorf("FUNCTION LIST: %s", show(v))
	}
}
