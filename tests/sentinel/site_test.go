package sentinel

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A site is a set of servers and Sentinels, each on a host that can be cut off.
type site struct {
	t         *testing.T
	rng       *rand.Rand
	network   *testkit.Network
	servers   []*testkit.Server
	sentinels []watched
	hosts     map[*testkit.Server]*testkit.NetworkHost
	at        map[string]*testkit.Server // servers by the address that Sentinels know
	ids       []string                   // of the Sentinels
	epochs    map[string]string          // the address that an epoch's configuration names
	logs      map[*testkit.Server]*journal
}

const failoverTimeoutMs = 4000

// newSite starts servers and Sentinels. Those whose element is true are Redis's. It waits until each Sentinel knows all
// of them.
func newSite(t *testing.T, rng *rand.Rand, servers, sentinels []bool) *site {
	t.Helper()
	s := &site{
		t: t, rng: rng, network: testkit.NewNetwork(t, len(servers)+len(sentinels)),
		hosts: map[*testkit.Server]*testkit.NetworkHost{}, at: map[string]*testkit.Server{}, epochs: map[string]string{},
		logs: map[*testkit.Server]*journal{},
	}
	hosts := s.network.Hosts()
	for i, redis := range servers {
		h, socket := hosts[i], t.TempDir()+"/s"
		server := testkit.Launch(t, testkit.Spec{Redis: redis, Shell: h.Shell(), Socket: socket, Args: []string{
			"--port", "6379", "--bind", h.IP, "--unixsocket", socket, "--protected-mode", "no",
			"--repl-timeout", "10", "--repl-ping-replica-period", "1"}})
		if i > 0 {
			server.Do("REPLICAOF", hosts[0].IP, 6379)
		}
		s.servers, s.hosts[server], s.at[h.IP+":6379"] = append(s.servers, server), h, server
	}
	for i, redis := range sentinels {
		h, dir := hosts[len(servers)+i], t.TempDir()
		file, socket := dir+"/sentinel.conf", dir+"/s"
		lines := fmt.Sprintf("port 26379\nbind %s\nprotected-mode no\nunixsocket %s\ndir %s\n"+
			"sentinel monitor m %s 6379 %d\nsentinel down-after-milliseconds m %d\nsentinel failover-timeout m %d\n",
			h.IP, socket, dir, hosts[0].IP, len(sentinels)/2+1, calmMs, failoverTimeoutMs)
		if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
		watch := testkit.Launch(t, testkit.Spec{Bare: true, Redis: redis, Dir: dir, Shell: h.Shell(), Socket: socket,
			Args: []string{file, "--sentinel"}})
		s.sentinels, s.hosts[watch] = append(s.sentinels, watched{watch, file}), h
		s.ids = append(s.ids, watch.Do("SENTINEL", "MYID").Text)
		s.sentinels[i].hasten()
	}
	testkit.Until(t, patience, "all to know each other", s.whyNotReady)
	return s
}

// downAfter sets how long a server is silent before the Sentinels see it down. All of them must run.
func (s *site) downAfter(ms int) { group{sentinels: s.sentinels}.downAfter(ms) }

// majority returns the number of votes that elect a Sentinel.
func (s *site) majority() int { return len(s.sentinels)/2 + 1 }

// whyNotAgreed returns an error unless Sentinels and servers agree on the primary.
func (s *site) whyNotAgreed() error {
	var at string
	for i, w := range s.sentinels {
		v, err := w.Ask("SENTINEL", "MASTER", "m")
		if err != nil {
			return err
		}
		m := fields(v)
		here := m["ip"] + ":" + m["port"]
		if strings.Contains(m["flags"], "failover_in_progress") { // a new epoch may still have the old address
			return fmt.Errorf("a Sentinel fails %s over", here)
		}
		if before, known := s.epochs[m["config-epoch"]]; known && before != here {
			s.t.Fatalf("the configuration of epoch %s is %s and %s", m["config-epoch"], before, here)
		}
		s.epochs[m["config-epoch"]] = here
		if i > 0 && here != at {
			return fmt.Errorf("one Sentinel says %s, another %s", at, here)
		}
		at = here
	}
	for address, server := range s.at {
		v, err := server.Ask("INFO", "replication")
		if err != nil {
			return err
		}
		host, _, _ := strings.Cut(at, ":")
		want := "role:master\r\n"
		if address != at {
			want = "master_host:" + host + "\r\n"
		}
		if !strings.Contains(v.Text, want) {
			return fmt.Errorf("all say %s, and %s says\n%s", at, address, v.Text)
		}
	}
	return nil
}

