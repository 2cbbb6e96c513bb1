package histories

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Waiting(m) }

// A plan says what a site is made of.
type plan struct {
	cluster bool  // nodes of a cluster instead of servers with Sentinels
	redis   bool  // all are redis-server
	mixed   bool  // one replica is redis-server, and cannot be promoted
	both    bool  // a failover needs both replicas, because replies wait for one of them
	load    int   // writes a second of a load beside the clients of a history
	more    []any // settings, with their values, of servers that are no redis-server
}

// A site is a primary with two replicas, and voters that choose another primary. Each is on a host that can be cut off.
// Clients reach a server by its unix socket, so no cut separates them from it.
//
// Every server has a configuration file, which keeps its role over a restart.
type site struct {
	t         *testing.T
	rng       *rand.Rand
	plan      plan
	network   *testkit.Network
	servers   []*testkit.Server
	voters    []*testkit.Server // Sentinels, or the other primaries of the cluster, which have no data
	hosts     map[*testkit.Server]*testkit.NetworkHost
	addresses map[*testkit.Server]string
	others    map[*testkit.Server]bool // redis-servers
	fragile   map[*testkit.Server]bool // they may have ended by themselves, and start again
	failovers int
}

const (
	downAfterMs       = 500
	failoverTimeoutMs = 3000
	nodeTimeoutMs     = 1000
)

// newSite starts what the plan says, and waits until all know all.
func newSite(t *testing.T, rng *rand.Rand, p plan) *site {
	t.Helper()
	voters := 3
	if p.cluster {
		voters = 2 // the primary votes too
	}
	s := &site{t: t, rng: rng, plan: p, network: testkit.NewNetwork(t, 3+voters),
		hosts: map[*testkit.Server]*testkit.NetworkHost{}, addresses: map[*testkit.Server]string{},
		others: map[*testkit.Server]bool{}, fragile: map[*testkit.Server]bool{}}
	for i, h := range s.network.Hosts() {
		switch {
		case i < 3:
			s.servers = append(s.servers, s.start(h, p.redis || p.mixed && i == 2, p.mixed && i == 2))
		case p.cluster:
			s.voters = append(s.voters, s.start(h, p.redis, false))
		}
	}
	if p.cluster {
		s.join()
	} else {
		s.watch()
	}
	s.awaitWell()
	if len(p.more) > 0 && p.cluster { // joining counts keys, whose reply would wait for replicas
		for _, one := range s.servers {
			one.Do(append([]any{"CONFIG", "SET"}, p.more...)...)
			one.Do("CONFIG", "REWRITE")
		}
	}
	return s
}

// start starts a server on a host. last: it is never promoted.
func (s *site) start(h *testkit.NetworkHost, redis, last bool) *testkit.Server {
	s.t.Helper()
	dir := s.t.TempDir()
	file, socket := filepath.Join(dir, "server.conf"), filepath.Join(dir, "s")
	lines := []string{"port 6379", "bind " + h.IP, "unixsocket " + socket, "dir " + dir, "protected-mode no",
		"enable-debug-command local", "save 2 1", "appendonly yes", "repl-diskless-sync-delay 0", "repl-timeout 10",
		"repl-ping-replica-period 1"}
	if s.plan.cluster {
		lines = append(lines, "cluster-enabled yes", fmt.Sprint("cluster-node-timeout ", nodeTimeoutMs),
			"cluster-replica-validity-factor 0", "cluster-allow-replica-migration no")
	}
	// A Sentinel reads them in the first INFO. It would know of a later CONFIG SET only within ten seconds.
	for i := 0; i+1 < len(s.plan.more) && !redis && !s.plan.cluster; i += 2 {
		lines = append(lines, fmt.Sprint(s.plan.more[i], " ", s.plan.more[i+1]))
	}
	if last {
		lines = append(lines, "replica-priority 0")
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		s.t.Fatal(err)
	}
	one := testkit.Launch(s.t, testkit.Spec{Bare: true, Redis: redis, Dir: dir, Shell: h.Shell(), Socket: socket,
		Args: []string{file}})
	s.hosts[one], s.addresses[one], s.others[one] = h, h.IP, redis
	return one
}

// watch makes replicas of the last two servers, and has three Sentinels watch the first.
func (s *site) watch() {
	s.t.Helper()
	primary := s.addresses[s.servers[0]]
	for _, one := range s.servers[1:] {
		one.Do("REPLICAOF", primary, 6379)
		one.Do("CONFIG", "REWRITE")
	}
	for _, h := range s.network.Hosts()[3:] {
		dir := s.t.TempDir()
		file, socket := filepath.Join(dir, "sentinel.conf"), filepath.Join(dir, "s")
		lines := fmt.Sprintf("port 26379\nbind %s\nprotected-mode no\nunixsocket %s\ndir %s\nsentinel monitor m %s 6379 2\n"+
			"sentinel down-after-milliseconds m %d\nsentinel failover-timeout m %d\n", h.IP, socket, dir, primary,
			downAfterMs, failoverTimeoutMs)
		if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
			s.t.Fatal(err)
		}
		one := testkit.Launch(s.t, testkit.Spec{Bare: true, Redis: s.plan.redis, Dir: dir, Shell: h.Shell(), Socket: socket,
			Args: []string{file, "--sentinel"}})
		s.voters, s.hosts[one] = append(s.voters, one), h
	}
}

