package dashboard

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"spindle/proxy/store"
)

// A watcher replies as a Sentinel does: it has the primaries that it watches, by name.
type watcher struct {
	mu      sync.Mutex
	watches map[string]string
	quorum  map[string]string
}

func (s *watcher) reply(_ *fakeServer, words []string) string {
	if words[0] != "SENTINEL" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch words[1] {
	case "GET-MASTER-ADDR-BY-NAME":
		if s.watches[words[2]] == "" {
			return "*-1\r\n"
		}
		host, port, _ := net.SplitHostPort(s.watches[words[2]])
		return array(host, port)
	case "MONITOR":
		s.watches[words[2]], s.quorum[words[2]] = net.JoinHostPort(words[3], words[4]), words[5]
	case "SET":
		s.quorum[words[2]] = words[4]
	case "REMOVE":
		delete(s.watches, words[2])
	}
	return ""
}

// names returns the names that the Sentinel watches, each with its quorum.
func (s *watcher) names() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for name := range s.watches {
		list = append(list, name+":"+s.quorum[name])
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestSentinelsFollowTheStore: Sentinels that are left out forget the groups, and the others get another quorum. A
// group with another name is watched under that name. No two groups have one name.
func TestSentinelsFollowTheStore(t *testing.T) {
	d := begin(t, patient)
	watchers, addresses := make([]*watcher, 3), make([]string, 3)
	for i := range watchers {
		watchers[i] = &watcher{watches: map[string]string{}, quorum: map[string]string{}}
		addresses[i] = `"` + fake(t, watchers[i].reply).address + `"`
	}
	servers := []*fakeServer{fake(t, primaryOnly), fake(t, primaryOnly)}
	groupsAt(t, d, servers...)
	for i, s := range servers {
		id := []string{"g0", "g1"}[i]
		put(t, d, "groups/"+id, &store.Group{ID: id, Primary: s.address, Servers: []store.Server{{Address: s.address}},
			Master: "a-" + id})
	}
	for _, c := range []struct {
		method, path, body, code string
		want                     [3]string
	}{
		{"PUT", "/sentinels", `{"quorum":1,"addresses":[` + addresses[0] + "," + addresses[1] + `]}`, "ok",
			[3]string{"a-g0:1 a-g1:1", "a-g0:1 a-g1:1", ""}},
		{"PUT", "/sentinels", `{"quorum":2,"addresses":[` + addresses[1] + "," + addresses[2] + `]}`, "ok",
			[3]string{"", "a-g0:2 a-g1:2", "a-g0:2 a-g1:2"}},
		{"PATCH", "/groups/g0", `{"master":"m"}`, "ok", [3]string{"", "a-g1:2 m:2", "a-g1:2 m:2"}},
		{"PATCH", "/groups/g1", `{"master":"m"}`, "in_use", [3]string{"", "a-g1:2 m:2", "a-g1:2 m:2"}},
		{"POST", "/groups", `{"id":"g2","primary":"127.0.0.1:1","master":"m"}`, "in_use",
			[3]string{"", "a-g1:2 m:2", "a-g1:2 m:2"}},
		{"PATCH", "/groups/g0", `{"master":""}`, "ok", [3]string{"", "a-g0:2 a-g1:2", "a-g0:2 a-g1:2"}},
		{"DELETE", "/groups/g1", "", "ok", [3]string{"", "a-g0:2", "a-g0:2"}},
		{"DELETE", "/sentinels", "", "ok", [3]string{}},
	} {
		if code, text := post(t, d, c.method, c.path, c.body); code != c.code {
			t.Errorf("%s %s %s: %s", c.method, c.path, c.body, text)
		}
		for i, w := range watchers {
			if got := w.names(); got != c.want[i] {
				t.Errorf("after %s %s %s Sentinel %d watches %q, want %q", c.method, c.path, c.body, i, got, c.want[i])
			}
		}
	}
}

// TestSentinelsForgetARemovedServer: a server is removed from a group. Sentinels forget it once the primary names it no
// more. They keep all replicas while another one has no link, or while one of them sees the primary down. They also do
// after a failover that the store does not show yet.
func TestSentinelsForgetARemovedServer(t *testing.T) {
	link, role := "up", "master"
	var flags [2]string
	var named atomic.Int32 // for how many more INFOs the primary names the server that has left
	var removed *fakeServer
	primary := fake(t, func(_ *fakeServer, words []string) string {
		if words[0] != "INFO" || named.Add(-1) < 0 {
			return ""
		}
		host, port, _ := net.SplitHostPort(removed.address)
		return bulk("role:" + role + "\r\nslave0:ip=" + host + ",port=" + port + ",state=online\r\n")
	})
	other := fake(t, func(_ *fakeServer, words []string) string {
		if words[0] != "INFO" {
			return ""
		}
		return bulk("role:slave\r\nmaster_host:10.0.0.9\r\nmaster_port:1\r\nmaster_link_status:" + link + "\r\n")
	})
	for _, c := range []struct {
		name, link, role string
		flags            [2]string
		code             string
		resets           [2]int
	}{
		{"all is well", "up", "master", [2]string{"master", "master"}, "ok", [2]int{1, 1}},
		{"another replica has no link", "down", "master", [2]string{"master", "master"}, "failed", [2]int{0, 0}},
		{"one sees the primary down", "up", "master", [2]string{"master", "s_down,master"}, "failed", [2]int{1, 0}},
		{"a failover has replaced the primary", "up", "slave", [2]string{"master", "master"}, "failed", [2]int{0, 0}},
	} {
		link, role, flags = c.link, c.role, c.flags
		d := begin(t, patient)
		removed = fake(t, func(_ *fakeServer, words []string) string {
			if words[0] != "INFO" || role == "master" {
				return ""
			}
			return bulk("role:slave\r\nmaster_host:10.0.0.9\r\nmaster_port:1\r\nmaster_link_status:up\r\n")
		})
		sentinels := make([]*fakeServer, 2)
		for i := range sentinels {
			sentinels[i] = fake(t, func(_ *fakeServer, words []string) string {
				if len(words) < 2 || words[1] != "MASTER" {
					return ""
				}
				return array("name", "m", "flags", flags[i])
			})
		}
		groupsAt(t, d, primary)
		put(t, d, "groups/g0", &store.Group{ID: "g0", Primary: primary.address, Master: "m", Servers: []store.Server{
			{Address: primary.address}, {Address: other.address}, {Address: removed.address}}})
		put(t, d, "sentinels", &store.Sentinels{Addresses: []string{sentinels[0].address, sentinels[1].address}, Quorum: 2})
		named.Store(3)
		if code, text := post(t, d, "DELETE", "/groups/g0/servers/"+removed.address, ""); code != c.code {
			t.Errorf("%s: %s", c.name, text)
		}
		for i, s := range sentinels {
			if got := s.asked("SENTINEL RESET m"); len(got) != c.resets[i] {
				t.Errorf("%s: Sentinel %d is told %v", c.name, i, got)
			}
		}
		if c.resets[0] > 0 && named.Load() >= 0 {
			t.Errorf("%s: the primary still names the server", c.name)
		}
	}
}

// TestOneNameInTwoProducts: groups of two products have no common name at a common Sentinel, which would watch one of
// them alone.
func TestOneNameInTwoProducts(t *testing.T) {
	d := begin(t, patient)
	w := &watcher{watches: map[string]string{}, quorum: map[string]string{}}
	common, own := fake(t, w.reply).address, fake(t, w.reply).address
	put(t, d, "product", &store.Product{Name: "a", Kind: store.KindGroups, Hash: store.HashCRC16, Slots: 16384})
	put(t, d, "groups/g", &store.Group{ID: "g", Primary: "127.0.0.1:1", Servers: []store.Server{{Address: "127.0.0.1:1"}},
		Master: "mine"})
	var writes []store.Write
	for key, v := range map[string]store.Checked{
		"product": &store.Product{Name: "b", Kind: store.KindGroups, Hash: store.HashCRC16, Slots: 16384},
		"groups/g": &store.Group{ID: "g", Primary: "127.0.0.1:2", Servers: []store.Server{{Address: "127.0.0.1:2"}},
			Master: "theirs"},
		"sentinels": &store.Sentinels{Addresses: []string{common}, Quorum: 1},
	} {
		value, err := store.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, store.Write{Key: "/spindle/b/" + key, Value: value})
	}
	if _, err := d.store.Commit(t.Context(), nil, writes); err != nil {
		t.Fatal(err)
	}
	both := `{"addresses":["` + common + `","` + own + `"]}`
	for _, c := range []struct{ method, path, body, code string }{
		{"PUT", "/sentinels", `{"addresses":["` + own + `"]}`, "ok"},
		{"PATCH", "/groups/g", `{"master":"theirs"}`, "ok"},
		{"PUT", "/sentinels", both, "in_use"},
		{"PATCH", "/groups/g", `{"master":"mine"}`, "ok"},
		{"PUT", "/sentinels", both, "ok"},
		{"PATCH", "/groups/g", `{"master":"theirs"}`, "in_use"},
		{"POST", "/groups", `{"id":"h","primary":"127.0.0.1:3","master":"theirs"}`, "in_use"},
	} {
		if code, text := post(t, d, c.method, c.path, c.body); code != c.code {
			t.Errorf("%s %s %s: %s", c.method, c.path, c.body, text)
		}
	}
}

