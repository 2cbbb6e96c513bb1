package dashboard

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestServers: a replica joins, is promoted, and leaves. Each refusal names its reason.
func TestServers(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 1)
	first, second, full := testkit.Redis(t), testkit.Start(t), testkit.Redis(t)
	full.Do("SET", "k", "v")
	s.groups(1, first)
	first.Do("SET", "k", "1")
	const servers = "/v1/products/shop/groups/g0/servers"
	s.refuses("POST", servers, record{"address": full.Addr}, "not_empty")
	s.refuses("POST", servers, record{"address": first.Addr}, "in_use")
	s.refuses("POST", servers, record{"address": "nonsense"}, "bad_request")
	s.refuses("POST", "/v1/products/shop/groups", record{"id": "g1", "primary": first.Addr}, "in_use")
	s.do("POST", servers, record{"address": full.Addr, "wipe": true, "zone": "b"}, nil)
	first.AwaitOnline(limit, 1)
	s.refuses("POST", "/v1/products/shop/groups", record{"id": "g1", "primary": full.Addr}, "in_use")
	s.refuses("POST", "/v1/products/shop/groups/g0/promote", record{"server": first.Addr}, "conflict")
	s.refuses("POST", "/v1/products/shop/groups/g0/promote", record{"server": second.Addr}, "no_server")
	s.do("POST", "/v1/products/shop/groups/g0/promote", record{"server": full.Addr}, nil)
	if g := s.listGroups()[0]; g.Primary != full.Addr || full.Do("GET", "k").Text != "1" {
		t.Errorf("%+v", g)
	}
	first.AwaitInfo(limit, "replication", "master_link_status", "up")
	s.refuses("DELETE", servers+"/"+full.Addr, nil, "in_use")
	s.do("POST", "/v1/products/shop/groups/g0/resync", record{"server": first.Addr}, nil)
	first.AwaitInfo(limit, "replication", "role", "slave")
	s.do("DELETE", servers+"/"+first.Addr, nil, nil)
	first.AwaitInfo(limit, "replication", "role", "master")
	// When the primary is dead, the promotion without force is refused.
	s.do("POST", servers, record{"address": first.Addr, "wipe": true}, nil)
	first.AwaitInfo(limit, "replication", "master_link_status", "up")
	full.Kill()
	s.refuses("POST", "/v1/products/shop/groups/g0/promote", record{"server": first.Addr}, "primary_down")
	s.do("POST", "/v1/products/shop/groups/g0/promote", record{"server": first.Addr, "force": true}, nil)
	if g := s.listGroups()[0]; g.Primary != first.Addr || g.Slots != 16384 {
		t.Errorf("%+v", g)
	}
}

// TestSentinels: Sentinels watch groups on demand. The group's entry follows a failover that the dashboard requests,
// and one after the primary's death.
func TestSentinels(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 1)
	primary, replica := testkit.Redis(t), testkit.Redis(t)
	s.groups(1, primary)
	s.do("POST", "/v1/products/shop/groups/g0/servers", record{"address": replica.Addr}, nil)
	var addresses []string
	for range 3 {
		port, dir := testkit.FreePort(t), t.TempDir()
		file := dir + "/sentinel.conf"
		if err := os.WriteFile(file, []byte(fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n", port, dir)), 0o644); err != nil {
			t.Fatal(err)
		}
		watcher := testkit.Launch(t, testkit.Spec{Bare: true, Dir: dir, Port: port, Args: []string{"--sentinel", file}})
		addresses = append(addresses, watcher.Addr)
	}
	s.do("PUT", "/v1/products/shop/sentinels", record{"addresses": addresses}, nil)
	var view struct {
		Quorum    int
		Sentinels []struct {
			Problem string
			Watches map[string]string
		}
	}
	s.do("GET", "/v1/products/shop/sentinels", nil, &view)
	for _, one := range view.Sentinels {
		if one.Watches["g0"] != primary.Addr || one.Problem != "" || view.Quorum != 2 {
			t.Errorf("%+v", view)
		}
	}
	primary.AwaitOnline(limit, 1)
	s.do("POST", "/v1/products/shop/groups/g0/promote", record{"server": replica.Addr}, nil)
	if g := s.listGroups()[0]; g.Primary != replica.Addr {
		t.Errorf("%+v", g)
	}
	// Sentinels close the connections of servers that change their role, so a new connection is needed.
	if v := replica.Dial().Must("CONFIG", "GET", "replica-priority").Strings(); v[1] != "100" {
		t.Errorf("the priority stays %v", v)
	}
	testkit.Until(t, limit, "the old primary as a replica", func() error {
		for _, server := range s.listGroups()[0].Servers {
			if server.Address == primary.Addr && server.Link != "up" {
				return fmt.Errorf("%+v", server)
			}
		}
		return nil
	})
	for _, a := range addresses {
		if out, code := testkit.Run(t, limit, "", testkit.Program(t, "redis-cli"), "-u", "redis://"+a, "SENTINEL", "SET",
			"shop-g0", "down-after-milliseconds", "1000"); code != 0 {
			t.Fatal(out)
		}
	}
	replica.Kill()
	testkit.Until(t, limit, "the new primary in the store", func() error {
		var g group
		if err := s.try("GET", "/v1/products/shop/groups/g0", nil, &g); err != nil || g.Primary != primary.Addr {
			return fmt.Errorf("%+v, %v", g, err)
		}
		return nil
	})
	s.do("DELETE", "/v1/products/shop/sentinels", nil, nil)
}

