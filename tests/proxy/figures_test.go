package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestFigures: /metrics counts the requests of clients, by command and by shard. /healthz reports when a shard has no
// primary.
func TestFigures(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 0)
	admin := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	p := startProxy(t, all.shards, "--admin-address", admin)
	c := p.Dial()
	for i := range 100 {
		ask(t, c, "SET", fmt.Sprintf("key:%d", i), "x")
	}
	ask(t, c, "LPUSH", "key:1", "x") // an error
	ask(t, c, "MGET", "key:1", "key:2", "key:3", "key:4")
	metrics := get(t, "http://"+admin+"/metrics")
	for _, line := range []string{
		`spindle_proxy_command_calls_total{command="set"} 100`,
		`spindle_proxy_command_failed_total{command="lpush"} 1`,
		`spindle_proxy_splits_total 1`,
		`spindle_proxy_shards 3`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	for _, s := range all.shards {
		if !strings.Contains(metrics, `spindle_proxy_shard_seconds_count{shard="`+s.Addr+`"}`) {
			t.Errorf("/metrics has no figure of %s", s.Addr)
		}
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "health", func() error {
		return testkit.Equal(get(t, "http://"+admin+"/healthz"), "ok\n")
	})
}

func get(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
