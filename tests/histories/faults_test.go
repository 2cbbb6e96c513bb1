package histories

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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
		return func() { s.replaced(primary) }
	}},
	{"the primary is stopped", func(s *site, primary *testkit.Server) func() {
		primary.Signal(syscall.SIGSTOP)
		return func() { primary.Signal(syscall.SIGCONT) }
	}},
	{"the primary is cut off", func(s *site, primary *testkit.Server) func() {
		s.network.Split(s.hosts[primary])
		return s.network.Heal
	}},
	{"the primary is cut off with a voter", func(s *site, primary *testkit.Server) func() {
		s.network.Split(s.hosts[primary], s.hosts[s.voters[s.rng.IntN(len(s.voters))]])
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
		return func() { s.again(replica) }
	}},
	{"a replica is stopped, and then the primary is killed", func(s *site, primary *testkit.Server) func() {
		replica := s.replicas(primary)[0]
		replica.Signal(syscall.SIGSTOP)
		testkit.Moment(s.rng, time.Second)
		primary.Kill()
		return func() {
			replica.Signal(syscall.SIGCONT)
			s.replaced(primary)
		}
	}},
	{"the primary is killed, and then the voters", func(s *site, primary *testkit.Server) func() {
		primary.Kill()
		testkit.Moment(s.rng, time.Second)
		for _, w := range s.voters {
			w.Kill()
		}
		s.again(s.voters...)
		return func() { s.replaced(primary) }
	}},
	{"an operator has another primary chosen", func(s *site, primary *testkit.Server) func() {
		s.choose(primary)
		replica := s.replicas(primary)[0]
		replica.Signal(syscall.SIGSTOP)
		testkit.Moment(s.rng, time.Second)
		replica.Signal(syscall.SIGCONT)
		return func() {}
	}},
	{"a slow disk", func(s *site, primary *testkit.Server) func() {
		return s.slowDisk(s.any(primary), 300*time.Millisecond)
	}},
	{"a full disk", func(s *site, primary *testkit.Server) func() { return s.fullDisk(s.any(primary)) }},
	{"the primary's disk is full, and then it is killed", func(s *site, primary *testkit.Server) func() {
		s.fullDisk(primary)
		testkit.Moment(s.rng, time.Second)
		primary.Kill()
		return func() { s.replaced(primary) }
	}},
	{"a save fails", func(s *site, primary *testkit.Server) func() { return s.noSave(s.any(primary)) }},
	{"a replica's save fails, and then the primary is killed", func(s *site, primary *testkit.Server) func() {
		end := func() {}
		if !s.plan.mixed && !s.plan.both { // the other replica can be promoted
			end = s.noSave(s.replicas(primary)[0])
		}
		testkit.Moment(s.rng, time.Second)
		primary.Kill()
		return func() {
			end()
			s.replaced(primary)
		}
	}},
	{"the disks of replicas are slow, and then the primary is killed", func(s *site, primary *testkit.Server) func() {
		var ends []func()
		for _, replica := range s.replicas(primary) {
			ends = append(ends, s.slowDisk(replica, 300*time.Millisecond))
		}
		testkit.Moment(s.rng, time.Second)
		primary.Kill()
		return func() {
			for _, end := range ends {
				end()
			}
			s.replaced(primary)
		}
	}},
}

// any returns the primary or a replica, but no redis-server.
func (s *site) any(primary *testkit.Server) *testkit.Server {
	for _, one := range append(s.replicas(primary), primary) {
		if !s.others[one] && (one == primary || s.rng.IntN(2) == 0) {
			return one
		}
	}
	return primary
}

// replaced starts a primary that was killed, once there is another one. With appendfsync everysec it lacks what its
// disk had not taken. Back at once, it would stay the primary, and confirmed writes would be lost (doc/acks.md).
func (s *site) replaced(primary *testkit.Server) {
	s.t.Helper()
	s.awaitAnother(primary)
	s.again(primary)
}

// again starts servers that were killed.
func (s *site) again(killed ...*testkit.Server) {
	s.t.Helper()
	for _, one := range killed {
		one.Again()
	}
	for _, one := range killed {
		one.AwaitReady(testkit.Slowly(30 * time.Second))
	}
}

