package topology

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// spoolLimit is the time limit for a state to come on a busy host.
const spoolLimit = 3 * time.Minute

// spooling starts a primary whose backlog is small in memory and large on disk. The output limit of its replicas is
// small, so that without the disk they could lag hardly at all.
func spooling(t *testing.T, args ...string) *testkit.Server {
	return testkit.Start(t, append([]string{"--repl-backlog-size", "64kb", "--repl-backlog-disk-size", "256mb",
		"--client-output-buffer-limit", "replica 1mb 0 0", "--enable-debug-command", "yes"}, args...)...)
}

// stream writes n MB to s, into keys that begin with prefix.
func stream(t *testing.T, s *testkit.Server, prefix string, n int) {
	t.Helper()
	value := strings.Repeat("v", 10_000)
	testkit.Pipe(t, s.Dial(), n*100, func(i int) []any {
		return []any{"SET", prefix + strconv.Itoa(i%500), value + strconv.Itoa(i)}
	})
}

func segmentsOf(s *testkit.Server) (names []string) {
	for _, name := range s.Files() {
		if strings.HasPrefix(name, "backlog.") && strings.HasSuffix(name, ".segment") {
			names = append(names, name)
		}
	}
	return names
}

// TestStoppedReplicas: two replicas are suspended at different offsets while the primary sends far more than
// repl-backlog-size. One keeps its link, and the other's link is cut. Both continue without a full copy. Memory does
// not grow, and the output limit closes no replica. The files are deleted when no replica needs them.
func TestStoppedReplicas(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Ours, testkit.Redis70, testkit.Redis74, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := spooling(t)
			attachKind := func() *testkit.Server {
				spec := testkit.Kind(t, kind)
				spec.Args = append(spec.Args, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port), "--save", "")
				r := testkit.Launch(t, spec)
				up(t, r)
				return r
			}
			one, two := attachKind(), attachKind()
			stream(t, s, "a:", 2)
			settle(t, s, one)
			settle(t, s, two)
			full := s.InfoInt("stats", "sync_full")
			one.Signal(syscall.SIGSTOP)
			stream(t, s, "b:", 10)
			two.Signal(syscall.SIGSTOP)
			stream(t, s, "c:", 10*min(testkit.Scale(), 20))
			if n := s.InfoInt("replication", "repl_backlog_disk_active"); n != 1 {
				t.Fatalf("nothing is on disk:\n%s", s.Log())
			}
			for _, name := range segmentsOf(s) {
				if stat, err := os.Stat(s.File(name)); err == nil && stat.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %v", name, stat.Mode())
				}
			}
			testkit.Until(t, testkit.Slowly(spoolLimit), "memory without what the replicas lack", func() error {
				n := s.InfoInt("memory", "mem_clients_slaves") + s.InfoInt("memory", "mem_replication_backlog")
				if n > 16<<20 {
					return fmt.Errorf("%d bytes", n)
				}
				return nil
			})
			s.Do("CLIENT", "KILL", "ADDR", strings.TrimPrefix(field(t, s, strconv.Itoa(two.Port)), "addr="))
			two.Signal(syscall.SIGCONT)
			one.Signal(syscall.SIGCONT)
			equal(t, s, two)
			equal(t, s, one)
			if n := s.InfoInt("stats", "sync_full"); n != full {
				t.Errorf("%d full copies more", n-full)
			}
			s.AwaitInfo(testkit.Slowly(spoolLimit), "replication", "repl_backlog_disk_active", "0")
			testkit.Await(t, testkit.Slowly(spoolLimit), "the files to go", func() bool { return len(segmentsOf(s)) == 0 })
		})
	}
}

// field returns the field "addr=..." of the replica that listens on port.
func field(t *testing.T, s *testkit.Server, port string) string {
	t.Helper()
	for i := range 10 {
		line := s.Info("replication")["slave"+strconv.Itoa(i)]
		if !strings.Contains(line, "port="+port+",") {
			continue
		}
		// CLIENT LIST and INFO list the replicas in the same order, that of their arrival.
		seen := 0
		for _, cl := range strings.Split(s.Do("CLIENT", "LIST", "TYPE", "replica").Text, "\n") {
			if seen == i {
				for _, word := range strings.Fields(cl) {
					if strings.HasPrefix(word, "addr=") {
						return word
					}
				}
			}
			seen++
		}
	}
	t.Fatalf("no replica of port %s", port)
	return ""
}

