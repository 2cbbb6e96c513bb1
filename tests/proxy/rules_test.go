package proxy

import (
	"fmt"
	"strings"
	"testing"

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
