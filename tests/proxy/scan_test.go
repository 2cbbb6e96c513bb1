package proxy

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// fill writes keys of many slots, and returns them.
func fill(t *testing.T, p *testkit.Server, n int) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	testkit.Pipe(t, p.Dial(), n, func(i int) []any {
		key := fmt.Sprint("scan:", i)
		keys[key] = true
		return []any{"SET", key, "x"}
	})
	return keys
}

// scanAll runs SCAN to its end. The calls alternate between the clients. Before each call, before gets the call's
// number.
func scanAll(t *testing.T, clients []*respclient.Client, before func(call int)) (seen map[string]int) {
	t.Helper()
	seen = map[string]int{}
	cursor := "0"
	for call := 0; ; call++ {
		before(call)
		v := ask(t, clients[call%len(clients)], "SCAN", cursor, "COUNT", 50)
		if v.Err() != nil {
			t.Fatalf("SCAN %s: %v", cursor, v)
		}
		for _, key := range v.Elems[1].Strings() {
			seen[key]++
		}
		if cursor = v.Elems[0].Text; cursor == "0" {
			return seen
		}
		if call > 100_000 {
			t.Fatal("SCAN does not end")
		}
	}
}

// hasAll fails the test if a key was not seen.
func hasAll(t *testing.T, keys map[string]bool, seen map[string]int) {
	t.Helper()
	missed := 0
	for key := range keys {
		if seen[key] == 0 {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d of %d keys were missed", missed, len(keys))
	}
}

// TestScanWhileSlotsMove: SCAN returns every key that exists during the whole scan, even if slots move between its
// calls or during them. Any proxy understands the cursor. Without moves SCAN returns each key once.
func TestScanWhileSlotsMove(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startTier(t, redis, 0, 2, "--proxy-refresh-interval", "200")
			keys := fill(t, all.proxies[0], 3000)
			clients := []*respclient.Client{all.proxies[0].Dial(), all.proxies[1].Dial()}
			seen := scanAll(t, clients, func(int) {})
			hasAll(t, keys, seen)
			for key, n := range seen {
				if n > 1 && redis { // spindle's table grows, so SCAN may return a key again
					t.Errorf("%s is yielded %d times, and nothing has moved", key, n)
					break
				}
			}
			for round := range 3 { // slots move from each shard to each other
				seen = scanAll(t, clients, func(call int) {
					if call == 20 || call == 45 {
						all.move(t, (round+call)%3, (round+call+1)%3, 40)
					}
				})
				hasAll(t, keys, seen)
			}
			var moving sync.WaitGroup
			stop := make(chan struct{})
			moving.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						all.move(t, i%3, (i+1)%3, 30)
					}
				}
			})
			for range 2 * testkit.Scale() {
				hasAll(t, keys, scanAll(t, clients, func(int) {}))
			}
			close(stop)
			moving.Wait()
		})
	}
}

// TestScanWhileGroupsChange: SCAN is as complete as in TestScanWhileSlotsMove while a group joins and gets slots.
func TestScanWhileGroupsChange(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc16", 3, 2)
	keys := fill(t, all.proxies[0], 3000)
	clients := []*respclient.Client{all.proxies[0].Dial(), all.proxies[1].Dial()}
	ended := func() bool { return d.ask("GET", "/v1/products/shop/move", nil)["state"] == "done" }
	moves := false
	hasAll(t, keys, scanAll(t, clients, func(call int) {
		if call == 30 {
			fresh := testkit.Launch(t, testkit.Spec{Redis: true})
			d.ask("POST", "/v1/products/shop/groups", map[string]any{"id": "g9", "primary": fresh.Addr})
			plan := d.ask("POST", "/v1/products/shop/plan", map[string]any{"balance": "slots"})
			d.ask("POST", "/v1/products/shop/move", map[string]any{"steps": firstOf(plan["steps"].([]any), min(1000,
				300*testkit.Scale()))})
			moves = true
		}
	}))
	if !moves {
		t.Fatal("the scan was too short")
	}
	for !ended() {
		hasAll(t, keys, scanAll(t, clients, func(int) {}))
	}
	testkit.Until(t, testkit.Slowly(60*time.Second), "the move ends", func() error { return testkit.Equal(ended(), true) })
	hasAll(t, keys, scanAll(t, clients, func(int) {}))
}
