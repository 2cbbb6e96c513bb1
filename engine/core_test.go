package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/invariant"
	"spindle/protocol"
)

// TestDone: a batch ends at the request that stops its client.
func TestDone(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		done  int
		want  string
	}{
		{"all", []string{"PING", "PING"}, 2, "+PONG\r\n+PONG\r\n"},
		{"blocked in the middle", []string{"PING", "PARK k", "PING"}, 2, "+PONG\r\n"},
		{"blocked at the end", []string{"PING", "PARK k"}, 2, "+PONG\r\n"},
		{"quit", []string{"QUIT", "SET k v"}, 1, "+OK\r\n"},
		{"more than is looked ahead", strings.Split(strings.Repeat("PING,", 40)+"QUIT,PING", ","), 41,
			strings.Repeat("+PONG\r\n", 40) + "+OK\r\n"},
	} {
		h := newTestCore(t)
		cl, _ := h.arrive()
		done, answer := h.batch(cl, c.lines...)
		if done != c.done || answer != c.want {
			t.Errorf("%s: %d done, %q; want %d, %q", c.name, done, answer, c.done, c.want)
		}
	}
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.Do(func() { h.Kill(cl, false) })
	if done, answer := h.batch(cl, "PING"); done != 0 || answer != "" {
		t.Errorf("killed: %d done, %q", done, answer)
	}
}

// TestALongBatchEndsEarly: when a batch's time is up, the batch stops after the request that runs, and is resumed
// later. No request is lost, and other clients have turns in between. A run of fast requests is stopped, too.
func TestALongBatchEndsEarly(t *testing.T) {
	var h *testCore
	nap := func(c *command.Context) error {
		h.pass(3 * time.Millisecond)
		c.Reply.Bulk(c.Args[1])
		return nil
	}
	h = newTestCore(t, command.Spec{Name: "nap", Arity: 2, Run: nap},
		command.Spec{Name: "fastnap", Arity: 2, Flags: command.Fast, Run: nap})
	cl, conn := h.arrive()
	done, answer := h.turn(cl, "NAP 1", "NAP 2", "NAP 3")
	if said := conn.take(); done != 1 || answer != "$1\r\n1\r\n" || said != "resume" {
		t.Errorf("%d done, %q; the loop was told %q", done, answer, said)
	}
	if done, answer = h.turn(cl, "NAP 1"); done != 1 || conn.take() != "" {
		t.Errorf("alone: %d done, %q", done, answer)
	}
	h.expect("all of them", h.do(cl, "NAP 1", "NAP 2", "PARK k"), "$1\r\n1\r\n$1\r\n2\r\n")
	if said := conn.take(); said != "" {
		t.Errorf("blocked, its loop was told %q", said)
	}
	other, conn := h.arrive()
	done, _ = h.turn(other, strings.Split(strings.Repeat("FASTNAP 1,", 199)+"FASTNAP 1", ",")...)
	if said := conn.take(); done == 0 || done > 2*lapEvery || said != "resume" {
		t.Errorf("a run: %d done; the loop was told %q", done, said)
	}
}

// TestTimePassesInATurn: each command has its own time, as in Redis. The commands of a transaction share one time. A
// key whose deadline passes in the turn is gone.
func TestTimePassesInATurn(t *testing.T) {
	var at []int64
	var h *testCore
	h = newTestCore(t, command.Spec{Name: "nap", Arity: 1, Run: func(*command.Context) error {
		h.pass(1100 * time.Microsecond)
		return nil
	}}, command.Spec{Name: "note", Arity: 1, Flags: command.Fast, Run: func(c *command.Context) error {
		at = append(at, c.Now)
		return nil
	}})
	cl, _ := h.arrive()
	if done, _ := h.turn(cl, "NOTE", "NAP", "NOTE"); done != 3 || at[1] != at[0]+1 {
		t.Fatalf("%d done; a millisecond passed, and it was %v", done, at)
	}
	at = nil
	h.do(cl, "MULTI", "NOTE", "NAP", "NAP", "NAP", "NOTE", "EXEC")
	if at[0] != at[1] {
		t.Errorf("inside EXEC it was %d and %d", at[0], at[1])
	}
	h.expect("past its deadline", h.do(cl, "SET k v PX 1", "NAP", "NAP", "GET k", "GET k"), "+OK\r\n$-1\r\n$-1\r\n")
}

