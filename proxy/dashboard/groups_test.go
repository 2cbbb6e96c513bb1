package dashboard

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"spindle/proxy/plan"
	"spindle/proxy/store"
	"spindle/tests/testkit"
)

// groupsAt makes the product "a" with a group for each server, by entries alone: g0, g1, … The first one has all slots.
func groupsAt(t testing.TB, d *Dashboard, servers ...*fakeServer) {
	t.Helper()
	put(t, d, "product", &store.Product{Name: "a", Kind: store.KindGroups, Hash: store.HashCRC16, Slots: 16384})
	put(t, d, "slots", &store.Slots{Slots: 16384, Ranges: []store.Range{{From: 0, To: 16383, Group: "g0"}}})
	for i, s := range servers {
		id := fmt.Sprintf("g%d", i)
		put(t, d, "groups/"+id, &store.Group{ID: id, Primary: s.address, Servers: []store.Server{{Address: s.address}}})
	}
}

// post sends a request for writing about the product "a". It returns the code of the reply, and its text.
func post(t testing.TB, d *Dashboard, method, path, body string) (code, text string) {
	t.Helper()
	w := query{method: method, path: "/v1/products/a" + path, body: body, token: "writer"}.send(d)
	return codeOf(t, w), w.Body.String()
}

// asOne replies as two addresses of one process do.
func asOne(_ *fakeServer, words []string) string {
	if words[0] == "INFO" {
		return bulk("role:master\r\nrun_id:one\r\n")
	}
	return ""
}

