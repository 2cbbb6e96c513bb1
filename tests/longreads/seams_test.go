package longreads

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// Reads are the calls with a client for each, whose long read is under way.
type reads struct {
	t       *testing.T
	s       *testkit.Server
	calls   []call
	readers []*respclient.Client
	ids     []any
	want    []respclient.Value // the replies in line, before anything happened; of draws: all elements
}

// inline returns the replies of all calls in transactions, which read in the turn. For draws it has all elements.
func inline(t *testing.T, s *testkit.Server, calls []call) (replies []respclient.Value) {
	t.Helper()
	c := s.Dial()
	defer c.Close()
	c.SetTimeout(testkit.Slowly(time.Minute))
	before := s.InfoInt("stats", "total_long_reads")
	for _, one := range calls {
		args := one.args
		if one.of != nil {
			args = one.of
		}
		got, err := c.Pipeline([]any{"MULTI"}, args, []any{"EXEC"})
		if err != nil || len(got[2].Elems) != 1 {
			t.Fatal(one, got, err)
		}
		replies = append(replies, got[2].Elems[0])
	}
	if n := s.InfoInt("stats", "total_long_reads") - before; n != 0 {
		t.Errorf("%d long reads in transactions", n)
	}
	return replies
}

// gather connects a client for each call, and sends the calls.
func gather(t *testing.T, s *testkit.Server, calls []call) *reads {
	t.Helper()
	x := connectAll(t, s, calls)
	x.send()
	return x
}

// connectAll connects a client for each call.
func connectAll(t *testing.T, s *testkit.Server, calls []call) *reads {
	t.Helper()
	x := &reads{t: t, s: s, calls: calls, want: inline(t, s, calls)}
	for range calls {
		c := s.Dial()
		c.SetTimeout(testkit.Slowly(time.Minute))
		x.readers = append(x.readers, c)
		x.ids = append(x.ids, c.Must("CLIENT", "ID").Int)
	}
	return x
}

// send sends each call from its own client, and waits until all of them have had their turn.
func (x *reads) send() {
	x.t.Helper()
	before := x.s.InfoInt("stats", "total_long_reads")
	for i, c := range x.readers {
		c.Send(x.calls[i].args...)
		if err := c.Flush(); err != nil {
			x.t.Fatal(err)
		}
	}
	testkit.Until(x.t, testkit.Slowly(time.Minute), "the turns of all calls", func() error {
		return testkit.Equal(int(x.s.InfoInt("stats", "total_long_reads")-before), len(x.calls))
	})
}

// equal compares a reply with the one in line.
func (x *reads) equal(i int, got respclient.Value) error {
	if one := x.calls[i]; one.of != nil {
		return drawn(one, got, x.want[i])
	} else if a, b := canonical(got, one), canonical(x.want[i], one); a != b {
		return fmt.Errorf("got\n%.1000s\nin line\n%.1000s", a, b)
	}
	return nil
}

// receive reads the replies. A client for which mayEnd is true may find its connection closed. No other may, and no
// reply may be wrong. It returns the calls whose connections were closed.
func (x *reads) receive(mayEnd func(i int) bool) (ended []int) {
	x.t.Helper()
	for i, c := range x.readers {
		got, err := c.Receive()
		switch {
		case err != nil && mayEnd != nil && mayEnd(i):
			ended = append(ended, i)
		case err != nil:
			x.t.Errorf("%v: %v", x.calls[i], err)
		default:
			if err := x.equal(i, got); err != nil {
				x.t.Errorf("%v: %v", x.calls[i], err)
			}
		}
		c.Close()
	}
	return ended
}

// half reports whether a client is one of the half that leaves.
func half(i int) bool { return i%2 == 0 }

// stoppedSome calls f until a long read was stopped in the middle. Most often the first time is enough.
func stoppedSome(t *testing.T, s *testkit.Server, f func()) {
	t.Helper()
	const times = 50
	before := s.InfoInt("stats", "total_long_reads_stopped")
	for range times {
		if f(); t.Failed() || s.InfoInt("stats", "total_long_reads_stopped") > before {
			return
		}
	}
	t.Error("no long read was stopped")
}

// A seam is something that happens to long reads of all calls at once.
type seam struct {
	name  string
	alone bool // it is not for a node of a cluster
	play  func(t *testing.T, s *testkit.Server, calls []call)
}

