package catalogue

import (
	"fmt"
	"strings"
	"testing"

	"spindle/tests/testkit/commandtest"
)

// TestHeapOfLongReads: a long read reports the memory that it collects on the Go heap before it replies, so that it
// counts as the client's.
func TestHeapOfLongReads(t *testing.T) {
	const n = 20_000
	core := commandtest.Start(t, Rows()...)
	core.Beside, core.Mute = true, true
	cl := core.Client(2)
	for i := range n {
		core.Do(cl, "SET", fmt.Sprint("key:", i), "v")
		core.Do(cl, "SADD", "set", fmt.Sprint("member:", i))
		core.Do(cl, "HSET", "hash", fmt.Sprint("field:", i), "v")
		core.Do(cl, "ZADD", "zset", fmt.Sprint(i), fmt.Sprint("member:", i))
		core.Do(cl, "RPUSH", "list", fmt.Sprint("element:", i))
		core.Do(cl, "RPUSH", "numbers", fmt.Sprint(n-i))
	}
	core.Do(cl, "SET", "left", strings.Repeat("left and right, ", n/32))
	core.Do(cl, "SET", "right", strings.Repeat("right and wrong ", n/32))
	for line, each := range map[string]int{ // least bytes for each element
		"SCAN 0 COUNT 1000000": 8, "SSCAN set 0 COUNT 1000000": 24, "HSCAN hash 0 COUNT 1000000": 48,
		"HSCAN hash 0 COUNT 1000000 NOVALUES": 24, "ZSCAN zset 0 COUNT 1000000": 32,
		"SCAN 0 COUNT 1000000 MATCH none*": 0, "SMEMBERS set": 0, "LRANGE list 0 -1": 0,
		"SORT list ALPHA LIMIT 0 1": 24, "SORT numbers LIMIT 0 1": 32, "SORT list BY nosort LIMIT 0 15000": 0,
		"GEOSEARCH zset FROMLONLAT 0 0 BYRADIUS 30000 km ASC": 32, "GEOSEARCH zset FROMLONLAT 0 0 BYRADIUS 30000 km": 0,
		"GEOSEARCH zset FROMLONLAT 0 0 BYRADIUS 30000 km COUNT 1000000 ANY": 0,
		"LCS left right IDX": n / 2 * n / 2 / 8 / n, "LCS left right LEN": 0,
	} {
		core.Held = -1
		if reply := core.Do(cl, strings.Fields(line)...); strings.HasPrefix(reply, "-") {
			t.Errorf("%s: %s", line, reply)
		}
		if core.Held < each*n || core.Held > 4*each*n {
			t.Errorf("%s: %d bytes, want %d for each of %d elements", line, core.Held, each, n)
		}
	}
}