// TestBatchesFindTheirRows: adjacent requests with the same spelling share a look-up, others do not. A renamed command
// is found only by its new name, even right after another request for it.
func TestBatchesFindTheirRows(t *testing.T) {
	h := newTestCore(t)
	if err := h.catalogue.Rename("get", "fetch"); err != nil {
		t.Fatal(err)
	}
	cl, _ := h.arrive()
	h.expect("a batch", h.do(cl, "SET k v", "set k w", "SET k x", "FETCH k", "GET k", "FETCH k", "FETCHX k", "CLIENT ID",
		"CLIENT GETNAME"),
		"+OK\r\n+OK\r\n+OK\r\n$1\r\nx\r\n-ERR unknown command 'GET', with args beginning with: 'k' \r\n$1\r\nx\r\n"+
			"-ERR unknown command 'FETCHX', with args beginning with: 'k' \r\n:1\r\n$-1\r\n")
}

func TestReplyModes(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"skip one", []string{"CLIENT REPLY SKIP", "PING", "ECHO a"}, "$1\r\na\r\n"},
		{"skip a refusal", []string{"CLIENT REPLY SKIP", "NOSUCH", "ECHO a"}, "$1\r\na\r\n"},
		{"skip what is queued", []string{"MULTI", "CLIENT REPLY SKIP", "EXEC", "PING", "ECHO a"},
			"+OK\r\n+QUEUED\r\n*1\r\n$1\r\na\r\n"},
		{"off and on", []string{"CLIENT REPLY OFF", "PING", "NOSUCH", "CLIENT REPLY SKIP", "CLIENT REPLY ON", "ECHO a"},
			"+OK\r\n$1\r\na\r\n"},
		{"off inside", []string{"MULTI", "PING", "CLIENT REPLY OFF", "PING", "EXEC", "PING"},
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+PONG\r\n"},
		{"off around", []string{"CLIENT REPLY OFF", "MULTI", "PING", "EXEC"}, ""},
	} {
		h := newTestCore(t)
		cl, _ := h.arrive()
		h.expect(c.name, h.do(cl, c.lines...), c.want)
	}
}

// TestAKeyNamedAgain: if requests of a batch name one key, each finds it as the request before has left it. A handler
// may reuse memory for its other keys. They are not taken for the key that was there before.
func TestAKeyNamedAgain(t *testing.T) {
	scratch := []byte("k?")
	h := newTestCore(t, command.Spec{Name: "both", Arity: 2, Keys: command.FirstArg(command.KeyRO),
		Run: func(c *command.Context) error {
			for _, last := range []byte("12") {
				scratch[1] = last
				c.Reply.Bulk(c.DB.Lookup(scratch).AppendTo(nil))
			}
			return nil
		}})
	cl, _ := h.arrive()
	h.expect("scratch", h.do(cl, "SET k1 a", "SET k2 b", "BOTH x", "BOTH x", "BOTH x"),
		"+OK\r\n+OK\r\n"+strings.Repeat("$1\r\na\r\n$1\r\nb\r\n", 3))
	h.expect("one key", h.do(cl, "SET k 1", "GET k", "DEL k", "GET k", "SET k 22", "GET k",
		"SET k abcdefghijklmnopqrstuvwxyz", "GET k", "GET k", "FLUSHALL", "GET k",
		"SET k 3", "MULTI", "GET k", "DEL k", "GET k", "EXEC", "GET k", "GET k"),
		"+OK\r\n$1\r\n1\r\n:1\r\n$-1\r\n+OK\r\n$2\r\n22\r\n+OK\r\n$26\r\nabcdefghijklmnopqrstuvwxyz\r\n$26\r\n"+
			"abcdefghijklmnopqrstuvwxyz\r\n+OK\r\n$-1\r\n"+
			"+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$1\r\n3\r\n:1\r\n$-1\r\n$-1\r\n$-1\r\n")
}