var seams = []seam{
	{"FLUSHALL", false, func(t *testing.T, s *testkit.Server, calls []call) {
		x := gather(t, s, calls)
		s.Do("FLUSHALL", "ASYNC")
		x.receive(nil)
	}},
	{"FLUSHALL SYNC", false, func(t *testing.T, s *testkit.Server, calls []call) {
		x := gather(t, s, calls)
		s.Do("FLUSHALL", "SYNC")
		x.receive(nil)
	}},
	{"SWAPDB", true, func(t *testing.T, s *testkit.Server, calls []call) {
		x := gather(t, s, calls)
		s.Do("SWAPDB", 0, 1)
		x.receive(nil)
	}},
	{"eviction", false, func(t *testing.T, s *testkit.Server, calls []call) {
		x := gather(t, s, calls)
		s.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", 1)
		testkit.Until(t, testkit.Slowly(time.Minute), "all keys are evicted", func() error {
			_, _ = s.Ask("SET", "one more", "v") // it may get OOM
			return testkit.Equal(s.Do("DBSIZE").Int, 0)
		})
		s.Do("CONFIG", "SET", "maxmemory", 0)
		x.receive(nil)
	}},
	{"CLIENT KILL", false, func(t *testing.T, s *testkit.Server, calls []call) {
		killer := s.Dial()
		stoppedSome(t, s, func() {
			x := gather(t, s, calls)
			for i, id := range x.ids {
				if half(i) {
					killer.Send("CLIENT", "KILL", "ID", id)
				}
			}
			receive(t, killer, (len(calls)+1)/2)
			x.receive(half)
		})
	}},
	{"the client leaves", false, func(t *testing.T, s *testkit.Server, calls []call) {
		stoppedSome(t, s, func() {
			x := gather(t, s, calls)
			for i, c := range x.readers {
				if half(i) {
					_ = c.Conn().(*net.TCPConn).SetLinger(0) // a reset; a mere end does not stop the read
					c.Close()
				}
			}
			x.receive(half)
		})
	}},
	{"the output limit", false, func(t *testing.T, s *testkit.Server, calls []call) {
		const limit, surely = 20_000, 200_000
		before := s.InfoInt("stats", "client_output_buffer_limit_disconnections")
		x := connectAll(t, s, calls)
		s.Do("CONFIG", "SET", "client-output-buffer-limit", fmt.Sprintf("normal %d 0 0", limit))
		x.send()
		ended := x.receive(func(i int) bool { return calls[i].of != nil || len(x.want[i].String()) > limit/4 })
		s.Do("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0")
		if n := s.InfoInt("stats", "client_output_buffer_limit_disconnections") - before; int(n) != len(ended) {
			t.Errorf("%d clients were cut for their output, and %d connections ended", n, len(ended))
		}
		for i, v := range x.want {
			if calls[i].of == nil && len(v.String()) > surely && !slices.Contains(ended, i) {
				t.Errorf("%v: a reply of some %d bytes came past the limit", calls[i], len(v.String()))
			}
		}
	}},
	{"REPLICAOF", true, func(t *testing.T, s *testkit.Server, calls []call) {
		primary := testkit.Start(t)
		primary.Do("SET", "key", "of another server")
		x := gather(t, s, calls)
		host, port, _ := strings.Cut(primary.Addr, ":")
		s.Do("REPLICAOF", host, port)
		testkit.Until(t, testkit.Slowly(time.Minute), "the other server's data", func() error {
			v, err := s.Ask("DBSIZE")
			if err != nil {
				return err
			}
			return testkit.Equal(v.Int, 1)
		})
		x.receive(nil)
		s.Do("REPLICAOF", "NO", "ONE")
	}},
	{"promotion", true, func(t *testing.T, s *testkit.Server, calls []call) {
		primary := testkit.Start(t)
		filled(t, primary, seamElements())
		host, port, _ := strings.Cut(primary.Addr, ":")
		s.Do("CONFIG", "SET", "replica-read-only", "no") // SORT may write
		s.Do("REPLICAOF", host, port)
		s.AwaitInfo(testkit.Slowly(time.Minute), "replication", "master_link_status", "up")
		x := gather(t, s, calls)
		s.Do("REPLICAOF", "NO", "ONE")
		s.Do("FLUSHALL")
		x.receive(nil)
	}},
	{"SHUTDOWN", false, func(t *testing.T, s *testkit.Server, calls []call) { // the last one
		x := gather(t, s, calls)
		c := s.Dial()
		c.Send("SHUTDOWN", "NOSAVE")
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		x.receive(func(int) bool { return true })
		if code := s.Wait(testkit.Slowly(time.Minute)); code != 0 {
			t.Errorf("the server has ended with %d", code)
		}
	}},
}

// seamElements returns the size of the values that the calls read at seams.
func seamElements() int {
	return 5000 * min(testkit.Scale(), 5) // XPENDING with IDLE reads a quarter of them
}

