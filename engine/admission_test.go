package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/part"
	"spindle/protocol"
)

const okOK = "+OK\r\n+OK\r\n"

// TestRefusalsSpoilTransactions: any refusal inside MULTI makes EXEC abort, and a refused EXEC gives the reason.
func TestRefusalsSpoilTransactions(t *testing.T) {
	for _, c := range []struct{ name, line, refusal string }{
		{"unknown", "NOSUCH a", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' \r\n"},
		{"arity", "GET", "-ERR wrong number of arguments for 'get' command\r\n"},
		{"subcommand", "CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.\r\n"},
		{"not inside", "NEVER", "-ERR Command not allowed inside a transaction\r\n"},
	} {
		h := newTestCore(t)
		cl, _ := h.arrive()
		got := h.do(cl, "MULTI", "SET k v", c.line, "EXEC", "GET k")
		h.expect(c.name, got, "+OK\r\n+QUEUED\r\n"+c.refusal+
			"-EXECABORT Transaction discarded because of previous errors.\r\n$-1\r\n")
	}
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.expect("EXEC with an argument", h.do(cl, "MULTI", "EXEC now", "EXEC"),
		"+OK\r\n-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n-ERR EXEC "+
			"without MULTI\r\n")
}

func TestStrangers(t *testing.T) {
	h := newTestCore(t)
	h.Do(func() { h.users.SetDefaultPassword("secret") })
	cl, _ := h.arrive()
	noAuth := "-NOAUTH Authentication required.\r\n"
	// An unknown command, or one with too few arguments, is reported before a password is required.
	h.expect("in order", h.do(cl, "PING", "GET", "NOSUCH", "MULTI", "AUTH secret", "PING"),
		noAuth+"-ERR wrong number of arguments for 'get' command\r\n-ERR unknown command 'NOSUCH', with args beginning "+
			"with: \r\n"+noAuth+"+OK\r\n+PONG\r\n")
	late, _ := h.arrive()
	h.expect("with a password", h.do(late, "PING"), noAuth)
	h.Do(func() { h.users.SetDefaultPassword("") })
	h.expect("after it was taken away", h.do(late, "PING"), "+PONG\r\n")
}

// TestBarriers: barriers are asked in order, and the first that is up refuses. EXEC is judged by the commands that it
// would run.
func TestBarriers(t *testing.T) {
	h := newTestCore(t)
	refusing := func(name string, what command.Flags) *part.Barrier {
		return &part.Barrier{Name: name, Refuse: func(_ *client.Client, call part.Call) error {
			flags := call.Flags
			if flags&what == 0 {
				return nil
			}
			return protocol.Errorf("ERR", "%s", name)
		}}
	}
	first, second := refusing("first", command.Write), refusing("second", command.Write|command.ReadOnly)
	h.addBarrier(first)
	h.addBarrier(second)
	cl, _ := h.arrive()
	h.expect("none up", h.do(cl, "SET k v"), "+OK\r\n")
	h.do(cl, "MULTI", "SET k w")
	h.Raise(first, true)
	h.Raise(second, true)
	h.Raise(second, true) // twice has the same effect as once
	h.expect("EXEC of a write", h.do(cl, "EXEC"), "-EXECABORT Transaction discarded because of: first\r\n")
	h.expect("both up", h.do(cl, "SET k x", "GET k", "PING"), "-ERR first\r\n-ERR second\r\n+PONG\r\n")
	h.Raise(first, false)
	h.expect("one up", h.do(cl, "SET k x"), "-ERR second\r\n")
	h.Raise(second, false)
	h.expect("down", h.do(cl, "GET k"), "$1\r\nv\r\n")
	if h.raised != 0 {
		t.Errorf("%d barriers count as up", h.raised)
	}
}

func TestLoading(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.do(cl, "MULTI", "GET k")
	h.Do(func() { h.SetLoading(true) })
	loading := "-LOADING Redis is loading the dataset in memory\r\n"
	h.expect("EXEC of what may not run", h.do(cl, "EXEC"), "-EXECABORT Transaction discarded because of: "+loading[1:])
	h.expect("others", h.do(cl, "GET k", "ECHO x", "MULTI", "EXEC"), loading+"$1\r\nx\r\n+OK\r\n*0\r\n")
	h.Do(func() { h.SetLoading(false) })
	h.expect("loaded", h.do(cl, "GET k"), "$-1\r\n")
}

// TestOutOfMemory: past maxmemory with nothing to evict, commands that may need memory are refused. Others run or are
// queued.
func TestOutOfMemory(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.do(cl, "SET k "+strings.Repeat("v", 1000), "MULTI", "GET k")
	other, _ := h.arrive()
	h.do(other, "MULTI", "SET k w")
	h.settings.MaxMemory.Set(1)
	h.Do(h.ApplyMemoryLimit)
	h.expect("queued before", h.do(other, "EXEC"),
		"-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.\r\n")
	h.expect("outside", h.do(other, "SET a b", "STRLEN k", "DEL nosuch", "MULTI", "DISCARD"),
		outOfMemory+":1000\r\n:0\r\n+OK\r\n+OK\r\n")
	h.expect("inside", h.do(cl, "STRLEN k", "EXEC"), "+QUEUED\r\n*2\r\n$1000\r\n"+strings.Repeat("v", 1000)+
		"\r\n:1000\r\n")
	h.expect("a write inside", h.do(cl, "MULTI", "GET k", "SET a b", "EXEC"),
		"+OK\r\n+QUEUED\r\n"+outOfMemory+"-EXECABORT Transaction discarded because of previous errors.\r\n")
	h.settings.MaxMemory.Set(0)
	h.Do(h.ApplyMemoryLimit)
	h.expect("without a limit", h.do(cl, "SET a b"), "+OK\r\n")
}

// TestEvictionUnderAView: memory that only a view still reads is not freed by more eviction. So it does not count, or a
// save would evict the whole data set.
func TestEvictionUnderAView(t *testing.T) {
	h := newTestCore(t)
	h.RemoveSink(h.sink)
	cl, _ := h.arrive()
	value := strings.Repeat("v", 100)
	large := strings.Repeat("l", 100_000) // in its chunks
	for i := range 2000 {
		h.do(cl, "SET k"+string(rune('a'+i%26))+strings.Repeat("x", i/26)+" "+value)
	}
	for i := range 20 {
		h.do(cl, "SET large"+string(rune('a'+i))+" "+large)
	}
	before := h.keys()
	h.settings.MaxMemory.Set(uint64(h.UsedMemory()))
	h.settings.Policy.Set(EvictionPolicy(keyspace.AllKeysLRU))
	h.Do(h.ApplyMemoryLimit)
	view := h.Freeze()
	for i := range 200 {
		if got := h.do(cl, "SET new"+strings.Repeat("y", i)+" "+value); got != "+OK\r\n" {
			t.Fatalf("write %d: %q", i, got)
		}
	}
	if left := h.keys(); left < before*9/10 {
		t.Errorf("%d of %d keys are left after 200 small writes under a view", left, before)
	}
	view.Close()
	for h.space.Heap().Retained() != 0 {
		h.dutySlice()
		if h.space.Heap().Drain(1<<20) || h.space.Heap().Holding() {
			continue
		}
		if n := h.space.Heap().Retained(); n != 0 {
			t.Fatalf("%d bytes count as retained after the view has closed", n)
		}
	}
}

// TestFlushMakesRoom: flushed data do not count towards maxmemory, even while a view still reads them or reclaimers
// have not freed them. New data count.
func TestFlushMakesRoom(t *testing.T) {
	for _, viewed := range []bool{false, true} {
		h := newTestCore(t)
		h.RemoveSink(h.sink)
		cl, _ := h.arrive()
		value := strings.Repeat("v", 1000)
		set := func(i int) string { return h.do(cl, fmt.Sprint("SET key", i, " ", value)) }
		const n = 3000
		for i := range n {
			set(i)
			if i%2 == 0 {
				h.do(cl, "SELECT 1", "SET other x", "SELECT 0")
			}
		}
		heap := h.space.Heap()
		h.settings.MaxMemory.Set(uint64(h.UsedMemory()))
		h.Do(h.ApplyMemoryLimit)
		if set(n); !strings.HasPrefix(set(n+1), "-OOM") {
			t.Fatal("there is room before")
		}
		if viewed {
			view := h.Freeze()
			defer view.Close()
		}
		h.expect("FLUSHALL", h.do(cl, "FLUSHALL"), "+OK\r\n")
		for i := range n * 9 / 10 {
			if got := set(i); got != "+OK\r\n" {
				t.Fatalf("viewed %t: write %d: %q", viewed, i, got)
			}
		}
		i := 0
		for ; i < n && set(n+i) == "+OK\r\n"; i++ {
		}
		if i > n/5 {
			t.Errorf("viewed %t: %d more writes were taken", viewed, i)
		}
		if viewed {
			continue
		}
		for job, _ := heap.TakeJob(); job != nil; job, _ = heap.TakeJob() {
			for last := heap.Reclaiming(); !job(100); last = heap.Reclaiming() {
				if now := heap.Reclaiming(); now > last || now < 0 {
					t.Fatalf("%d bytes to be freed, before %d", now, last)
				}
			}
		}
		if left := heap.Reclaiming(); left != 0 {
			t.Errorf("%d bytes are to be freed when nothing is", left)
		}
	}
}

// TestDutiesAreWatched: expiry or eviction that takes latency-monitor-threshold or longer is recorded as an event.
func TestDutiesAreWatched(t *testing.T) {
	h := newTestCore(t)
	var events []string
	h.Subscribe(part.Listeners{
		Publish: func(_, _ []byte) { h.pass(3 * time.Millisecond) },
		Latency: func(event string, took time.Duration) { events = append(events, event) },
	})
	h.settings.NotifyEvents.Set(int64(command.EventKeyspace | command.EventExpired | command.EventEvicted))
	cl, _ := h.arrive()
	for _, threshold := range []int64{0, 2, 60_000} {
		h.settings.LatencyThreshold.Set(threshold)
		h.settings.MaxMemory.Set(0)
		h.do(cl, "SET soon x PX 1", "SET k x")
		for h.keys() > 1 {
			h.pass(2 * time.Millisecond)
			h.dutySlice()
		}
		h.settings.Policy.Set(EvictionPolicy(keyspace.AllKeysLRU))
		h.settings.MaxMemory.Set(1)
		h.Do(h.ApplyMemoryLimit)
		h.dutySlice()
	}
	h.expect("events", strings.Join(events, " "), "expire-cycle eviction-cycle")
}

// TestFedClientsMayNotTouchKeys: a client that receives the stream may neither read nor write keys, because no pause
// holds it back.
func TestFedClientsMayNotTouchKeys(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	cl.Flags |= client.Monitor
	no := "-ERR Replica can't interact with the keyspace\r\n"
	h.expect("a monitor", h.do(cl, "GET k", "SET k v", "PING", "MULTI", "GET k", "EXEC"),
		no+no+"+PONG\r\n+OK\r\n"+no+"-EXECABORT Transaction discarded because of previous errors.\r\n")
}

// TestReplicasGetNoReplies: a replica would take a reply for a part of the stream. A replica that sends a command with
// a reply is closed, even if the reply is an error.
func TestReplicasGetNoReplies(t *testing.T) {
	for _, line := range []string{"PING", "GET k", "SET k v", "MULTI", "NONSENSE", "GET"} {
		h := newTestCore(t)
		told := ""
		h.hooks.Answered = func(_ *client.Client, spec *command.Spec) {
			if told = "unknown"; spec != nil {
				told = spec.Full
			}
		}
		cl, conn := h.arrive()
		cl.Flags |= client.Replica
		done, answer := h.batch(cl, line, "SET other v")
		want := strings.ToLower(strings.Fields(line)[0])
		if want == "nonsense" {
			want = "unknown"
		}
		if done != 1 || answer != "" || told != want || h.keys() != 0 {
			t.Errorf("%s: %d done, answer %q, told of %q, %d keys", line, done, answer, told, h.keys())
		}
		h.expect(line, conn.take(), "close")
	}
	h := newTestCore(t)
	cl, conn := h.arrive()
	cl.Flags |= client.Replica | client.ReplyOff
	h.expect("a replica that wants no replies", h.do(cl, "PING"), "")
	h.expect("it stays", conn.take(), "")
}

func TestHTTPIsRepelled(t *testing.T) {
	for _, line := range []string{"POST / HTTP/1.1", "host: example"} {
		h := newTestCore(t)
		attacks := 0
		h.hooks.Attack = func(*client.Client) { attacks++ }
		cl, conn := h.arrive()
		done, answer := h.batch(cl, line, "SET k v")
		if done != 1 || answer != "" || attacks != 1 || h.keys() != 0 {
			t.Errorf("%s: %d done, answer %q, %d attacks told, %d keys", line, done, answer, attacks, h.keys())
		}
		h.expect(line, conn.take(), "close")
	}
}

// TestSubscribersMayDoLittle: a subscriber in RESP2 may run only a few commands. In RESP3 it may run all.
func TestSubscribersMayDoLittle(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	cl.Flags |= client.PubSub
	h.expect("RESP2", h.do(cl, "GET k"),
		"-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "+
			"context\r\n")
	cl.Protocol = 3
	h.expect("RESP3", h.do(cl, "GET k"), "_\r\n")
}
