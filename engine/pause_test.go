package engine

import (
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
)

// TestPauseHoldsAndReleases: a held request stays unread, is not offered again while nothing has changed, and runs when
// the pause ends.
func TestPauseHoldsAndReleases(t *testing.T) {
	h := newTestCore(t)
	master, _ := h.arrive()
	cl, conn := h.arrive()
	h.expect("PAUSE", h.do(master, "CLIENT PAUSE 100000 WRITE"), "+OK\r\n")
	done, answer := h.batch(cl, "GET k", "SET k v", "GET k")
	if done != 1 || answer != "$-1\r\n" || !cl.Is(client.Blocked) {
		t.Fatalf("%d done, %q, flags %b", done, answer, cl.Flags)
	}
	if n := h.BlockedClients(); n != 1 {
		t.Errorf("%d blocked clients", n)
	}
	for range 3 {
		h.dutySlice()
	}
	h.do(master, "GET k", "CLIENT PAUSE 200000 WRITE")
	h.expect("while nothing changed", conn.take(), "")
	if done, _ = h.batch(cl, "SET k v"); done != 0 {
		t.Error("a held client was served")
	}
	h.expect("UNPAUSE", h.do(master, "CLIENT UNPAUSE"), "+OK\r\n")
	h.expect("released", conn.take(), "resume")
	h.expect("afterwards", h.do(cl, "SET k v"), "+OK\r\n")
	if h.raised != 0 || h.BlockedClients() != 0 || h.space.Hiding {
		t.Errorf("%d barriers, %d blocked, hiding %t", h.raised, h.BlockedClients(), h.space.Hiding)
	}
}

func TestPauseKinds(t *testing.T) {
	h := newTestCore(t)
	a, _ := h.arrive()
	b, conn := h.arrive()
	h.do(b, "MULTI")
	h.Do(func() { h.PauseFor(PauseByClient, false, 100_000) })
	if done, _ := h.batch(a, "PING", "MULTI", "GET k", "EXEC"); done != 4 {
		t.Errorf("reads under WRITE: %d done", done)
	}
	if done, _ := h.batch(b, "SET k v"); done != 0 {
		t.Error("a write was queued under WRITE")
	}
	h.Do(func() { h.PauseFor(PauseShutdown, true, 200_000) })
	h.expect("stricter", conn.take(), "")
	if done, _ := h.batch(a, "PING"); done != 0 {
		t.Error("PING under ALL")
	}
	h.Do(func() { h.Unpause(PauseShutdown) }) // the pause is weaker now: all clients try again
	h.expect("weaker", conn.take(), "resume")
	if done, _ := h.batch(b, "SET k v"); done != 0 {
		t.Error("a write was queued under WRITE")
	}
	if done, _ := h.batch(a, "PING"); done != 1 {
		t.Error("PING under WRITE")
	}
	h.Do(func() { h.Unpause(PauseByClient) })
	h.expect("over", conn.take(), "resume")
	h.expect("queued", h.do(b, "SET k v", "EXEC"), "+QUEUED\r\n*1\r\n+OK\r\n")
}

// TestPauseHoldsEXEC: a transaction is held if a pause holds one of its commands.
func TestPauseHoldsEXEC(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.do(cl, "MULTI", "SET k v")
	h.Do(func() { h.PauseFor(PauseByClient, false, 100_000) })
	if done, _ := h.batch(cl, "EXEC"); done != 0 || h.keys() != 0 {
		t.Errorf("%d done", done)
	}
}

