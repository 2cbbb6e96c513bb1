package process

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"spindle/tests/testkit"
)

// A dashboard has the parts of Grafana's format that the test needs.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ RefID, Expr, LegendFormat string }
	}
}

var (
	metricName = regexp.MustCompile(`\b(?:spindle|go)_[a-z0-9_]+`)
	served     = regexp.MustCompile(`(?m)^((?:spindle|go)_[a-z0-9_]+)(?:\{(.*)\})? `)
	labelName  = regexp.MustCompile(`([a-z_]+)="`)
	legend     = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// TestAlertRules: servers export each metric that the alert rules name, and doc/alarms.md describes each alarm.
func TestAlertRules(t *testing.T) {
	text, err := os.ReadFile("../../packaging/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../doc/alarms.md")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	certificates := testkit.NewCertificates(t)
	address := func() string { return "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t)) }
	primaryAt, replicaAt := address(), address()
	primary := testkit.Start(t, append(certificates.Directives(testkit.FreePort(t)), "--admin-address", primaryAt)...)
	replica := testkit.Start(t, "--admin-address", replicaAt, "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port))
	replica.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	replica.Do("GET", "k")
	serves := map[string]bool{}
	var body string
	testkit.Until(t, testkit.Slowly(20*time.Second), "the replica's lag is served", func() error {
		_, onPrimary := fetch(t, "http://"+primaryAt+"/metrics")
		_, onReplica := fetch(t, "http://"+replicaAt+"/metrics")
		body = onPrimary + onReplica
		return testkit.Equal(strings.Contains(body, "spindle_replica_lag_seconds{replica=\"127.0.0.1:"), true)
	})
	for _, m := range served.FindAllStringSubmatch(body, -1) {
		serves[m[1]] = true
	}
	if n := len(rules.Groups[0].Rules); n < 10 {
		t.Errorf("%d rules", n)
	}
	for _, r := range rules.Groups[0].Rules {
		for _, name := range metricName.FindAllString(r.Expr, -1) {
			if !serves[name] {
				t.Errorf("%s: %s is not served", r.Alert, name)
			}
		}
		if !strings.Contains(string(page), r.Alert) {
			t.Errorf("doc/alarms.md says nothing of %s", r.Alert)
		}
	}
	for _, line := range []string{"\nspindle_master_link_status 1\n", "\nspindle_rdb_last_bgsave_status 1\n"} {
		if !strings.Contains(body, line) {
			t.Errorf("no %q", line)
		}
	}
}

// TestDashboard: a running server exports the metrics and labels that the Grafana dashboard uses.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "packaging", "grafana", "spindle.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address)
	s.Do("SET", "k", "v", "EX", 1000)
	s.Do("EVAL", "return redis.call('GET', 'k')", 0)
	s.Do("SET", "big", string(make([]byte, 100<<10)))
	s.Ask("LPUSH", "k", "v") // an error
	for range 2000 {
		s.Do("GET", "k")
	}
	_, metrics := fetch(t, "http://"+address+"/metrics")
	labels := map[string]map[string]bool{}
	for _, m := range served.FindAllStringSubmatch(metrics, -1) {
		if labels[m[1]] == nil {
			labels[m[1]] = map[string]bool{"instance": true} // added by the collector
		}
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			labels[m[1]][l[1]] = true
		}
	}
	ids, panels := map[int]bool{}, 0
	for i, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: the id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for _, q := range d.Panels[:i] {
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies over %s", p.Title, q.Title)
			}
		}
		if p.Type == "row" {
			continue
		}
		panels++
		if len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			names := metricName.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: %q names no metric", p.Title, target.Expr)
			}
			for _, name := range names {
				if labels[name] == nil {
					t.Errorf("%s: %s is not served", p.Title, name)
					continue
				}
				for _, l := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
					if !labels[name][l[1]] {
						t.Errorf("%s: %s has no label %s", p.Title, name, l[1])
					}
				}
			}
		}
	}
	if panels < 20 {
		t.Errorf("%d panels", panels)
	}
	for _, v := range d.Templating.List {
		for _, name := range metricName.FindAllString(v.Definition, -1) {
			if labels[name] == nil {
				t.Errorf("variable %s: %s is not served", v.Name, name)
			}
		}
	}
}
