package crash

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A saboteur is a proxy between a replica and its primary. It may close a connection after some bytes, or change a byte
// of a full copy.
type saboteur struct {
	listener net.Listener
	primary  string
	plan     func() (cut, damage int) // positions in the primary's bytes on the next connection; 0 means none
}

func newSaboteur(t *testing.T, primary string, plan func() (cut, damage int)) *saboteur {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &saboteur{listener: l, primary: primary, plan: plan}
	go s.serve()
	return s
}

func (s *saboteur) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *saboteur) serve() {
	for {
		replica, err := s.listener.Accept()
		if err != nil {
			return
		}
		cut, damage := s.plan()
		go s.join(replica, cut, damage)
	}
}

// join forwards bytes until one side has closed.
func (s *saboteur) join(replica net.Conn, cut, damage int) {
	defer replica.Close()
	primary, err := net.Dial("tcp", s.primary)
	if err != nil {
		return
	}
	defer primary.Close()
	go func() {
		_, _ = io.Copy(primary, replica)
		primary.Close()
	}()
	buf, passed, full := make([]byte, 16<<10), 0, false
	for {
		n, err := primary.Read(buf)
		if err != nil {
			return
		}
		p := buf[:n]
		if cut > 0 && passed+n > cut {
			_, _ = replica.Write(p[:cut-passed])
			return
		}
		// Only a full copy has a checksum. A changed byte in the stream would give a wrong value unnoticed.
		full = full || bytes.Contains(p, []byte("+FULLRESYNC"))
		if at := damage - passed; full && damage > 0 && at >= 0 && at < n {
			p[at] ^= 0x40
		}
		passed += n
		if _, err := replica.Write(p); err != nil {
			return
		}
	}
}

// A numberer sets every key to the next number, repeatedly, with a pause of a millisecond.
type numberer struct {
	sent, acknowledged atomic.Int64
	stop, stopped      chan struct{}
}

func (w *numberer) run(c *respclient.Client) {
	w.stop, w.stopped = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(w.stopped)
		request := []any{"MSET"}
		for i := range 200 {
			request = append(request, fmt.Sprintf("key:%d", i), "")
		}
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(time.Millisecond):
			}
			text := strconv.FormatInt(w.sent.Add(1), 10)
			for i := 2; i < len(request); i += 2 {
				request[i] = text
			}
			if _, err := c.Do(request...); err != nil {
				return
			}
			w.acknowledged.Store(w.sent.Load())
		}
	}()
}

func (w *numberer) end() {
	close(w.stop)
	<-w.stopped
}