// TestPriorityAfterAGivenUpPromotion: a replica has its old priority again after the client has given the promotion up.
// With the better one, Sentinels would choose it in later failovers too.
func TestPriorityAfterAGivenUpPromotion(t *testing.T) {
	d := begin(t, patient)
	asked, give := context.WithCancel(t.Context())
	sentinel := fake(t, func(_ *fakeServer, words []string) string {
		if words[0] == "SENTINEL" && words[1] == "REPLICAS" {
			give()
			return "*0\r\n"
		}
		return ""
	})
	server := fake(t, func(_ *fakeServer, words []string) string {
		if strings.Join(words, " ") == "CONFIG GET replica-priority" {
			return array("replica-priority", "100")
		}
		return ""
	})
	m := &model{sentinels: &store.Sentinels{Addresses: []string{sentinel.address}, Quorum: 1}}
	if err := d.failOverAt(asked, m, &store.Group{Master: "m"}, server.address); err == nil {
		t.Error("the promotion succeeds")
	}
	if got := server.asked("CONFIG SET"); len(got) != 2 || got[1] != "CONFIG SET replica-priority 100" {
		t.Errorf("the server is told %v", got)
	}
}

// TestPromotionStays: at first, only the Sentinel that has done the failover names the new primary. The old one still
// counts itself as a primary. The promotion ends when most Sentinels know of it, so the group does not get its old
// primary back. Clients would lose what they write there.
func TestPromotionStays(t *testing.T) {
	d := begin(t, patient)
	old, next := fake(t, primaryOnly), fake(t, func(_ *fakeServer, words []string) string {
		if strings.Join(words, " ") == "CONFIG GET replica-priority" {
			return array("replica-priority", "100")
		}
		return ""
	})
	host, port, _ := net.SplitHostPort(next.address)
	m := &model{sentinels: &store.Sentinels{Quorum: 2}}
	for range 3 {
		w := &watcher{watches: map[string]string{"m": old.address}, quorum: map[string]string{}}
		asked := 0
		m.sentinels.Addresses = append(m.sentinels.Addresses, fake(t, func(s *fakeServer, words []string) string {
			switch words[1] {
			case "REPLICAS":
				return "*1\r\n" + array("ip", host, "port", port, "slave-priority", "1")
			case "FAILOVER":
				w.mu.Lock()
				w.watches["m"] = next.address
				w.mu.Unlock()
			case "GET-MASTER-ADDR-BY-NAME":
				w.mu.Lock()
				if asked++; asked > 5 {
					w.watches["m"] = next.address
				}
				w.mu.Unlock()
			}
			return w.reply(s, words)
		}).address)
	}
	g := &store.Group{ID: "g", Primary: old.address, Master: "m",
		Servers: []store.Server{{Address: old.address}, {Address: next.address}}}
	if err := d.failOverAt(t.Context(), m, g, next.address); err != nil {
		t.Fatal(err)
	}
	g.Primary = next.address
	if back := d.primaryOf(t.Context(), m, g); back != "" {
		t.Errorf("the group gets %s again, and not %s", back, next.address)
	}
}
