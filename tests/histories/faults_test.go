package histories

import (
	"syscall"
	"time"

	"spindle/tests/testkit"
)

// A fault harms the site with the given primary, and returns a function that ends the harm.
type fault struct {
	name  string
	begin func(s *site, primary *testkit.Server) (end func())
}

var faults = []fault{
	{"the primary is killed", func(s *site, primary *testkit.Server) func() {
		primary.Kill()
		return func() { primary.Again(); primary.AwaitReady(testkit.Slowly(30 * time.Second)) }
	}},
	{"the primary is stopped", func(s *site, primary *testkit.Server) func() {
		primary.Signal(syscall.SIGSTOP)
		return func() { primary.Signal(syscall.SIGCONT) }
	}},
	{"the primary is cut off", func(s *site, primary *testkit.Server) func() {
		s.network.Split(s.hosts[primary])
		return s.network.Heal
	}},
	{"the primary is cut off with a Sentinel", func(s *site, primary *testkit.Server) func() {
		s.network.Split(s.hosts[primary], s.hosts[s.sentinels[s.rng.IntN(3)]])
		return s.network.Heal
	}},
	{"the primary is cut off with a replica", func(s *site, primary *testkit.Server) func() {
		s.network.Split(s.hosts[primary], s.hosts[s.replicas(primary)[0]])
		return s.network.Heal
	}},
	{"a replica is cut off", func(s *site, primary *testkit.Server) func() {
		s.network.Split(s.hosts[s.replicas(primary)[0]])
		return s.network.Heal
	}},
	{"a replica is killed", func(s *site, primary *testkit.Server) func() {
		replica := s.replicas(primary)[0]
		replica.Kill()
		return func() { replica.Again(); replica.AwaitReady(testkit.Slowly(30 * time.Second)) }
	}},
	{"a replica is stopped, and then the primary is killed", func(s *site, primary *testkit.Server) func() {
		replica := s.replicas(primary)[0]
		replica.Signal(syscall.SIGSTOP)
		testkit.Moment(s.rng, time.Second)
		primary.Kill()
		return func() {
			replica.Signal(syscall.SIGCONT)
			primary.Again()
			primary.AwaitReady(testkit.Slowly(30 * time.Second))
		}
	}},
}

// suffer lets one fault happen, and waits until the site is healthy again.
func (s *site) suffer(f fault, longest time.Duration) {
	s.t.Helper()
	s.t.Logf("%s", f.name)
	end := f.begin(s, s.primary())
	testkit.Moment(s.rng, longest)
	end()
	s.awaitWell()
}

// named returns a fault by its name.
func (s *site) named(name string) fault {
	for _, f := range faults {
		if f.name == name {
			return f
		}
	}
	s.t.Fatalf("no fault is named %q", name)
	return fault{}
}
