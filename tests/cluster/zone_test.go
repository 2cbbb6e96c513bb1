package cluster

import (
	"fmt"
	"strconv"
	"testing"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// zones returns the availability zones that n shows in SHARDS, by port, such as "7000 a, 7001 -". It returns an error
// if SLOTS shows others.
func zones(n *testkit.Server) (map[int64]string, error) {
	found := map[int64]string{}
	note := func(port respclient.Value, fields respclient.Value) {
		v, _ := fields.Get("availability-zone")
		found[port.Int] = v.Text
	}
	for _, shard := range n.Do("CLUSTER", "SHARDS").Elems {
		nodes, _ := shard.Get("nodes")
		for _, node := range nodes.Elems {
			port, _ := node.Get("port")
			note(port, node)
		}
	}
	for _, run := range n.Do("CLUSTER", "SLOTS").Elems {
		for _, node := range run.Elems[2:] {
			before := found[node.Elems[1].Int]
			if note(node.Elems[1], node.Elems[3]); found[node.Elems[1].Int] != before {
				return nil, fmt.Errorf("SLOTS has zone %q of a node, and SHARDS %q", found[node.Elems[1].Int], before)
			}
		}
	}
	return found, nil
}

// TestAvailabilityZones: nodes of spindle and of Valkey exchange their zones. A zone may change, and a node that
// restarts learns the zones of the others again.
func TestAvailabilityZones(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Ours, testkit.Valkey9} {
		t.Run("spindle and "+kind, func(t *testing.T) {
			t.Parallel()
			spec := testkit.Kind(t, kind)
			spec.Args = []string{"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs),
				"--cluster-port", strconv.Itoa(testkit.FreePort(t)), "--availability-zone", "us-east-1a"}
			a, b := testkit.Launch(t, spec), node(t, false, "--availability-zone", "us east 1b")
			a.Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
			b.Do("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
			testkit.Meet(t, a, busPortOf(a), b)
			agree := func(what, zoneA, zoneB string) {
				t.Helper()
				for _, n := range []*testkit.Server{a, b} {
					testkit.Until(t, testkit.Slowly(patience), what, func() error {
						found, err := zones(n)
						if err == nil && (found[int64(a.Port)] != zoneA || found[int64(b.Port)] != zoneB) {
							err = fmt.Errorf("%s: %v", n.Addr, found)
						}
						return err
					})
				}
			}
			agree("all know the zones", "us-east-1a", "us east 1b")
			b.Do("CONFIG", "SET", "availability-zone", "c")
			agree("a zone has changed", "us-east-1a", "c")
			b.Terminate()
			b.Restart("--availability-zone", "d")
			agree("a node has begun again", "us-east-1a", "d")
			if kind == testkit.Ours {
				a.Do("CONFIG", "SET", "availability-zone", "")
				agree("a zone is gone", "", "d")
			}
			hello, _ := b.Do("HELLO").Get("availability_zone")
			if shown := b.Info("server")["availability_zone"]; hello.Text != "d" || shown != "d" {
				t.Errorf("HELLO has %q, INFO %q", hello.Text, shown)
			}
			if v, err := b.Ask("CONFIG", "SET", "availability-zone", "a\nb"); err != nil || v.Err() == nil {
				t.Errorf("a zone of two lines: %v, %v", v, err)
			}
		})
	}
}
