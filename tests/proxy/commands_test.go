package proxy

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestCommandsOfAllShards: the proxy offers the commands that all shards have. It notices when a shard of another
// version joins or replaces one.
func TestCommandsOfAllShards(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, false, "crc16", 2, 1)
	p := all.proxies[0]
	p.Do("CONFIG", "SET", "proxy-refresh-interval", 200)
	c := p.Dial()
	offers := func(is bool) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(30*time.Second), fmt.Sprintf("HGETDEL is offered: %t", is), func() error {
			v := ask(t, c, "HGETDEL", "none", "FIELDS", 1, "f")
			return testkit.Equal(strings.Contains(v.Text, "unknown command"), !is)
		})
		if v := ask(t, c, "OBJECT", "ENCODING", "none"); strings.Contains(v.Text, "unknown") {
			t.Errorf("a command of all versions: %v", v)
		}
	}
	offers(true)
	old := testkit.Redis(t)
	d.ask("POST", "/v1/products/shop/groups", map[string]any{"id": "old", "primary": old.Addr})
	offers(false)
	port := old.Port
	old.Kill()
	testkit.Launch(t, testkit.Spec{Port: port, Args: []string{"--port", strconv.Itoa(port)}})
	offers(true)
	expect(t, c, "OK", "SET", "key", "x")
}