// TestNoTouch: CLIENT NO-TOUCH applies only to commands of the client that sent it.
func TestNoTouch(t *testing.T) {
	var seen []bool
	var h *testCore
	h = newTestCore(t, command.Spec{Name: "look", Arity: 1, Run: func(c *command.Context) error {
		seen = append(seen, c.Space.NoTouch)
		return nil
	}})
	a, _ := h.arrive()
	b, _ := h.arrive()
	h.do(a, "CLIENT NO-TOUCH on", "LOOK")
	h.do(b, "LOOK")
	h.do(a, "MULTI", "LOOK", "EXEC")
	if len(seen) != 3 || !seen[0] || seen[1] || !seen[2] {
		t.Errorf("%v", seen)
	}
}

// TestMonitor: MONITOR shows every command after it has run, and the commands of a transaction before their EXEC.
// Secrets are hidden.
func TestMonitor(t *testing.T) {
	h := newTestCore(t)
	h.Do(func() { h.users.SetDefaultPassword("secret") })
	watcher, conn := h.arrive()
	h.do(watcher, "AUTH secret", "MONITOR")
	cl, _ := h.arrive()
	h.do(cl, "AUTH secret", "NOSUCH a", "SELECT 2", "MULTI", "GET k", "EXEC", "CLIENT LIST")
	var shown []string
	for _, post := range strings.Split(conn.take(), "; ") {
		at := strings.IndexByte(post, '[')
		if at < 0 || !strings.HasPrefix(post, "post +") || !strings.HasSuffix(post, "\r\n") {
			t.Fatalf("%q", post)
		}
		shown = append(shown, strings.TrimSuffix(post[at:], "\r\n"))
	}
	h.expect("shown", strings.Join(shown, "\n"), `[0 127.0.0.1:1001] "AUTH" "(redacted)"
[2 127.0.0.1:1001] "SELECT" "2"
[2 127.0.0.1:1001] "MULTI"
[2 127.0.0.1:1001] "GET" "k"
[2 127.0.0.1:1001] "EXEC"`)
	got := h.do(watcher, "PING", "ECHO a")
	if !strings.HasPrefix(got, "+PONG\r\n+") || !strings.HasSuffix(got, "\"ECHO\" \"a\"\r\n") {
		t.Errorf("its own: %q", got)
	}
	h.Closed(watcher)
	h.do(cl, "PING")
	h.expect("gone", conn.take(), "")
}