// TestPauseHoldsEXECByItsCommands: a queued call is judged by its own flags (Means), as outside a transaction.
func TestPauseHoldsEXECByItsCommands(t *testing.T) {
	h := newTestCore(t, command.Spec{Name: "script", Arity: 2, Flags: command.MayReplicate,
		Means: func(args [][]byte, row command.Flags) command.Flags {
			if string(args[1]) == "reads" {
				return row &^ command.MayReplicate
			}
			return row
		},
		Run: func(c *command.Context) error {
			c.Reply.OK()
			return nil
		}})
	h.Do(func() { h.PauseFor(PauseByClient, false, 100_000) })
	reader, _ := h.arrive()
	h.expect("reads", h.do(reader, "MULTI", "script reads", "script reads", "EXEC"),
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n")
	writer, _ := h.arrive()
	if done, _ := h.batch(writer, "MULTI", "script reads", "script writes", "EXEC"); done != 2 {
		t.Errorf("of a transaction with a script that may write %d requests were done", done)
	}
}

// TestPauseEndsInTime: an idle server wakes up when a pause ends.
func TestPauseEndsInTime(t *testing.T) {
	h := newTestCore(t)
	cl, conn := h.arrive()
	h.Do(func() { h.PauseFor(PauseByClient, true, 5) })
	h.batch(cl, "PING")
	if wait := h.dutySlice(); wait != 6*time.Millisecond {
		t.Errorf("the next turn is due in %v", wait)
	}
	h.pass(7 * time.Millisecond)
	h.dutySlice()
	h.expect("ended", conn.take(), "resume")
}

// TestPauseIgnoresTheWallClock: a change of the wall clock neither ends nor lengthens a pause.
func TestPauseIgnoresTheWallClock(t *testing.T) {
	h := newTestCore(t)
	paused := func() (on bool) {
		h.applyPause()
		on, _ = h.Paused()
		return on
	}
	h.Do(func() {
		h.PauseFor(PauseByClient, true, 5000)
		if h.nowMs += 3_600_000; !paused() {
			t.Error("a clock that was set ahead ends the pause")
		}
	})
	h.pass(5001 * time.Millisecond)
	h.Do(func() {
		if h.nowMs -= 7_200_000; paused() {
			t.Error("a clock that was set back lengthens the pause")
		}
	})
}

// TestPausedClientsLeave: a client that has left is not resumed.
func TestPausedClientsLeave(t *testing.T) {
	h := newTestCore(t)
	cl, conn := h.arrive()
	h.Do(func() { h.PauseFor(PauseByClient, true, 100_000) })
	h.batch(cl, "PING")
	h.Closed(cl)
	h.Do(func() { h.Unpause(PauseByClient) })
	h.expect("after it left", conn.take(), "")
}

// TestManyPausedClientsLeave: a held client leaves about as fast as another client, however many are held.
func TestManyPausedClientsLeave(t *testing.T) {
	const n = 60_000
	leave := func(paused bool) time.Duration {
		h := newTestCore(t)
		clients := make([]*client.Client, n)
		for i := range clients {
			clients[i], _ = h.arrive()
		}
		if paused {
			h.Do(func() { h.PauseFor(PauseByClient, true, 1_000_000) })
		}
		for _, cl := range clients {
			h.batch(cl, "PING")
		}
		if held := h.BlockedClients(); paused != (held == n) {
			t.Fatalf("%d are held", held)
		}
		began := time.Now()
		for i := range clients {
			h.Closed(clients[n-1-i])
		}
		if h.BlockedClients() != 0 {
			t.Errorf("engine.P1: %d are held", h.BlockedClients())
		}
		return time.Since(began)
	}
	free := leave(false)
	held, limit := leave(true), 10*free+time.Second
	for tries := 1; tries < 5 && held > limit; tries++ { // other work on the host lengthens some of them
		held = leave(true)
	}
	if held > limit {
		t.Errorf("%d clients left in %v, held ones in %v, want at most %v", n, free, held, limit)
	}
}

// TestPauseHoldsBlockedClients: a client that is blocked on a key is not served while a pause holds its command back.
// It does not matter whether the key is ready or the command tries again by itself. The end of the pause serves it.
func TestPauseHoldsBlockedClients(t *testing.T) {
	again := func(c *command.Context) int64 { return c.Now + 5 }
	h := newTestCore(t, command.Spec{Name: "claim", Arity: 2, Flags: command.Write, Run: func(c *command.Context) error {
		c.Core.Block(c, command.Wait{Keys: c.Args[1:], Again: again,
			Timeout: func(c *command.Context) { c.Reply.NullArray() },
			Retry: func(c *command.Context) error {
				c.Propagate([]byte("CLAIM"))
				c.Reply.OK()
				return nil
			}})
		return nil
	}})
	cl, _ := h.arrive()
	served, servedConn := h.arrive()
	claims, claimsConn := h.arrive()
	h.do(served, "PARK k")
	h.do(claims, "CLAIM other")
	h.sink.take()
	h.do(cl, "MULTI", "SIGNAL k", "CLIENT PAUSE 100000 WRITE", "EXEC")
	h.sink.take()
	for range 3 {
		h.pass(20 * time.Millisecond)
		h.dutySlice()
	}
	if said := servedConn.take() + claimsConn.take() + h.sink.take(); said != "" {
		t.Errorf("during the pause: %s", said)
	}
	h.do(cl, "CLIENT UNPAUSE")
	h.pass(20 * time.Millisecond)
	h.dutySlice()
	h.expect("the key's client", servedConn.take(), "post $1\r\nk\r\n; resume")
	h.expect("the other client", claimsConn.take(), "post +OK\r\n; resume")
}