// TestReplicaThatTimesOut: the primary disconnects a suspended replica after repl-timeout. When the replica resumes, it
// continues without a full copy.
func TestReplicaThatTimesOut(t *testing.T) {
	t.Parallel()
	s := spooling(t, "--repl-timeout", "2", "--repl-ping-replica-period", "1")
	r := attach(t, s)
	stream(t, s, "a:", 1)
	settle(t, s, r)
	r.Signal(syscall.SIGSTOP)
	stream(t, s, "b:", 5)
	s.AwaitInfo(testkit.Slowly(spoolLimit), "replication", "connected_slaves", "0")
	stream(t, s, "c:", 5)
	r.Signal(syscall.SIGCONT)
	equal(t, s, r)
	if n := s.InfoInt("stats", "sync_full"); n != 1 {
		t.Errorf("sync_full:%d", n)
	}
}

// TestDamagedSegment: a replica whose missing bytes are damaged on disk gets a full copy, and then has the right data.
// The same happens if the size is set to 0 meanwhile, or is smaller than the replica's lag.
func TestDamagedSegment(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, s *testkit.Server){
		"damaged": func(t *testing.T, s *testkit.Server) {
			for _, name := range segmentsOf(s) {
				f, err := os.OpenFile(s.File(name), os.O_WRONLY, 0)
				if os.IsNotExist(err) {
					continue
				}
				must2(t, err)
				stat, err := f.Stat()
				must2(t, err)
				for at := int64(5000); err == nil && at < stat.Size(); at += 10_000 {
					_, err = f.WriteAt([]byte("damage"), at)
				}
				must2(t, err)
				must2(t, f.Close())
			}
		},
		"removed": func(t *testing.T, s *testkit.Server) {
			for _, name := range segmentsOf(s) {
				if err := os.Remove(s.File(name)); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
		},
		"off":     func(_ *testing.T, s *testkit.Server) { s.Do("CONFIG", "SET", "repl-backlog-disk-size", "0") },
		"smaller": func(_ *testing.T, s *testkit.Server) { s.Do("CONFIG", "SET", "repl-backlog-disk-size", "1mb") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spooling(t)
			r := attach(t, s)
			stream(t, s, "a:", 1)
			settle(t, s, r)
			r.Signal(syscall.SIGSTOP)
			stream(t, s, "b:", 20)
			s.AwaitInfo(testkit.Slowly(spoolLimit), "replication", "repl_backlog_disk_queued_bytes", "0")
			spoil(t, s)
			s.Do("CLIENT", "KILL", "TYPE", "replica") // a reader of the disk may have the files open
			stream(t, s, "c:", 2)
			r.Signal(syscall.SIGCONT)
			testkit.Until(t, testkit.Slowly(spoolLimit), "a full copy", func() error {
				return testkit.Equal(s.InfoInt("stats", "sync_full"), 2)
			})
			up(t, r)
			equal(t, s, r)
		})
	}
}

// TestBacklogOutlivesRestart: after SHUTDOWN with SAVE, a replica that lags by megabytes continues without a full copy.
// After SIGKILL or NOSAVE it gets a full copy. No file of the last process is left in any case.
func TestBacklogOutlivesRestart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *testkit.Server){
		"SAVE":   func(s *testkit.Server) { _, _ = s.Ask("SHUTDOWN", "SAVE", "NOW") },
		"NOSAVE": func(s *testkit.Server) { _, _ = s.Ask("SHUTDOWN", "NOSAVE", "NOW") },
		"KILL":   func(s *testkit.Server) { s.Signal(syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spooling(t)
			r := attach(t, s)
			stream(t, s, "a:", 1)
			settle(t, s, r)
			s.Do("SAVE")
			r.Signal(syscall.SIGSTOP)
			stream(t, s, "b:", 10)
			end(s)
			s.Wait(testkit.Slowly(spoolLimit))
			s.Restart()
			stream(t, s, "c:", 1)
			r.Signal(syscall.SIGCONT)
			if name == "SAVE" {
				testkit.Until(t, testkit.Slowly(spoolLimit), "the replica to continue", func() error {
					return testkit.Equal(s.InfoInt("stats", "sync_partial_ok"), 1)
				})
			}
			up(t, r)
			equal(t, s, r)
			if n := s.InfoInt("stats", "sync_full"); n != 0 && name == "SAVE" || n == 0 && name != "SAVE" {
				t.Errorf("sync_full:%d\n%s", n, s.Log())
			}
			s.AwaitInfo(testkit.Slowly(spoolLimit), "replication", "repl_backlog_disk_active", "0")
			testkit.Await(t, testkit.Slowly(spoolLimit), "the files to go", func() bool { return len(segmentsOf(s)) == 0 })
		})
	}
}

