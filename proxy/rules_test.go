package proxy

import (
	"strings"
	"testing"
	"time"

	"spindle/internal/setting"
)

// TestRules: what CONFIG GET shows is read as the same rules. Lines of a file add up. Wrong rules are refused.
func TestRules(t *testing.T) {
	first, err := parseRules([]string{"no-tmp", "deny", "prefix", "a b:", "slow", "rate", "5", "user", "batch", "all",
		"deny", "far", "route", "10.0.0.1:6379", "prefix", "far:"}, nil, setting.FromFile)
	if err != nil {
		t.Fatal(err)
	}
	text := formatRules(first)
	if want := `no-tmp deny prefix "a b:" slow rate 5 user batch all deny far route 10.0.0.1:6379 prefix far:`; text != want {
		t.Errorf("%s; want %s", text, want)
	}
	args, err := setting.SplitArgs(text)
	if err != nil {
		t.Fatal(err)
	}
	first[0].refused.Add(3)
	again, err := parseRules(args, first, setting.FromCommand)
	if err != nil || formatRules(again) != text || again[0].refused.Load() != 3 {
		t.Errorf("read again: %s, %v", formatRules(again), err)
	}
	more, err := parseRules([]string{"more", "rate", "1"}, first, setting.FromFileMore)
	if err != nil || len(more) != 5 {
		t.Errorf("a further line: %s, %v", formatRules(more), err)
	}
	if none, err := parseRules([]string{""}, first, setting.FromCommand); err != nil || len(none) != 0 {
		t.Errorf("no rules: %s, %v", formatRules(none), err)
	}
	for _, bad := range []string{"a", "a permit", "a rate", "a rate 0", "a rate x", "a deny prefix", "user deny",
		"a route", "a route prefix x", `a route "" prefix x`,
		"a deny a deny", `"\xff" deny`, `"a\nrole:master" deny`, `a:1 deny`,
		`a deny user ""`} {
		args, err := setting.SplitArgs(bad)
		if err != nil {
			t.Fatal(err)
		}
		if rules, err := parseRules(args, nil, setting.FromFile); err == nil {
			t.Errorf("%s is read as %s", bad, formatRules(rules))
		}
	}
}

// TestRate: of a rate of 10 a second, ten requests pass at once after a quiet time, and then one each 100 ms.
func TestRate(t *testing.T) {
	r := &rule{rate: 10}
	now, passes := int64(5*time.Second), strings.Builder{}
	try := func(n int) {
		for range n {
			if r.allow(now) {
				passes.WriteByte('y')
			} else {
				passes.WriteByte('n')
			}
		}
	}
	try(12)
	now += int64(100 * time.Millisecond)
	try(2)
	now += int64(250 * time.Millisecond)
	try(3)
	if want := strings.Repeat("y", 10) + "nn" + "yn" + "yyn"; passes.String() != want {
		t.Errorf("%s; want %s", passes.String(), want)
	}
}

// TestRuleToItself: the proxy knows which addresses are its own.
func TestRuleToItself(t *testing.T) {
	for _, c := range []struct {
		address, listener string
		own               bool
	}{
		{"127.0.0.1:6379", "127.0.0.1:6379", true}, {"localhost:6379", "127.0.0.1:6379", true},
		{"127.0.0.1:6380", "127.0.0.1:6379", false}, {"10.0.0.1:6379", "127.0.0.1:6379", false},
		{"127.0.0.1:6379", "[::]:6379", true}, {"127.0.0.1:6379", "0.0.0.0:6379", true},
		{"[::1]:6379", "[::]:6379", true}, {"192.0.2.1:6379", "0.0.0.0:6379", false},
		{"far.example:6379", "0.0.0.0:6379", false}, {"127.0.0.1:6379", "/run/proxy.sock", false},
	} {
		if got := isServedBy(c.address, c.listener); got != c.own {
			t.Errorf("%s at the listener %s: %v", c.address, c.listener, got)
		}
	}
}