// join makes a cluster. The first server has all slots but two, which the voters have.
func (s *site) join() {
	s.t.Helper()
	first := s.servers[0]
	all := append(s.servers[:3:3], s.voters...)
	for i, one := range all {
		one.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if one != first {
			first.Do("CLUSTER", "MEET", s.addresses[one], 6379)
		}
	}
	first.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16381)
	for i, one := range s.voters {
		one.Do("CLUSTER", "ADDSLOTS", 16382+i)
	}
	id := first.Do("CLUSTER", "MYID").Text
	for _, one := range s.servers[1:] {
		testkit.Until(s.t, testkit.Slowly(60*time.Second), "a replica of a node", func() error {
			v, err := one.Ask("CLUSTER", "REPLICATE", id)
			return errors.Join(err, v.Err())
		})
	}
}

// named returns the address of the primary that a node or a Sentinel names.
func (s *site) named(by *testkit.Server) (string, error) {
	if !s.plan.cluster {
		v, err := by.Ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")
		if err != nil || len(v.Elems) != 2 {
			return "", fmt.Errorf("a Sentinel says %v, %w", v, err)
		}
		return v.Elems[0].Text, nil
	}
	v, err := by.Ask("CLUSTER", "SLOTS")
	if err != nil {
		return "", err
	}
	for _, e := range v.Elems {
		if len(e.Elems) > 2 && e.Elems[0].Int == 0 && len(e.Elems[2].Elems) > 0 {
			return e.Elems[2].Elems[0].Text, nil
		}
	}
	return "", fmt.Errorf("a node knows no owner of slot 0: %v", v)
}

// awaitWell waits until the voters agree on the primary, the primary has both replicas, and all know each other.
func (s *site) awaitWell() {
	s.t.Helper()
	testkit.Until(s.t, testkit.Slowly(60*time.Second), "a site that is well", s.whyNotWell)
}

func (s *site) whyNotWell() error {
	for one := range s.fragile {
		if one.Ended() {
			one.Again()
			return errors.New("a server that has ended starts again")
		}
	}
	address := ""
	for _, w := range s.voters {
		says, err := s.named(w)
		if err != nil {
			return err
		}
		if address == "" {
			address = says
		}
		if says != address {
			return fmt.Errorf("voters name %s and %s", address, says)
		}
		if !s.plan.cluster {
			if v, err := w.Ask("SENTINEL", "CKQUORUM", "m"); err != nil || !strings.HasPrefix(v.Text, "OK 3") {
				return fmt.Errorf("CKQUORUM: %v, %w", v, err)
			}
			if (s.plan.mixed || s.plan.both) && len(s.plan.more) > 0 { // a failover needs replicas that are complete
				if err := s.knowsReplicas(w, address); err != nil {
					return err
				}
			}
			if s.plan.both { // just after a failover the old primary is missing for the next one
				v, err := w.Ask("SENTINEL", "MASTER", "m")
				if flags, _ := v.Get("flags"); err != nil || flags.Text != "master" {
					return fmt.Errorf("the primary's flags are %s, %w", flags.Text, err)
				}
			}
		}
	}
	for _, one := range append(s.servers[:3:3], s.voters...) {
		if s.plan.cluster {
			v, err := one.Ask("CLUSTER", "INFO")
			says, _ := s.named(one)
			if err != nil || says != address || !strings.Contains(v.Text, "cluster_state:ok") ||
				!strings.Contains(v.Text, "cluster_known_nodes:5\r") {
				return fmt.Errorf("a node names %s, not %s: %v %w", says, address, v, err)
			}
		}
	}
	for _, one := range s.servers {
		v, err := one.Ask("INFO")
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
		want = append(want, "loading:0", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "aof_last_write_status:ok",
			"rdb_last_bgsave_status:ok")
		for _, line := range want {
			if !strings.Contains(v.Text, line) {
				return fmt.Errorf("%s, of the primary %s, has no %s", s.addresses[one], address, line)
			}
		}
	}
	return nil
}

// knowsReplicas checks that a Sentinel has seen both replicas follow the primary since their last start. Before, it
// would not promote them.
func (s *site) knowsReplicas(w *testkit.Server, address string) error {
	v, err := w.Ask("SENTINEL", "REPLICAS", "m")
	if err != nil {
		return err
	}
	all := ""
	for _, replica := range v.Elems {
		all += strings.Join(replica.Strings(), " ") + "\n"
	}
	for _, one := range s.servers {
		if s.addresses[one] == address {
			continue
		}
		info, err := one.Ask("INFO", "server")
		if err != nil {
			return err
		}
		_, runID, _ := strings.Cut(info.Text, "run_id:")
		line := regexp.MustCompile(` runid ` + runID[:min(len(runID), 40)] + ` .*master-link-status ok master-host ` +
			regexp.QuoteMeta(address) + ` `)
		if !line.MatchString(all) {
			return fmt.Errorf("the replica %s is not known to follow %s:\n%s", s.addresses[one], address, all)
		}
	}
	return nil
}

// primary returns the server that the voters name as the primary. The site must be healthy, or have been so a moment
// ago.
func (s *site) primary() *testkit.Server {
	s.t.Helper()
	for _, w := range s.voters {
		says, err := s.named(w)
		if err != nil {
			continue
		}
		for one, address := range s.addresses {
			if address == says {
				return one
			}
		}
	}
	s.t.Fatal("no voter names a primary")
	return nil
}

// awaitAnother waits until the voters name another primary than old.
func (s *site) awaitAnother(old *testkit.Server) {
	s.t.Helper()
	testkit.Until(s.t, testkit.Slowly(60*time.Second), "another primary", func() error {
		if s.primary() == old {
			return errors.New("the primary is the same")
		}
		return nil
	})
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
