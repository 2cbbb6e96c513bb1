package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// TestSlowRequests: SLOWLOG and LATENCY list the slow requests of the proxy, with the part of the time that the shard
// took.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 1, "--slowlog-log-slower-than", "100000", "--slowlog-max-len", "3",
		"--latency-monitor-threshold", "100")
	p := all.proxies[0]
	c := p.Dial()
	expect(t, c, "OK", "CLIENT", "SETNAME", "slow")
	shard := all.ownerOf(t, "key")
	for i := range 4 {
		shard.Do("CLIENT", "PAUSE", 200, "ALL")
		expect(t, c, "OK", "SET", "key", i)
	}
	expect(t, c, "3", "SLOWLOG", "LEN")
	v := ask(t, c, "SLOWLOG", "GET")
	if len(v.Elems) != 3 {
		t.Fatalf("SLOWLOG GET: %s", show(v))
	}
	e := v.Elems[0].Elems
	args := e[3].Strings()
	if len(e) != 6 || e[0].Int != 3 || e[2].Int < 100_000 || strings.Join(args[:3], " ") != "SET key 3" ||
		!strings.HasSuffix(args[3], "us at the shard "+shard.Addr+")") || e[5].Text != "slow" {
		t.Errorf("an entry: %s", show(v.Elems[0]))
	}
	latest := ask(t, c, "LATENCY", "LATEST")
	if len(latest.Elems) != 2 || latest.Elems[0].Elems[0].Text != "command" || latest.Elems[0].Elems[3].Int < 100 ||
		latest.Elems[1].Elems[0].Text != "shard:"+shard.Addr || latest.Elems[1].Elems[2].Int < 100 {
		t.Errorf("LATENCY LATEST: %s", show(latest))
	}
	if v := ask(t, c, "LATENCY", "HISTORY", "command"); len(v.Elems) == 0 || v.Elems[0].Elems[1].Int < 100 {
		t.Errorf("LATENCY HISTORY: %s", show(v))
	}
	if v := ask(t, c, "LATENCY", "GRAPH", "command"); !strings.HasPrefix(v.Text, "command - high ") {
		t.Errorf("LATENCY GRAPH: %s", show(v))
	}
	if v := ask(t, c, "LATENCY", "DOCTOR"); !strings.Contains(v.Text, "shard:"+shard.Addr+": ") {
		t.Errorf("LATENCY DOCTOR: %s", show(v))
	}
	v = ask(t, c, "LATENCY", "HISTOGRAM", "set", "nothing", "get")
	if len(v.Elems) != 2 || v.Elems[0].Text != "set" || v.Elems[1].Elems[1].Int != 4 {
		t.Fatalf("LATENCY HISTOGRAM set: %s", show(v))
	}
	counts := v.Elems[1].Elems[3].Elems // pairs of µs and calls, in ascending order
	if n := len(counts); n < 2 || counts[n-1].Int != 4 || counts[n-2].Int < 131072 || n > 2 &&
		counts[n-4].Int*2 > counts[n-2].Int {
		t.Errorf("LATENCY HISTOGRAM set: %s", show(v))
	}
	if all := ask(t, c, "LATENCY", "HISTOGRAM"); !strings.Contains(show(all), "set [calls 4") {
		t.Errorf("LATENCY HISTOGRAM: %s", show(all))
	}
	expect(t, c, "1", "LATENCY", "RESET", "command", "odd")
	expect(t, c, "1", "LATENCY", "RESET")
	expect(t, c, "OK", "SLOWLOG", "RESET")
	expect(t, c, "[]", "SLOWLOG", "GET")
}

// TestSlowErrors: the errors of SLOWLOG and LATENCY are the same as those of one server.
func TestSlowErrors(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 1, "--slowlog-log-slower-than", "-1")
	c, one := all.proxies[0].Dial(), testkit.Start(t, "--slowlog-log-slower-than", "-1").Dial()
	for _, request := range []string{"SLOWLOG GET x", "SLOWLOG GET -2", "SLOWLOG GET 1 2", "SLOWLOG ODD", "SLOWLOG LEN x",
		"SLOWLOG GET", "SLOWLOG GET -1", "SLOWLOG LEN", "SLOWLOG RESET", "SLOWLOG RESET x", "LATENCY ODD", "LATENCY LATEST",
		"LATENCY HISTORY", "LATENCY HISTORY none", "LATENCY HISTOGRAM none", "LATENCY RESET", "LATENCY RESET none",
		"LATENCY LATEST x", "LATENCY GRAPH none", "LATENCY GRAPH", "LATENCY DOCTOR", "LATENCY DOCTOR x"} {
		var args []any
		for word := range strings.FieldsSeq(request) {
			args = append(args, word)
		}
		if got, want := ask(t, c, args...), ask(t, one, args...); got.Kind != want.Kind || show(got) != show(want) {
			t.Errorf("%s: %s; one server says %s", request, show(got), show(want))
		}
	}
	if v := ask(t, c, "COMMANDLOG", "LEN", "slow"); !strings.Contains(v.Text, "COMMANDLOG is not served by the proxy: ") {
		t.Errorf("COMMANDLOG: %v", v)
	}
	for _, name := range []string{"SLOWLOG", "LATENCY"} {
		if v := ask(t, c, name, "HELP"); len(v.Elems) < 6 {
			t.Errorf("%s HELP: %v", name, v)
		}
	}
}

// TestConfigRewrite: a proxy writes its settings to its configuration file, and a restart uses them.
func TestConfigRewrite(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 1)
	c := all.proxies[0].Dial()
	if v := ask(t, c, "CONFIG", "REWRITE"); v.Text != "ERR The server is running without a config file" {
		t.Errorf("without a file: %s", show(v))
	}
	file, port := filepath.Join(t.TempDir(), "proxy.conf"), testkit.FreePort(t)
	text := fmt.Sprintf("# mine\nport %d\nbind 127.0.0.1\nproxy-cluster %s\n", port, all.shards[0].Addr)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := testkit.Launch(t, testkit.Spec{Bare: true, Port: port, Args: []string{"--proxy", file}})
	p.Do("CONFIG", "SET", "proxy-timeout", 1234, "proxy-rule", "no-tmp deny prefix tmp:")
	p.Do("CONFIG", "REWRITE")
	p.Terminate()
	p.Restart()
	c = p.Dial()
	expect(t, c, "[proxy-timeout 1234]", "CONFIG", "GET", "proxy-timeout")
	expect(t, c, "ERR the rule 'no-tmp' refuses this request", "GET", "tmp:1")
	if now, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(now), text) {
		t.Errorf("%s (%v)", now, err)
	}
}