// TestSpoolUnderChange: replicas are suspended, leave and come back at random. Meanwhile scripts lend the turn,
// databases are swapped and emptied, and sizes and roles change. In the end all servers have equal data.
func TestSpoolUnderChange(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := spooling(t)
	nodes := []*testkit.Server{s}
	for range 2 {
		r := testkit.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port), "--repl-backlog-size", "64kb",
			"--repl-backlog-disk-size", "256mb", "--enable-debug-command", "yes")
		up(t, r)
		nodes = append(nodes, r)
	}
	w := startWriters(t, s, 2, seed)
	primary := s
	w.loses = true
	for range 6 * min(testkit.Scale(), 30) {
		victim := nodes[rng.IntN(len(nodes))]
		for victim == primary {
			victim = nodes[rng.IntN(len(nodes))]
		}
		how := []string{"stop", "kill", "size", "off", "memory", "script", "swap", "failover", "copy"}[rng.IntN(9)]
		t.Log(how)
		switch how {
		case "stop":
			victim.Signal(syscall.SIGSTOP)
			stream(t, primary, "s:", 2)
			victim.Signal(syscall.SIGCONT)
		case "kill":
			primary.Do("CLIENT", "KILL", "TYPE", "replica")
		case "size":
			primary.Do("CONFIG", "SET", "repl-backlog-disk-size", []string{"1mb", "8mb", "256mb"}[rng.IntN(3)])
		case "off":
			victim.Signal(syscall.SIGSTOP)
			stream(t, primary, "s:", 2)
			primary.Do("CONFIG", "SET", "repl-backlog-disk-size", "0")
			victim.Signal(syscall.SIGCONT)
			primary.Do("CONFIG", "SET", "repl-backlog-disk-size", "256mb")
		case "memory":
			primary.Do("CONFIG", "SET", "repl-backlog-size", []string{"16kb", "64kb", "1mb"}[rng.IntN(3)])
		case "script":
			victim.Signal(syscall.SIGSTOP)
			stream(t, primary, "s:", 1)
			primary.Do("EVAL", "for i = 1, 20000 do redis.call('SET', 'l:' .. (i % 100), i) end", 0)
			victim.Signal(syscall.SIGCONT)
		case "swap":
			primary.Do("SWAPDB", 0, 1)
			if rng.IntN(3) == 0 {
				primary.Do("FLUSHALL")
			}
		case "failover":
			// A replica says "up" until it notices that its link was killed.
			primary.AwaitOnline(testkit.Slowly(spoolLimit), len(nodes)-1)
			for _, n := range nodes {
				if n != primary {
					up(t, n)
				}
			}
			primary.Do("FAILOVER", "TO", "127.0.0.1", victim.Port)
			victim.AwaitInfo(testkit.Slowly(spoolLimit), "replication", "role", "master")
			primary.AwaitInfo(testkit.Slowly(spoolLimit), "replication", "role", "slave")
			primary = victim
			for _, n := range nodes {
				if n != primary {
					n.Do("REPLICAOF", "127.0.0.1", primary.Port)
				}
			}
			w.target.Store(primary)
		case "copy":
			primary.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0")
			victim.Do("REPLICAOF", "NO", "ONE")
			victim.Do("DEBUG", "CHANGE-REPL-ID")
			victim.Do("REPLICAOF", "127.0.0.1", primary.Port)
			stream(t, primary, "s:", 2)
		}
	}
	w.stop()
	for _, n := range nodes {
		if n != primary {
			up(t, n)
			equal(t, primary, n)
		}
	}
}