// TestCtl runs spindle ctl against two dashboards. Its commands reach the active one.
func TestCtl(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 2)
	ready := s.dashboards[0]
	if s.awaitActive() == ready {
		ready = s.dashboards[1]
	}
	testkit.Until(t, limit, "a dashboard that is ready", func() error {
		status, body, err := s.call(ready, "GET", "/v1/status", nil)
		if err == nil && (status != http.StatusTemporaryRedirect || !strings.Contains(body, "not_active")) {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
	ctl := func(want string, args ...string) string {
		t.Helper()
		all := append([]string{"ctl", "--url", ready.url, "--token", secret}, args...)
		out, code := testkit.Run(t, limit, "", testkit.Spindle(t), all...)
		if code != 0 || !strings.Contains(out, want) {
			t.Fatalf("ctl %v: %d %s; want %q", args, code, out, want)
		}
		return out
	}
	servers := []*testkit.Server{testkit.Redis(t), testkit.Redis(t), testkit.Redis(t)}
	ctl("you       dashboard-write-token, may write", "status")
	ctl("product  shop, over groups, 16384 slots by crc16", "product", "create", "shop", "groups")
	for i, server := range servers[:2] {
		ctl(server.Addr, "group", "create", "shop", fmt.Sprintf("g%d", i), server.Addr)
	}
	ctl("0-8191", "slots", "assign", "shop", "--even")
	s.place(500, servers[:2]...)
	ctl("g2", "group", "create", "shop", "g2", servers[2].Addr, "--label", "a <b>new</b> one")
	ctl("slots move", "plan", "shop", "--balance", "slots")
	if out := ctl("done", "plan", "shop", "--balance", "slots", "--start", "--wait"); !strings.Contains(out,
		"5460 of 5460 slots") {
		t.Errorf("%s", out)
	}
	s.holdsAll(500, servers...)
	ctl(`"state":"done"`, "--json", "move", "shop")
	ctl("draining", "group", "change", "shop", "g2", "--draining", "yes")
	ctl("done", "plan", "shop", "--drain", "g2", "--start", "--wait", "--pace", "100000")
	ctl("done", "group", "delete", "shop", "g2")
	s.holdsAll(500, servers[:2]...)
	ctl("move start", "audit")
	token := strings.TrimSpace(ctl("", "token", "create", "reader", "read"))
	out, code := testkit.Run(t, limit, "", testkit.Spindle(t), "ctl", "--url", ready.url, "--token", token, "product",
		"delete", "shop")
	if code != 1 || !strings.Contains(out, "a token for writing is needed") {
		t.Errorf("%d %s", code, out)
	}
	for _, p := range s.dashboards { // SIGTERM hands over at once
		if p != ready {
			began := time.Now()
			if code := p.Terminate(); code != 0 {
				t.Errorf("exit code %d: %s", code, p.Log())
			}
			s.forget(p)
			s.awaitActive()
			t.Logf("the next dashboard was active after %s", time.Since(began))
		}
	}
	ctl("shop", "products")
}