// filled empties a server and fills it.
func filled(t *testing.T, s *testkit.Server, n int) {
	t.Helper()
	c := s.Dial()
	defer c.Close()
	c.SetTimeout(testkit.Slowly(time.Minute))
	c.Must("FLUSHALL")
	fill(t, c, n)
}

// TestSeamsOfLongReads: all commands are read at once, and then something happens to the server or to its clients. Each
// reply that comes is the one that the call has in line. Nothing is left afterwards.
func TestSeamsOfLongReads(t *testing.T) {
	args := []string{"--long-read-elements", "1000", "--enable-debug-command", "yes"}
	t.Run("a server", func(t *testing.T) {
		playSeams(t, testkit.Start(t, args...), calls, func(s *testkit.Server) { filled(t, s, seamElements()) }, false)
	})
	t.Run("a node of a cluster", func(t *testing.T) {
		s := testkit.Start(t, append(args, "--cluster-enabled", "yes")...)
		s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
		testkit.Until(t, testkit.Slowly(time.Minute), "the cluster is well", func() error {
			v, err := s.Ask("SET", "{a}key", "v")
			return errors.Join(err, v.Err())
		})
		slot := s.Do("CLUSTER", "KEYSLOT", "a").Int
		some := []call{
			{args: []any{"CLUSTER", "GETKEYSINSLOT", slot, 100_000_000}, unordered: true},
			{args: []any{"SCAN", 0, "MATCH", "{a}*", "COUNT", 100_000_000}, unordered: true},
			{args: []any{"KEYS", "{a}*7*"}, unordered: true},
		}
		playSeams(t, s, slices.Concat(some, some, some, some), func(s *testkit.Server) {
			c := s.Dial()
			defer c.Close()
			c.Must("FLUSHALL")
			for i := range seamElements() {
				c.Send("SET", fmt.Sprint("{a}key:", i), i)
			}
			receive(t, c, seamElements())
		}, true)
	})
}

func playSeams(t *testing.T, s *testkit.Server, calls []call, prepare func(s *testkit.Server), cluster bool) {
	for _, one := range seams {
		if one.alone && cluster {
			continue
		}
		t.Run(one.name, func(t *testing.T) {
			prepare(s)
			if one.play(t, s, calls); s.Ended() {
				return
			}
			testkit.Until(t, testkit.Slowly(time.Minute), "the end of all long reads", func() error {
				clients, memory := s.Info("clients"), s.Info("memory")
				return errors.Join(testkit.Equal(clients["long_reads_running"], "0"),
					testkit.Equal(clients["long_reads_waiting"], "0"), testkit.Equal(memory["long_read_views"], "0"))
			})
		})
	}
}

// TestLongReadsInLine: in a transaction and in a script, a call reads in line, and its reply is the same. With
// long-read-elements 0, all calls do.
func TestLongReadsInLine(t *testing.T) {
	s := testkit.Start(t, "--long-read-elements", "1000", "--enable-debug-command", "yes")
	filled(t, s, seamElements())
	c := s.Dial()
	c.SetTimeout(testkit.Slowly(time.Minute))
	x := &reads{t: t, s: s, calls: calls, want: inline(t, s, calls)}
	for i, one := range calls {
		for _, c := range []struct {
			where string
			args  []any
			long  int64 // reads
		}{
			{"outside the turns", one.args, 1},
			{"in a script", append([]any{"EVAL", "return redis.call(unpack(ARGV))", 0}, one.args...), 0},
			{"with long reads switched off", one.args, 0},
		} {
			off := strings.Contains(c.where, "off")
			if off {
				s.Do("CONFIG", "SET", "long-read-elements", 0)
			}
			before := s.InfoInt("stats", "total_long_reads")
			client := s.Dial()
			client.SetTimeout(testkit.Slowly(time.Minute))
			got, err := client.Do(c.args...)
			if err != nil {
				t.Fatal(one, err)
			}
			client.Close()
			if off {
				s.Do("CONFIG", "SET", "long-read-elements", 1000)
			} else if c.long == 0 && one.args[0] == "DEBUG" {
				if got.Err() == nil {
					t.Errorf("%v runs in a script", one)
				}
				continue
			}
			if err := x.equal(i, got); err != nil {
				t.Errorf("%v %s: %v", one, c.where, err)
			}
			if n := s.InfoInt("stats", "total_long_reads") - before; n != c.long {
				t.Errorf("%v %s: %d long reads, want %d", one, c.where, n, c.long)
			}
		}
	}
}
