package sentinel

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// patience is the time limit of a wait that takes some seconds on a fast host.
const patience = 90 * time.Second

// A watched is one Sentinel with its configuration file.
type watched struct {
	*testkit.Server
	file string
}

// sentinel starts a Sentinel of a kind with these lines in its file.
func sentinel(t *testing.T, kind string, lines ...string) watched {
	t.Helper()
	dir, port := t.TempDir(), testkit.FreePort(t)
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n%s\n", port, dir, strings.Join(lines, "\n"))
	file := dir + "/sentinel.conf"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := testkit.Kind(t, kind)
	spec.Bare, spec.Dir, spec.Port, spec.Args = true, dir, port, []string{file, "--sentinel"}
	return watched{testkit.Launch(t, spec), file}
}

// fields converts a reply of names and values to a map.
func fields(v respclient.Value) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		m[v.Elems[i].Word()] = v.Elems[i+1].Word()
	}
	return m
}

// address returns the primary's address according to s.
func (s watched) address() string {
	v := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")
	if len(v.Elems) != 2 {
		return v.String()
	}
	return net.JoinHostPort(v.Elems[0].Text, v.Elems[1].Text)
}

// hasten makes a Sentinel check more often, so that the short form of a test is short.
func (s watched) hasten() {
	if testkit.Scale() == 1 {
		s.Do("SENTINEL", "DEBUG", "info-period", 1000, "publish-period", 500)
	}
}

// whyNotWell returns an error unless s sees the primary up, this many replicas, and this many other Sentinels.
//
// A Sentinel may not have noticed yet that an old primary has become a replica. If that server were promoted now, the
// Sentinel would demote it. Redis's Sentinels do so too.
func (s watched) whyNotWell(replicas, sentinels int) error {
	v, err := s.Ask("SENTINEL", "MASTER", "m")
	if err != nil {
		return err
	}
	m := fields(v)
	got, want := m["flags"]+" "+m["num-other-sentinels"]+" "+m["num-slaves"],
		fmt.Sprint("master ", sentinels, " ", replicas)
	if got != want {
		return fmt.Errorf("a Sentinel sees %s, want %s", got, want)
	}
	for about, flag := range map[string]string{"REPLICAS": "slave", "SENTINELS": "sentinel"} {
		v, err := s.Ask("SENTINEL", about, "m")
		if err != nil {
			return err
		}
		for _, e := range v.Elems {
			f := fields(e)
			if f["flags"] != flag || about == "REPLICAS" && f["role-reported"]+f["master-link-status"] != "slaveok" {
				return fmt.Errorf("a Sentinel sees %v", f)
			}
		}
	}
	return nil
}

// A group is a primary, its replicas, and their Sentinels.
type group struct {
	servers   []*testkit.Server // the first is the primary
	sentinels []watched
}

// newGroup starts servers and Sentinels of these kinds. It waits until each Sentinel knows all of them.
func newGroup(t *testing.T, servers, sentinels []string) group {
	t.Helper()
	var g group
	for i, kind := range servers {
		s := testkit.Launch(t, testkit.Kind(t, kind))
		if i > 0 {
			s.Do("REPLICAOF", "127.0.0.1", g.servers[0].Port)
		}
		g.servers = append(g.servers, s)
	}
	for _, s := range g.servers[1:] {
		s.AwaitInfo(patience, "replication", "master_link_status", "up")
	}
	quorum := len(sentinels)/2 + 1
	for _, kind := range sentinels {
		g.sentinels = append(g.sentinels, sentinel(t, kind,
			fmt.Sprintf("sentinel monitor m 127.0.0.1 %d %d", g.servers[0].Port, quorum),
			fmt.Sprint("sentinel down-after-milliseconds m ", calmMs), "sentinel failover-timeout m 10000"))
	}
	for _, s := range g.sentinels {
		testkit.Until(t, patience, "a Sentinel to know all", func() error {
			m := fields(s.Do("SENTINEL", "MASTER", "m"))
			if err := testkit.Equal(m["num-other-sentinels"], strconv.Itoa(len(sentinels)-1)); err != nil {
				return err
			}
			return testkit.Equal(m["num-slaves"], strconv.Itoa(len(servers)-1))
		})
	}
	return g
}

// A server of a busy host may be silent for seconds. So a test makes its Sentinels alert only for a failover. Otherwise
// they could replace the primary before the test harms it, or make the old primary the primary again.
const alertMs, calmMs = 1000, 60_000

// downAfter sets how long a server is silent before the Sentinels that run see it down.
func (g group) downAfter(ms int) {
	for _, s := range g.sentinels {
		if !s.Ended() {
			s.Do("SENTINEL", "SET", "m", "down-after-milliseconds", ms)
		}
	}
}

// awaitSwitch waits until all Sentinels name one address other than from, and calms them. It returns the server there.
func (g group) awaitSwitch(t *testing.T, from string) *testkit.Server {
	t.Helper()
	var to string
	testkit.Until(t, patience, "all to name another primary", func() error {
		to = g.sentinels[0].address()
		for _, s := range g.sentinels {
			if at := s.address(); at == from || at != to {
				return fmt.Errorf("one says %s, another %s", to, at)
			}
		}
		return nil
	})
	g.downAfter(calmMs)
	for _, s := range g.servers {
		if s.Addr == to {
			return s
		}
	}
	t.Fatalf("no server is at %s", to)
	return nil
}

// await waits until a field of a server's INFO replication has a value. A Sentinel that reconfigures a server
// closes its clients, so a lost connection is no failure.
func await(t *testing.T, s *testkit.Server, field, want string) {
	t.Helper()
	testkit.Until(t, patience, s.Addr+" to say "+field+":"+want, func() error {
		v, err := s.Ask("INFO", "replication")
		if err != nil {
			return err
		}
		if !strings.Contains(v.Text, field+":"+want+"\r\n") {
			return fmt.Errorf("%s", v.Text)
		}
		return nil
	})
}
