package proxy

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

var (
	askedMetric  = regexp.MustCompile(`\b(?:spindle|go)_[a-z0-9_]+`)
	servedMetric = regexp.MustCompile(`(?m)^((?:spindle|go)_[a-z0-9_]+)(?:\{(.*)\})? `)
	askedLabel   = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// TestGrafana: a proxy exports each metric that the Grafana dashboard queries, with the labels that its legends name.
// The dashboard has a panel for each metric of the proxy.
func TestGrafana(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../packaging/grafana/spindle-proxy.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Templating struct{ List []struct{ Definition string } }
		Panels     []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	all, second := startTier(t, false, 0, 0), startTier(t, false, 0, 0)
	admin := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	c := startProxy(t, all.shards, mirrorOf(second, "--admin-address", admin, "--proxy-rule", "few", "rate",
		"100")...).Dial()
	ask(t, c, "SET", "k", "v")
	ask(t, c, "LPUSH", "k", "v") // an error
	served := map[string]string{}
	for _, m := range servedMetric.FindAllStringSubmatch(get(t, "http://"+admin+"/metrics"), -1) {
		served[m[1]] = m[2] + `instance="`
	}
	asked := map[string]bool{}
	for _, p := range file.Panels {
		for _, target := range p.Targets {
			for _, name := range askedMetric.FindAllString(target.Expr, -1) {
				asked[strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")] = true
				labels, ok := served[name]
				if !ok {
					t.Errorf("%s: %s is not served", p.Title, name)
				}
				for _, l := range askedLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					if !strings.Contains(labels, l[1]+`="`) {
						t.Errorf("%s: %s has no label %s", p.Title, name, l[1])
					}
				}
			}
		}
	}
	for name := range served {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if strings.HasPrefix(name, "spindle_proxy_") && !asked[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, v := range file.Templating.List {
		for _, name := range askedMetric.FindAllString(v.Definition, -1) {
			if _, ok := served[name]; !ok {
				t.Errorf("a variable asks for %s, which is not served", name)
			}
		}
	}
}