// TestOneServerTwice: a server joins no second group, also not under another address. If two groups have one server
// nevertheless, no slot moves between them: the move would remove the only copy of each key.
func TestOneServerTwice(t *testing.T) {
	d := begin(t, patient)
	one, again, other := fake(t, asOne), fake(t, asOne), fake(t, primaryOnly)
	groupsAt(t, d, one, other)
	foreign := fake(t, primaryOnly)
	productAt(t, d, "b", foreign)
	for _, c := range []struct{ path, body string }{
		{"/groups", `{"id":"g2","primary":"` + foreign.address + `"}`},
		{"/groups/g0/servers", `{"address":"` + foreign.address + `"}`},
		{"/groups", `{"id":"g2","primary":"` + one.address + `"}`},
		{"/groups", `{"id":"g2","primary":"` + again.address + `"}`},
		{"/groups", `{"id":"g2","primary":"` + again.address + `","servers":[{"address":"` + other.address + `"}]}`},
		{"/groups/g1/servers", `{"address":"` + again.address + `"}`},
		{"/groups/g0/servers", `{"address":"` + again.address + `"}`},
	} {
		if code, text := post(t, d, "POST", c.path, c.body); code != "in_use" {
			t.Errorf("%s %s: %s", c.path, c.body, text)
		}
	}
	if got := append(again.asked("REPLICAOF"), other.asked("REPLICAOF")...); got != nil {
		t.Errorf("a server is told %v", got)
	}
	groupsAt(t, d, one, again)
	if code, text := post(t, d, "POST", "/move", `{"steps":[{"from":0,"to":9,"source":"g0","target":"g1"}]}`); code != "ok" {
		t.Fatal(text)
	}
	testkit.Until(t, limit, "the move's problem", func() error {
		if _, text := post(t, d, "GET", "/move", ""); !strings.Contains(text, "are the same server") {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	if got := append(one.asked("MIGRATE"), one.asked("UNLINK")...); got != nil {
		t.Errorf("the server is told %v", got)
	}
}

// productAt writes another product with one group, g0, whose only server is at the address.
func productAt(t testing.TB, d *Dashboard, name string, primary *fakeServer) {
	t.Helper()
	var writes []store.Write
	for key, v := range map[string]store.Checked{
		"product": &store.Product{Name: name, Kind: store.KindGroups, Hash: store.HashCRC16, Slots: 16384},
		"groups/g0": &store.Group{ID: "g0", Primary: primary.address,
			Servers: []store.Server{{Address: primary.address}}},
	} {
		value, err := store.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, store.Write{Key: "/spindle/" + name + "/" + key, Value: value})
	}
	if _, err := d.store.Commit(t.Context(), nil, writes); err != nil {
		t.Fatal(err)
	}
}

// primaryOnly replies as a primary without keys.
func primaryOnly(*fakeServer, []string) string { return "" }

// TestTwoJoinOneServer: two operators add one server to groups of two products at the same time. One group gets it, and
// the server follows its primary.
func TestTwoJoinOneServer(t *testing.T) {
	d := begin(t, patient)
	primaries := []*fakeServer{fake(t, primaryOnly), fake(t, primaryOnly)}
	groupsAt(t, d, primaries[0])
	productAt(t, d, "b", primaries[1])
	for range 5 {
		fresh := fake(t, primaryOnly)
		codes := make([]string, 2)
		var asked sync.WaitGroup
		for i, product := range []string{"a", "b"} {
			asked.Go(func() {
				codes[i] = codeOf(t, query{method: "POST", path: "/v1/products/" + product + "/groups/g0/servers",
					body: `{"address":"` + fresh.address + `"}`, token: "writer"}.send(d))
			})
		}
		asked.Wait()
		won := slices.Index(codes, "ok")
		if slices.Sort(codes); !slices.Equal(codes, []string{"in_use", "ok"}) {
			t.Fatalf("%v", codes)
		}
		_, port, _ := net.SplitHostPort(primaries[won].address)
		if told := fresh.asked("REPLICAOF"); len(told) != 1 || !strings.Contains(told[0], port) {
			t.Errorf("the group with the primary at %s gets the server, which is told %v", port, told)
		}
	}
}

// TestChangedRoles: after a failover that the store does not have yet, the next primary stays in its group. It is not
// made a replica of the old one, and no server joins the old one.
func TestChangedRoles(t *testing.T) {
	replica := func(_ *fakeServer, words []string) string {
		switch words[0] {
		case "INFO":
			return bulk("role:slave\r\nmaster_host:10.0.0.9\r\nmaster_port:1\r\n")
		case "ROLE":
			return array("slave")
		}
		return ""
	}
	d := begin(t, patient)
	old, next, fresh := fake(t, replica), fake(t, primaryOnly), fake(t, primaryOnly)
	groupsAt(t, d, old)
	put(t, d, "groups/g0", &store.Group{ID: "g0", Primary: old.address,
		Servers: []store.Server{{Address: old.address}, {Address: next.address}}})
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/groups/g0/resync", `{"server":"` + next.address + `"}`, "primary_down"},
		{"DELETE", "/groups/g0/servers/" + next.address, "", "in_use"},
		{"POST", "/groups/g0/servers", `{"address":"` + fresh.address + `"}`, "primary_down"},
	} {
		if code, text := post(t, d, c.method, c.path, c.body); code != c.want {
			t.Errorf("%s %s: %s", c.method, c.path, text)
		}
	}
	// With Sentinels, the old primary may still count itself as one.
	sentinel := fake(t, func(_ *fakeServer, words []string) string {
		if words[0] != "SENTINEL" {
			return ""
		}
		host, port, _ := net.SplitHostPort(next.address)
		return array(host, port)
	})
	old = fake(t, primaryOnly)
	g := &store.Group{ID: "g0", Primary: old.address, Servers: []store.Server{{Address: old.address},
		{Address: next.address}}}
	m := &model{sentinels: &store.Sentinels{Addresses: []string{sentinel.address}, Quorum: 1}}
	if err := d.checkLeads(t.Context(), m, g); err == nil || explain(err).code != "changed" {
		t.Errorf("the Sentinels name another primary: %v", err)
	}
	if got := append(next.asked("REPLICAOF"), fresh.asked("REPLICAOF")...); got != nil {
		t.Errorf("a server is told %v", got)
	}
}

// TestForgetARunningProxy: a proxy that reaches the store is not forgotten, also if its registration is of a newer
// version.
func TestForgetARunningProxy(t *testing.T) {
	d := begin(t, nil)
	groupsAt(t, d)
	put(t, d, "present/p1", &store.Presence{ID: "p1", Instance: "1"})
	if _, err := d.store.Commit(t.Context(), nil, []store.Write{{Key: "/spindle/a/proxies/p1",
		Value: []byte(`{"schema":"spindle.proxy/2","id":"p1"}`)}}); err != nil {
		t.Fatal(err)
	}
	if code, text := post(t, d, "DELETE", "/proxies/p1", ""); code != "in_use" {
		t.Errorf("%s", text)
	}
}

// TestRemoveByALateView: a node that has slots or keys by its own view stays in the cluster. The node that is asked
// first does not know of them.
func TestRemoveByALateView(t *testing.T) {
	for _, c := range []struct{ name, slots, keyspace, path, want string }{
		{"slots", "5", "", "/groups/" + nodeIDs[1], "in_use"},
		{"keys", "", "db0:keys=3,expires=0\r\n", "/groups/" + nodeIDs[1], "not_empty"},
		{"neither", "", "", "/groups/" + nodeIDs[1], "ok"},
	} {
		d := begin(t, patient)
		nodes, ready := make([]*fakeServer, 3), make(chan struct{})
		for i := range nodes {
			nodes[i] = fake(t, func(_ *fakeServer, words []string) string {
				<-ready
				switch {
				case words[0] == "INFO" && i == 1:
					return bulk("role:master\r\n" + c.keyspace)
				case strings.Join(words, " ") != "CLUSTER NODES":
					return ""
				case i == 1:
					return nodesText(nodes, i, "0-4 6-199", c.slots, "200-16383")
				}
				return nodesText(nodes, i, "0-199", "", "200-16383")
			})
		}
		close(ready)
		put(t, d, "product", &store.Product{Name: "a", Kind: store.KindCluster, Hash: store.HashCRC16, Slots: 16384,
			Seeds: []string{nodes[0].address}})
		if code, text := post(t, d, "DELETE", c.path, ""); code != c.want {
			t.Errorf("%s: %s", c.name, text)
		}
		forgotten := len(nodes[0].asked("FORGET")) + len(nodes[1].asked("RESET"))
		if (forgotten > 0) != (c.want == "ok") {
			t.Errorf("%s: %d requests remove the node", c.name, forgotten)
		}
	}
}

// TestManyGroups: a product may have more groups than etcd allows conditions in a transaction. A table that names a
// group that was deleted meanwhile is refused.
func TestManyGroups(t *testing.T) {
	e := testkit.StartEtcd(t, 1)
	d := begin(t, func(s *settings) { s.store.Address.Set("etcd://" + e.Addrs()[0]); patient(s) })
	const count = 130
	put(t, d, "product", &store.Product{Name: "a", Kind: store.KindGroups, Hash: store.HashCRC16, Slots: 16384})
	put(t, d, "slots", &store.Slots{Slots: 16384})
	server := fake(t, primaryOnly)
	for i := range count {
		id, address := fmt.Sprintf("g%d", i), fmt.Sprintf("127.0.0.%d:1", i+1)
		if i < 2 {
			address = server.address
		}
		put(t, d, "groups/"+id, &store.Group{ID: id, Primary: address, Servers: []store.Server{{Address: address}}})
	}
	old, err := d.load(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if code, text := post(t, d, "DELETE", "/groups/g129", ""); code != "ok" {
		t.Fatal(text)
	}
	table := plan.NewTable(old.slots)
	if err := table.Assign(0, 1, "g129"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.edit(old).put(table.Entry(), "slots").expect("product").commit(t.Context()); !errors.Is(err,
		store.ErrConflict) {
		t.Errorf("a table with a deleted group: %v", err)
	}
	if code, text := post(t, d, "POST", "/slots", `{"even":true}`); code != "ok" {
		t.Fatal(text)
	}
	if code, text := post(t, d, "POST", "/move", `{"steps":[{"from":0,"to":0,"source":"g0","target":"g1"}]}`); code != "ok" {
		t.Error(text)
	}
	testkit.Until(t, limit, "the end of the move", func() error {
		if _, text := post(t, d, "GET", "/move", ""); !strings.Contains(text, `"state":"done"`) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
}

// TestPromoteBesideAChange: the store gets the new primary, although another operator changes the group during the
// promotion.
func TestPromoteBesideAChange(t *testing.T) {
	d := begin(t, patient)
	next := fake(t, func(_ *fakeServer, words []string) string {
		if words[0] == "REPLICAOF" {
			if code, text := post(t, d, "PATCH", "/groups/g0", `{"label":"new"}`); code != "ok" {
				t.Error(text)
			}
		}
		return ""
	})
	groupsAt(t, d, next)
	put(t, d, "groups/g0", &store.Group{ID: "g0", Primary: "127.0.0.1:1",
		Servers: []store.Server{{Address: "127.0.0.1:1"}, {Address: next.address}}})
	if code, text := post(t, d, "POST", "/groups/g0/promote", `{"server":"`+next.address+`","force":true}`); code != "ok" {
		t.Fatal(text)
	}
	m, err := d.load(t.Context(), "a")
	if err != nil || m.groups["g0"].Primary != next.address || m.groups["g0"].Label != "new" {
		t.Errorf("%+v, %v", m.groups["g0"], err)
	}
}

// TestJoinAtAnOldAddress: a node of another cluster has the address of a node that is gone. It does not join, because
// the two clusters would become one.
func TestJoinAtAnOldAddress(t *testing.T) {
	d := begin(t, patient)
	nodes, ready := make([]*fakeServer, 3), make(chan struct{})
	for i := range nodes {
		nodes[i] = fake(t, func(_ *fakeServer, words []string) string {
			<-ready
			switch text := strings.Join(words, " "); {
			case words[0] == "INFO":
				return bulk("role:master\r\ncluster_enabled:1\r\n")
			case text == "CLUSTER NODES" && i == 2:
				return strings.Replace(nodesText(nodes, i, "0-99", "", ""), nodeIDs[2], strings.Repeat("d", 40), 1)
			case text == "CLUSTER NODES":
				return nodesText(nodes, i, "0-99", "100-16383", "")
			}
			return ""
		})
	}
	close(ready)
	put(t, d, "product", &store.Product{Name: "a", Kind: store.KindCluster, Hash: store.HashCRC16, Slots: 16384,
		Seeds: []string{nodes[0].address}})
	body := `{"address":"` + nodes[2].address + `"}`
	if code, text := post(t, d, "POST", "/groups/"+nodeIDs[0]+"/servers", body); code != "not_empty" {
		t.Errorf("%s", text)
	}
	if got := append(nodes[0].asked("MEET"), nodes[2].asked("REPLICATE")...); got != nil {
		t.Errorf("a node is told %v", got)
	}
}