// TestKilledWhileCopying: saves, rewrites, full copies, failed copies and broken links coincide at random. Then the
// replica is killed or shut down. It restarts without its primary, and must have the data of one moment. This data is
// never empty, and not older than the files on disk were. One replica has only RDB files, and the other also has an
// append-only file.
//
// A test has six runs; SPINDLE_TEST_SCALE=20 makes two hundred.
func TestKilledWhileCopying(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	primary := testkit.Start(t, "--save", "1 1")
	filler := make([]byte, 60) // compresses badly: a copy is some 100 KB long
	testkit.Pipe(t, primary.Dial(), 1500, func(i int) []any {
		for j := range filler {
			filler[j] = byte(rng.Uint32())
		}
		return []any{"SET", fmt.Sprint("other:", i), bytes.Clone(filler)}
	})
	var writer numberer
	writer.run(primary.Dial())
	testkit.Until(t, testkit.Slowly(10*time.Second), "a first number", func() error {
		if writer.acknowledged.Load() == 0 {
			return fmt.Errorf("none")
		}
		return nil
	})
	var mode atomic.Int64 // the saboteur's next action, a random number
	link := newSaboteur(t, primary.Addr, func() (cut, damage int) {
		r := int(mode.Add(7919) % 100_000)
		switch at := 300 + r*13%100_000; r % 4 {
		case 0:
			return at, 0
		case 1:
			return 0, at
		}
		return 0, 0
	})
	replicas := []*testkit.Server{testkit.Start(t, "--save", "1 1"),
		testkit.Start(t, "--appendonly", "yes", "--save", "3600 1 300 100 60 10000")}
	for _, r := range replicas { // a first copy, without damage
		r.Do("REPLICAOF", "127.0.0.1", primary.Port)
		r.AwaitInfo(testkit.Slowly(30*time.Second), "replication", "master_link_status", "up")
		r.Do("REPLICAOF", "NO", "ONE")
		r.Do("SAVE")
		testkit.Until(t, testkit.Slowly(20*time.Second), "the log", func() error {
			i := r.Info("persistence")
			return testkit.Equal(i["aof_rewrite_scheduled"]+i["aof_rewrite_in_progress"], "00")
		})
	}
	copies, failures, saves := 0, 0, 0
	runs := 6
	if testkit.Scale() > 1 {
		runs = 10 * testkit.Scale()
	}
	for run := range runs {
		r := replicas[run%len(replicas)]
		c := r.Dial()
		had := read(t, c)
		log := len(r.Log())
		ask := func(words ...any) { _, _ = c.Do(words...) } // a refusal, such as LOADING, is also an answer
		ask("CONFIG", "SET", "key-load-delay", []int{0, 0, 100, 400}[rng.IntN(4)],
			"rdb-key-save-delay", []int{0, 50, 500}[rng.IntN(3)],
			"repl-diskless-load", []string{"disabled", "disabled", "swapdb", "on-empty-db"}[rng.IntN(4)])
		mode.Store(int64(rng.IntN(100_000)))
		primary.Do("DEBUG", "CHANGE-REPL-ID") // the next link needs a full copy
		ask("REPLICAOF", "127.0.0.1", link.port())
		for end := time.Now().Add(time.Duration(rng.IntN(1200)) * time.Millisecond); time.Now().Before(end); {
			switch rng.IntN(8) {
			case 0, 1:
				ask("BGSAVE")
			case 2, 3:
				ask("BGREWRITEAOF")
			case 4:
				primary.Do("DEBUG", "CHANGE-REPL-ID")
				primary.Do("CLIENT", "KILL", "TYPE", "REPLICA")
			case 5:
				ask("REPLICAOF", "127.0.0.1", link.port()) // ends the pause between two attempts
			default:
				testkit.Moment(rng, 100*time.Millisecond) // for the next failure
			}
		}
		how := "killed"
		if rng.IntN(4) == 0 {
			how = "ended"
			testkit.Until(t, testkit.Slowly(30*time.Second), "the end", func() error {
				if r.Ended() {
					return nil
				}
				r.Signal(syscall.SIGTERM) // repeated, because a server that writes its first log refuses to shut down
				return fmt.Errorf("it runs")
			})
			r.Wait(time.Second)
		} else {
			r.Kill()
		}
		what := r.Log()[log:]
		copies += strings.Count(what, "Finished with success")
		failures += strings.Count(what, "Failed trying to ")
		saves += strings.Count(what, "Background saving started")
		r.Restart()
		if got, last := read(t, r.Dial()), writer.sent.Load(); got < had || got == 0 || got > last {
			t.Fatalf("seed %d, run %d, %s: %d came back with %d keys; %d was on disk before, %d was sent last\n%s",
				seed, run, how, got, r.Do("DBSIZE").Int, had, last, what)
		}
		if n := r.Do("DBSIZE").Int; n != 1700 {
			t.Fatalf("seed %d, run %d, %s: %d keys\n%s", seed, run, how, n, what)
		}
	}
	writer.end()
	t.Logf("seed %d: %d copies, %d failures, %d background saves", seed, copies, failures, saves)
	if runs > 100 && (copies == 0 || failures == 0 || saves == 0) {
		t.Errorf("seed %d: %d copies, %d failures, %d background saves", seed, copies, failures, saves)
	}
}