// whyNotReady returns an error unless the whole site works.
func (s *site) whyNotReady() error {
	if err := s.whyNotAgreed(); err != nil {
		return err
	}
	for _, w := range s.sentinels {
		if err := w.whyNotWell(len(s.servers)-1, len(s.sentinels)-1); err != nil {
			return err
		}
	}
	return nil
}

// primary returns the server that the Sentinels name. All Sentinels must agree.
func (s *site) primary() *testkit.Server { return s.at[s.sentinels[0].address()] }

// A told is one event in a Sentinel's log.
type told struct {
	at          time.Time
	event, text string
}

var eventLine = regexp.MustCompile(`(?m)^\d+:X (\d+ \w{3} \d{4} [\d:.]+) . (\+[a-z-]+) (.*)$`)

// A journal is the part of a log that the test has read.
type journal struct {
	read   int // bytes
	events []told
}

// events returns all events that a Sentinel has logged.
func (s *site) events(w watched) []told {
	j, log := s.logs[w.Server], w.Log()
	if j == nil {
		j = &journal{}
		s.logs[w.Server] = j
	}
	end := strings.LastIndexByte(log, '\n') + 1
	for _, m := range eventLine.FindAllStringSubmatch(log[j.read:end], -1) {
		at, err := time.ParseInLocation("2 Jan 2006 15:04:05.000", m[1], time.Local)
		if err != nil {
			s.t.Fatal(err)
		}
		j.events = append(j.events, told{at, m[2], m[3]})
	}
	j.read = end
	return j.events
}

// switched returns when the first Sentinel logged another primary. It ignores switches before the given time.
func (s *site) switched(after time.Time) (first time.Time, ok bool) {
	for _, w := range s.sentinels {
		for _, e := range s.events(w) {
			if e.event == "+switch-master" && e.at.After(after) && (!ok || e.at.Before(first)) {
				first, ok = e.at, true
			}
		}
	}
	return first, ok
}

// A count has the numbers of votes, leaders and promotions in the Sentinels' logs.
type count struct{ votes, leaders, promotions int }

// check reads all logs. In each epoch a Sentinel must vote at most once, and at most one may be elected, by a majority
// of all. At most one server may be promoted.
func (s *site) check() (n count) {
	s.t.Helper()
	votes, leader, promoted := map[string]int{}, map[string]string{}, map[string]string{}
	for i, w := range s.sentinels {
		var epoch, own string
		voted := map[string]bool{}
		for _, e := range s.events(w) {
			switch e.event {
			case "+new-epoch":
				epoch = e.text
			case "+try-failover":
				own = epoch
			case "+vote-for-leader":
				_, of, _ := strings.Cut(e.text, " ")
				if voted[of] {
					s.t.Errorf("Sentinel %d has voted twice in epoch %s", i, of)
				}
				voted[of] = true
				votes[e.text]++
				n.votes++
			case "+elected-leader":
				if other := leader[own]; other != "" {
					s.t.Errorf("epoch %s has two leaders, %s and %s", own, other, s.ids[i])
				}
				leader[own] = s.ids[i]
				n.leaders++
			case "+promoted-slave":
				if other := promoted[own]; other != "" {
					s.t.Errorf("epoch %s has two promotions: %s and %s", own, other, e.text)
				}
				if leader[own] != s.ids[i] {
					s.t.Errorf("Sentinel %d has promoted %s in epoch %s, whose leader is %s", i, e.text, own, leader[own])
				}
				promoted[own] = e.text
				n.promotions++
			}
		}
	}
	for epoch, id := range leader {
		if got := votes[id+" "+epoch]; got < s.majority() {
			s.t.Errorf("the leader of epoch %s has %d votes of %d", epoch, got, len(s.sentinels))
		}
	}
	return n
}

// revive ends every kind of harm.
func (s *site) revive(stopped ...*testkit.Server) {
	s.t.Helper()
	s.network.Heal()
	for _, who := range stopped {
		resume(who)
	}
	for who := range s.hosts {
		if who.Ended() {
			who.Again()
		}
	}
}

// some returns n Sentinels, chosen at random.
func (s *site) some(n int) (chosen []watched) {
	for _, i := range s.rng.Perm(len(s.sentinels))[:n] {
		chosen = append(chosen, s.sentinels[i])
	}
	return chosen
}

// places returns the hosts of these Sentinels and servers.
func (s *site) places(sentinels []watched, servers ...*testkit.Server) (places []*testkit.NetworkHost) {
	for _, w := range sentinels {
		places = append(places, s.hosts[w.Server])
	}
	for _, server := range servers {
		places = append(places, s.hosts[server])
	}
	return places
}

func kinds(spec string) (redis []bool) {
	for _, c := range spec {
		redis = append(redis, c == 'r')
	}
	return redis
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s" }