func TestMonitorLine(t *testing.T) {
	cl := &client.Client{Conn: &fakeConn{remote: "[::1]:9"}, DB: 7}
	got := string(monitorLine(1_700_000_000_042, 5_000_321_000, cl,
		[][]byte{[]byte("a\"\\\n\r\t\a\b"), {0, 0xff, 'z'}, nil}))
	want := `+1700000000.042321 [7 [::1]:9] "a\"\\\n\r\t\a\b" "\x00\xffz" ""` + "\r\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRunsAreTimedTogether: brief commands of one kind are recorded as a run, each counted. A slow command is timed
// alone, inside a transaction too. A nap is longer than what a busy host may add to a command that only reads.
func TestRunsAreTimedTogether(t *testing.T) {
	const long = 30 * time.Millisecond
	var h *testCore
	nap := func(c *command.Context) error {
		h.pass(long)
		c.Reply.OK()
		return nil
	}
	h = newTestCore(t, command.Spec{Name: "nap", Arity: 1, Run: nap},
		command.Spec{Name: "fastnap", Arity: -1, Flags: command.Fast, Run: nap})
	cl, _ := h.arrive()
	h.settings.SlowlogSlowerThan.Set(long.Microseconds() - 1000)
	h.settings.HotKeys.Set(false) // of samples, one of four is timed alone
	end := h.hold()
	h.ApplyHotKeys()
	end()
	h.do(cl, "GET a", "GET b", "NOSUCH", "GET c", "SET a b", "NAP", "GET a", "MULTI", "NAP", "PING", "EXEC")
	stats := func(name string) *command.Stats { return &h.catalogue.Lookup([]byte(name)).Stats }
	for name, want := range map[string]uint64{"get": 4, "set": 1, "nap": 2, "multi": 1, "ping": 1, "exec": 1} {
		if got := stats(name).Calls; got != want {
			t.Errorf("%s: %d calls, want %d", name, got, want)
		}
	}
	if n := h.Figures().Commands; n != 10 {
		t.Errorf("%d commands", n)
	}
	const least = uint64(long)
	if nap, exec, ping := stats("nap").Nanos, stats("exec").Nanos, stats("ping").Nanos; nap != 2*least || exec != least ||
		ping != 0 || stats("get").Nanos != 0 {
		t.Errorf("NAP %d ns, EXEC %d ns, PING %d ns, GET %d ns", nap, exec, ping, stats("get").Nanos)
	}
	h.expect("slow", strings.Join(h.slow, " "), "NAP NAP") // EXEC itself is not shown
	h.slow = nil
	h.do(cl, "FASTNAP few", "FASTNAP"+strings.Repeat(" x", manyArgs), "PING")
	h.expect("slow, of a fast row", strings.Join(h.slow, " "), "FASTNAP FASTNAP")
	h.slow = nil
	h.do(cl, "FASTNAP", "FASTNAP") // either, or both together
	h.expect("slow, of a run", strings.Join(h.slow, " "), "")
	if s := stats("fastnap"); s.Calls != 4 {
		t.Errorf("FASTNAP: %d calls", s.Calls)
	}
}

func TestErrorsAreCounted(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.do(cl, "SET s x", "INCR s", "GET", "NOSUCH", "MULTI", "INCR s", "EXEC")
	f := h.Figures()
	if f.ErrorReplies != 4 || f.Rejected != 2 || len(f.Errors) != 1 || f.Errors[0] != (ErrorCount{"ERR", 4}) {
		t.Errorf("%+v", f)
	}
	if s := h.catalogue.Lookup([]byte("incr")).Stats; s.Failed != 2 || s.Rejected != 0 {
		t.Errorf("INCR: %d failed, %d rejected", s.Failed, s.Rejected)
	}
	var told []string
	h.Subscribe(part.Listeners{ManyCodes: func(codes []string) { told = append(told, codes...) }})
	for i := range 2 * errorCodesMax {
		if n := len(h.meter.errors); i == errorCodesMax-1 && (n != errorCodesMax || h.Figures().ErrorsFull) {
			t.Errorf("%d codes", n) // ERR is one of them
		}
		h.meter.countError(&protocol.Error{Code: strings.Repeat("E", i+1)})
	}
	f = h.Figures()
	if !f.ErrorsFull || f.CodesFreed != errorCodesMax ||
		!slices.Equal(f.Errors, []ErrorCount{{"ERRORSTATS_DISABLED", 1}}) {
		t.Errorf("after too many codes: %+v", f)
	}
	if len(told) != errorCodesMax {
		t.Errorf("told of %d codes: %s", len(told), told)
	}
	h.ResetFigures()
	h.do(cl, "GET")
	if f = h.Figures(); f.ErrorsFull || f.CodesFreed != 0 || !slices.Equal(f.Errors, []ErrorCount{{"ERR", 1}}) {
		t.Errorf("after CONFIG RESETSTAT: %+v", f)
	}
}

// TestQueueIsCounted: MULTI keeps copies, and their memory counts. After EXEC and DISCARD nothing of it is left.
func TestQueueIsCounted(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.do(cl, "MULTI", "SET k v", "GET k")
	if q := cl.Queue; len(q.Commands) != 2 || q.Bytes < 10 || command.Flags(q.Flags)&command.Write == 0 ||
		command.Flags(q.Lacking)&command.Loading == 0 {
		t.Errorf("%+v", cl.Queue)
	}
	h.do(cl, "NOSUCH", "GET k")
	if len(cl.Queue.Commands) != 2 {
		t.Error("what EXEC will not run was kept")
	}
	if h.do(cl, "EXEC"); cl.Queue != nil || cl.Is(client.Multi) {
		t.Error("something is left")
	}
}

// TestSteadyStateAllocatesNothing: a batch of GET and SET allocates nothing.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	h := newTestCore(t)
	h.RemoveSink(h.sink)
	cl, _ := h.arrive()
	h.do(cl, "SET k 0123456789012345678901234567890123456789", "GET k")
	args := [][][]byte{{[]byte("GET"), []byte("k")}, {[]byte("SET"), []byte("k"),
		[]byte("0123456789012345678901234567890123456789")}}
	b := &protocol.Batch{Session: cl, Reply: &protocol.Reply{}}
	for i := range 32 {
		b.Requests = append(b.Requests, protocol.Request{Args: args[i/8%2]})
	}
	run := func() {
		b.Done = 0
		b.Reply.Reset()
		h.duties.at = 1 << 62
		h.Serve(b)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n > 0.5 {
		t.Errorf("%v allocations a batch", n)
	}
}

// TestLoopsAndTurns runs batches, arrivals, kills and the loops' calls outside turns at the same time, for the race
// detector.
func TestLoopsAndTurns(t *testing.T) {
	h := newTestCore(t)
	stop := make(chan struct{})
	var duties, loops sync.WaitGroup
	duties.Go(func() { h.RunDuties(stop) })
	for loop := range 4 {
		loops.Go(func() {
			for i := range 200 {
				session, _ := h.Open(&fakeConn{remote: "127.0.0.1:1"})
				cl := session.(*client.Client)
				for range 5 {
					cl.Limits()
					args := [][]byte{[]byte("SET"), []byte("k"), []byte("v")}
					h.Serve(&protocol.Batch{Session: cl, Requests: []protocol.Request{{Args: args}}, Reply: &protocol.Reply{}})
				}
				h.Do(func() {
					for other := range h.clients.All {
						if other != cl && (i+loop)%3 == 0 {
							h.Kill(other, false)
						}
					}
				})
				bulk, _ := h.Reserve(cl, 100_000)
				bulk.Release(bulk)
				h.Closed(cl)
			}
		})
	}
	loops.Wait()
	close(stop)
	duties.Wait()
	if h.connected() != 0 {
		t.Errorf("%d clients are left", h.connected())
	}
}

// TestTheTurnKnowsItsHolder: checked builds panic if a goroutine without the turn calls a function for the turn, even
// while another goroutine holds the turn. They also panic if the holder waits for the turn.
func TestTheTurnKnowsItsHolder(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("only builds that check know the holder: make invariants runs it")
	}
	h := newTestCore(t)
	refused := func(what string, f func()) {
		t.Helper()
		defer func() {
			if broken := fmt.Sprint(recover()); !strings.Contains(broken, "engine.T1") {
				t.Errorf("%s: %v", what, broken)
			}
		}()
		f()
	}
	turnOnly := func() { h.Core.Figures() }
	refused("nobody holds it", turnOnly)
	h.Do(func() {
		turnOnly()
		done := make(chan struct{})
		go func() {
			defer close(done)
			refused("another goroutine holds it", turnOnly)
		}()
		<-done
		refused("the holder", func() { h.Do(func() {}) })
	})
	refused("given back", turnOnly)
}
