package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"spindle/tests/testkit"
)

// TestCountsOfNodes: CLUSTER INFO counts the nodes in PFAIL and in FAIL, and among them the primaries with slots.
func TestCountsOfNodes(t *testing.T) {
	t.Parallel()
	nodes := []*testkit.Server{node(t, false), node(t, false), node(t, false)}
	create(t, nodes, 0)
	counts := func(n *testkit.Server, pfail, fail int) error {
		f := info(n)
		got := fmt.Sprint(f["cluster_nodes_pfail"], " ", f["cluster_voting_nodes_pfail"], " ", f["cluster_nodes_fail"], " ",
			f["cluster_voting_nodes_fail"])
		return testkit.Equal(got, fmt.Sprint(pfail, " ", pfail, " ", fail, " ", fail))
	}
	if err := counts(nodes[0], 0, 0); err != nil {
		t.Error(err)
	}
	nodes[1].Signal(syscall.SIGSTOP)
	nodes[2].Signal(syscall.SIGSTOP)
	testkit.Until(t, testkit.Slowly(patience), "one node alone suspects two",
		func() error { return counts(nodes[0], 2, 0) })
	nodes[2].Signal(syscall.SIGCONT)
	for _, n := range []*testkit.Server{nodes[0], nodes[2]} {
		testkit.Until(t, testkit.Slowly(patience), "two nodes fail the third", func() error { return counts(n, 0, 1) })
	}
	nodes[1].Signal(syscall.SIGCONT)
	testkit.Until(t, testkit.Slowly(patience), "no node fails", func() error { return counts(nodes[0], 0, 0) })
}

// TestBytesOnTheBus: CLUSTER INFO counts the bytes of bus messages, and separately those of published messages.
func TestBytesOnTheBus(t *testing.T) {
	t.Parallel()
	const messages, size = 20, 5000
	one, other := node(t, false), node(t, false)
	create(t, []*testkit.Server{one, other, node(t, false)}, 0)
	for range messages {
		one.Do("PUBLISH", "news", strings.Repeat("x", size))
	}
	figure := func(n *testkit.Server, name string) int {
		v, err := strconv.Atoi(info(n)["cluster_stats_"+name])
		if err != nil {
			t.Fatalf("cluster_stats_%s: %v", name, err)
		}
		return v
	}
	testkit.Until(t, testkit.Slowly(patience), "the messages arrive", func() error {
		sent, received := figure(one, "pubsub_bytes_sent"), figure(other, "pubsub_bytes_received")
		if sent < 2*messages*size || sent != 2*received {
			return fmt.Errorf("%d bytes were sent to two nodes, and %d came to one", sent, received)
		}
		return nil
	})
	if all, published := figure(one, "bytes_sent"), figure(one, "pubsub_bytes_sent"); all <= published {
		t.Errorf("%d bytes were sent, of them %d published", all, published)
	}
	if n := figure(one, "module_bytes_sent") + figure(one, "pubsub_bytes_received"); n != 0 {
		t.Errorf("%d bytes of messages that no node sent", n)
	}
}
