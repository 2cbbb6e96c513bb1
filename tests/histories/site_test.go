package histories

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Waiting(m) }

// A site is a set of servers and their Sentinels, each on a host that can be cut off. Clients reach a server by its
// unix socket, so no cut separates them from it.
type site struct {
	t         *testing.T
	rng       *rand.Rand
	network   *testkit.Network
	servers   []*testkit.Server
	sentinels []*testkit.Server
	hosts     map[*testkit.Server]*testkit.NetworkHost
	addresses map[*testkit.Server]string
}

const (
	downAfterMs       = 500
	failoverTimeoutMs = 3000
)

// newSite starts a primary with two replicas, and three Sentinels. If redis is true, all of them are redis-server.
func newSite(t *testing.T, rng *rand.Rand, redis bool, args ...string) *site {
	t.Helper()
	s := &site{t: t, rng: rng, network: testkit.NewNetwork(t, 6), hosts: map[*testkit.Server]*testkit.NetworkHost{},
		addresses: map[*testkit.Server]string{}}
	hosts := s.network.Hosts()
	for i := range 3 {
		h, socket := hosts[i], filepath.Join(t.TempDir(), "s")
		one := testkit.Launch(t, testkit.Spec{Redis: redis, Shell: h.Shell(), Socket: socket, Args: append([]string{
			"--port", "6379", "--bind", h.IP, "--unixsocket", socket, "--protected-mode", "no", "--repl-timeout", "10",
			"--repl-ping-replica-period", "1", "--appendonly", "yes"}, args...)})
		if i > 0 {
			one.Do("REPLICAOF", hosts[0].IP, 6379)
		}
		s.servers, s.hosts[one], s.addresses[one] = append(s.servers, one), h, h.IP
	}
	for i := range 3 {
		h, dir := hosts[3+i], t.TempDir()
		file, socket := filepath.Join(dir, "sentinel.conf"), filepath.Join(dir, "s")
		lines := fmt.Sprintf("port 26379\nbind %s\nprotected-mode no\nunixsocket %s\ndir %s\nsentinel monitor m %s 6379 2\n"+
			"sentinel down-after-milliseconds m %d\nsentinel failover-timeout m %d\n", h.IP, socket, dir, hosts[0].IP,
			downAfterMs, failoverTimeoutMs)
		if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
		one := testkit.Launch(t, testkit.Spec{Bare: true, Redis: redis, Dir: dir, Shell: h.Shell(), Socket: socket,
			Args: []string{file, "--sentinel"}})
		s.sentinels, s.hosts[one] = append(s.sentinels, one), h
	}
	s.awaitWell()
	return s
}

// awaitWell waits until the Sentinels agree on the primary, the primary has both replicas, and all Sentinels know each
// other.
func (s *site) awaitWell() {
	s.t.Helper()
	testkit.Until(s.t, testkit.Slowly(60*time.Second), "a site that is well", s.whyNotWell)
}

func (s *site) whyNotWell() error {
	address := ""
	for _, w := range s.sentinels {
		v, err := w.Ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")
		if err != nil || len(v.Elems) != 2 {
			return fmt.Errorf("a Sentinel says %v, %w", v, err)
		}
		if address == "" {
			address = v.Elems[0].Text
		}
		if v.Elems[0].Text != address {
			return fmt.Errorf("Sentinels name %s and %s", address, v.Elems[0].Text)
		}
		if v, err = w.Ask("SENTINEL", "CKQUORUM", "m"); err != nil || !strings.HasPrefix(v.Text, "OK 3") {
			return fmt.Errorf("CKQUORUM: %v, %w", v, err)
		}
	}
	for _, one := range s.servers {
		v, err := one.Ask("INFO", "replication")
		if err != nil {
			return err
		}
		want := []string{"role:slave", "master_host:" + address, "master_link_status:up"}
		if s.addresses[one] == address {
			want = []string{"role:master", "connected_slaves:2", "slave0:", "slave1:"}
			if strings.Count(v.Text, "state=online") != 2 {
				return fmt.Errorf("replicas of %s are not online", address)
			}
		}
		for _, line := range want {
			if !strings.Contains(v.Text, line) {
				return fmt.Errorf("%s, of the primary %s, has no %s", s.addresses[one], address, line)
			}
		}
	}
	return nil
}

// primary returns the server that the Sentinels name as the primary. The site must be healthy, or have been so a moment
// ago.
func (s *site) primary() *testkit.Server {
	s.t.Helper()
	for _, w := range s.sentinels {
		v, err := w.Ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")
		if err != nil || len(v.Elems) != 2 {
			continue
		}
		for one, address := range s.addresses {
			if address == v.Elems[0].Text {
				return one
			}
		}
	}
	s.t.Fatal("no Sentinel names a primary")
	return nil
}

// replicas returns the servers that are not the primary, in random order.
func (s *site) replicas(primary *testkit.Server) (others []*testkit.Server) {
	for _, i := range s.rng.Perm(len(s.servers)) {
		if s.servers[i] != primary {
			others = append(others, s.servers[i])
		}
	}
	return others
}
