package dashboard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

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
	for _, c := range []struct{ path, body string }{
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

// primaryOnly replies as a primary without keys.
func primaryOnly(*fakeServer, []string) string { return "" }

// TestTwoJoinOneServer: two operators add one server to two groups at the same time. One group gets it.
func TestTwoJoinOneServer(t *testing.T) {
	d := begin(t, patient)
	var both sync.WaitGroup
	both.Add(2)
	fresh := fake(t, func(_ *fakeServer, words []string) string {
		if words[0] == "REPLICAOF" {
			both.Done()
			both.Wait()
		}
		return ""
	})
	groupsAt(t, d, fake(t, primaryOnly), fake(t, primaryOnly))
	codes := make([]string, 2)
	var asked sync.WaitGroup
	for i := range codes {
		asked.Go(func() {
			codes[i], _ = post(t, d, "POST", fmt.Sprintf("/groups/g%d/servers", i), `{"address":"`+fresh.address+`"}`)
		})
	}
	asked.Wait()
	if slices.Sort(codes); !slices.Equal(codes, []string{"changed", "ok"}) {
		t.Errorf("%v", codes)
	}
	var list struct{ Groups []groupView }
	if _, text := post(t, d, "GET", "/groups", ""); json.Unmarshal([]byte(text), &list) != nil || strings.Count(text,
		`"address":"`+fresh.address) != 1 {
		t.Errorf("the groups: %s", text)
	}
}
