package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// TestOlderNodesGetTheHostNameAlone: redis-server 7.0 logs a complaint about every extension except the host name.
// Spindle never sends it another extension, neither at CLUSTER MEET nor after a restart. Spindle nodes still exchange
// all extensions, even if both have a nodes.conf of 7.0.
func TestOlderNodesGetTheHostNameAlone(t *testing.T) {
	t.Parallel()
	named := func(name string) *testkit.Server {
		return node(t, false, "--cluster-announce-hostname", name+".example", "--cluster-announce-human-nodename", name)
	}
	older, a, b := node(t, true), named("a"), named("b")
	nodes := []*testkit.Server{older, a, b}
	// file waits until a node's nodes.conf has text in the line about another node.
	file := func(of, about *testkit.Server, text string) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(patience), "nodes.conf tells of the other's name", func() error {
			written, err := os.ReadFile(of.File("nodes.conf"))
			for line := range strings.Lines(string(written)) {
				if strings.Contains(line, fmt.Sprintf(":%d@", about.Port)) && strings.Contains(line, text) {
					return err
				}
			}
			return errors.Join(err, fmt.Errorf("no %q: %s", text, written))
		})
	}
	check := func() {
		t.Helper()
		for _, n := range nodes {
			testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster",
				func() error { return well(n, len(nodes)) })
		}
		file(a, b, "nodename=b,")
		file(b, a, "nodename=a,")
		file(older, a, ",a.example ")
		file(older, b, ",b.example ")
		if n := strings.Count(older.Log(), "unknown extension"); n != 0 {
			t.Errorf("%d extensions were not known", n)
		}
	}
	create(t, nodes, 0)
	check()
	a.Terminate()
	a.Restart()
	check()
	a.Terminate()
	b.Terminate()
	for _, n := range []*testkit.Server{a, b} { // in the form of 7.0
		written, err := os.ReadFile(n.File("nodes.conf"))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for line := range strings.Lines(string(written)) {
			if address, rest, found := strings.Cut(line, ",tls-port"); found {
				_, rest, _ = strings.Cut(rest, " ")
				line = address + " " + rest
			}
			text.WriteString(line)
		}
		if err := os.WriteFile(n.File("nodes.conf"), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a.Restart()
	b.Restart()
	check()
}