// choose has a Sentinel, or a replica of a cluster, replace a primary that lives. It may be refused.
func (s *site) choose(primary *testkit.Server) {
	one, request := s.voters[s.rng.IntN(len(s.voters))], []any{"SENTINEL", "FAILOVER", "m"}
	if s.plan.cluster {
		one, request = s.replicas(primary)[0], []any{"CLUSTER", "FAILOVER"}
	}
	v, err := one.Ask(request...)
	s.t.Logf("%v: %v %v", request, v, err)
}

// slowDisk has the server rest before each write to its append-only file.
func (s *site) slowDisk(one *testkit.Server, rest time.Duration) (end func()) {
	s.t.Helper()
	s.t.Logf("%s has a slow disk", s.addresses[one])
	sleep := func(us int64) error { // its role may have changed, which ends connections
		v, err := one.Ask("DEBUG", "AOF-FLUSH-SLEEP", us)
		return errors.Join(err, v.Err())
	}
	testkit.Until(s.t, testkit.Slowly(10*time.Second), "a slow disk", func() error { return sleep(rest.Microseconds()) })
	return func() {
		testkit.Until(s.t, testkit.Slowly(60*time.Second), "a fast disk", func() error {
			if err := sleep(0); err != nil {
				return err
			}
			v, err := one.Ask("INFO", "persistence")
			if !strings.Contains(v.Text, "aof_buffer_length:0\r") {
				err = errors.Join(err, errors.New("the file lacks what waits in memory"))
			}
			return err
		})
	}
}

// fullDisk has the server's append-only file grow no more. A replica ends when it cannot write to it, unless it is told
// to ignore that.
func (s *site) fullDisk(one *testkit.Server) (end func()) {
	s.t.Helper()
	s.t.Logf("%s has a full disk", s.addresses[one])
	one.Crashes()
	s.fragile[one] = true
	most := int64(len(one.Log())) + 4096
	files, _ := filepath.Glob(filepath.Join(one.Dir, "appendonlydir", "*.incr.aof"))
	for _, file := range files {
		if i, err := os.Stat(file); err == nil {
			most = max(most, i.Size())
		}
	}
	pid := one.PID
	s.limitFiles(pid, uint64(most))
	return func() {
		if one.PID == pid && !one.Ended() {
			s.limitFiles(pid, unix.RLIM_INFINITY)
		}
	}
}

// noSave makes background saves of the server fail. A primary refuses writes then. A replica ends at its primary's next
// write, unless it is told to ignore that.
func (s *site) noSave(one *testkit.Server) (end func()) {
	s.t.Helper()
	s.t.Logf("%s cannot save", s.addresses[one])
	one.Crashes()
	s.fragile[one] = true
	file := one.File("dump.rdb")
	testkit.Until(s.t, testkit.Slowly(10*time.Second), "a folder in the place of the file", func() error {
		return errors.Join(os.RemoveAll(file), os.Mkdir(file, 0o700)) // a save that ends meanwhile makes the file again
	})
	return func() {
		if err := os.Remove(file); err != nil {
			s.t.Fatal(err)
		}
	}
}

// limitFiles limits the size of each file that a process writes. The process may be ending.
func (s *site) limitFiles(pid int, size uint64) {
	s.t.Helper()
	var now unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &now)
	if err == nil {
		now.Cur = min(size, now.Max)
		err = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &now, nil)
	}
	if err != nil && err != unix.ESRCH {
		s.t.Fatal(err)
	}
}

// suffer lets one fault happen, and waits until the site is healthy again.
func (s *site) suffer(f fault, longest time.Duration) {
	s.t.Helper()
	s.t.Logf("%s", f.name)
	if s.plan.both { // a failover may have begun since the last fault, and a second one would have no primary
		s.awaitWell()
	}
	before := s.primary()
	end := f.begin(s, before)
	testkit.Moment(s.rng, longest)
	end()
	s.awaitWell()
	if s.primary() != before {
		s.failovers++
	}
}

// cut cuts the primary off until there is another one, and for a moment more.
func (s *site) cut() {
	s.t.Helper()
	old := s.primary()
	s.network.Split(s.hosts[old])
	s.awaitAnother(old)
	testkit.Moment(s.rng, time.Second)
	s.network.Heal()
	s.awaitWell()
	s.failovers++
}

// some returns a fault at random.
func (s *site) some() fault { return faults[s.rng.IntN(len(faults))] }
