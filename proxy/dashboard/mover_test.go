package dashboard

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/proxy/store"
	"spindle/tests/testkit"
)

// TestNoOrderWithoutLead: a dashboard that loses its lead between two commands of a move sends no further one that
// changes a server.
func TestNoOrderWithoutLead(t *testing.T) {
	for _, c := range []struct {
		name, loses string // the lead is lost while a server runs this command
		move        func(d *Dashboard, source, target *fakeServer) error
	}{
		{"a key that the target has", "MIGRATE", func(d *Dashboard, source, target *fakeServer) error {
			c := &carrier{w: &mover{d: d}, from: source.dial(t, d), target: target.address, old: true}
			return c.move(t.Context(), 0, []string{"a", "b"})
		}},
		{"a slot without keys", "GETKEYSINSLOT", func(d *Dashboard, source, target *fakeServer) error {
			r := &resharding{w: &mover{d: d}, source: source.dial(t, d), target: target.dial(t, d), sourceID: "s",
				targetID: "t", sourceHas: make([]bool, clusterSlots), targetHas: make([]bool, clusterSlots)}
			r.sourceHas[5] = true
			return r.move(t.Context(), 5)
		}},
	} {
		d := begin(t, patient)
		var after []string
		reply := func(s *fakeServer, words []string) string {
			held, _, _ := d.lead.now()
			if text := strings.Join(words, " "); held == nil {
				after = append(after, text)
			} else if strings.Contains(text, c.loses) {
				loseLead(d)
			}
			switch {
			case words[0] == "MIGRATE":
				return "-ERR Target instance replied with error: BUSYKEY Target key name already exists.\r\n"
			case words[0] == "CLUSTER" && words[1] == "GETKEYSINSLOT":
				return "*0\r\n"
			}
			return ""
		}
		source, target := fake(t, reply), fake(t, reply)
		if err := c.move(d, source, target); !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: %v", c.name, err)
		}
		if after != nil {
			t.Errorf("%s: without the lead it sends %v", c.name, after)
		}
	}
}

// nodeIDs are the IDs of three nodes of a cluster.
var nodeIDs = []string{strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)}

// nodesText returns a reply to CLUSTER NODES of three primaries. myself is the index of the node that replies. slots
// has the last words of each line.
func nodesText(nodes []*fakeServer, myself int, slots ...string) string {
	var text strings.Builder
	for i, n := range nodes {
		flags := "master"
		if i == myself {
			flags = "myself,master"
		}
		fmt.Fprintf(&text, "%s %s@1 %s - 0 0 1 connected %s\n", nodeIDs[i], n.address, flags, slots[i])
	}
	return bulk(text.String())
}

// TestSlotOfAnotherNode: a node whose view is late gives a slot to the source, and a third node has it. The slot is not
// taken from that node. A mark of an import that another tool has completed is removed.
func TestSlotOfAnotherNode(t *testing.T) {
	d := begin(t, patient)
	nodes := make([]*fakeServer, 3)
	ready := make(chan struct{})
	views := [][]string{{"6-99", "100-199", "5 200-16383"}, {"6-99", "100-199 [5-<-" + nodeIDs[0] + "]", "5 200-16383"},
		{"6-99", "100-199", "5 200-16383"}}
	for i := range nodes {
		nodes[i] = fake(t, func(_ *fakeServer, words []string) string {
			<-ready
			if strings.Join(words, " ") != "CLUSTER NODES" {
				return ""
			}
			return nodesText(nodes, i, views[i]...)
		})
	}
	close(ready)
	v := &clusterView{seen: nodes[2].address}
	for i, n := range nodes { // the late view
		v.shards = append(v.shards, &shard{primary: &clusterNode{id: nodeIDs[i], address: n.address}})
	}
	step := store.Step{From: 5, To: 5, Source: nodeIDs[0], Target: nodeIDs[1]}
	w := &mover{d: d, move: &store.Move{State: store.MoveRunning, Steps: []store.Step{step}}}
	owners := make([]string, clusterSlots)
	owners[5] = nodeIDs[0]
	if err := w.moveSlots(t.Context(), v, owners, 5, step); err == nil || !strings.Contains(err.Error(), "slot 5") {
		t.Errorf("the move of the slot: %v", err)
	}
	for i, n := range nodes {
		if got := append(n.asked("IMPORTING"), n.asked("SETSLOT 5 NODE")...); got != nil {
			t.Errorf("node %d is asked %v", i, got)
		}
	}
	if got := nodes[1].asked("STABLE"); len(got) != 1 {
		t.Errorf("the target is asked %v", got)
	}
}

// TestPaceOfTheKeysUnderWay: another pace holds for the slots that are under way too, which may have keys for hours.
func TestPaceOfTheKeysUnderWay(t *testing.T) {
	d := begin(t, patient)
	server := fake(t, primaryOnly)
	groupsAt(t, d, server)
	move := &store.Move{ID: "m1", State: store.MovePaused, Pace: 1,
		Steps: []store.Step{{From: 0, To: 9, Source: "g0", Target: "g1"}}}
	put(t, d, "move", move)
	w := &mover{d: d, product: "a", move: move}
	c := &carrier{w: w, from: server.dial(t, d), target: "127.0.0.1:1", old: true}
	keys := slices.Repeat([]string{"k"}, 10*int(limit.Seconds())) // at one a second
	ended := make(chan error, 1)
	go func() { ended <- c.move(t.Context(), 0, keys) }()
	testkit.Until(t, limit, "the first keys", func() error {
		if len(server.asked("MIGRATE")) == 0 {
			return errors.New("none is asked for")
		}
		return nil
	})
	if code, text := post(t, d, "PATCH", "/move", `{"pace":0}`); code != "ok" {
		t.Fatal(text)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(limit):
		t.Error("the keys wait as before")
	}
}

// TestDismiss: a proxy that does not reach the store is removed if its addresses refuse connections. A proxy whose
// admin address accepts them still runs: its other address may be a balancer's.
func TestDismiss(t *testing.T) {
	d := begin(t, nil)
	groupsAt(t, d)
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, c := range []struct {
		id, address, admin string
		gone               bool
	}{
		{"serves", listener.Addr().String(), "", false}, {"dead", "127.0.0.1:1", "", true},
		{"dead-admin", "127.0.0.1:1", "127.0.0.1:1", true}, {"runs", "127.0.0.1:1", listener.Addr().String(), false},
	} {
		p := &store.Proxy{ID: c.id, Instance: "1", Address: c.address, Admin: c.admin, Host: own}
		put(t, d, "proxies/"+c.id, p)
		m, err := d.load(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		(&mover{d: d, product: "a"}).dismiss(t.Context(), m, *p)
		_, err = d.store.Get(t.Context(), "/spindle/a/proxies/"+c.id)
		if gone := errors.Is(err, store.ErrNotFound); gone != c.gone {
			t.Errorf("%s is gone: %t, %v", c.id, gone, err)
		}
	}
}
