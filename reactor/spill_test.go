package reactor

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"spindle/protocol"
)

// A chunk can be returned on any goroutine, while others lend and return. Meanwhile no other reply uses it.
func TestChunksOfManyGoroutines(t *testing.T) {
	var s chunkStore
	var all sync.WaitGroup
	for id := range byte(8) {
		all.Go(func() {
			for range 500 {
				var lent [3][]byte
				for i := range lent {
					lent[i] = s.lease(protocol.ChunkSize)
					lent[i][0], lent[i][len(lent[i])-1] = id, id
				}
				for _, b := range lent {
					if b[0] != id || b[len(b)-1] != id {
						t.Error("a chunk was lent twice")
						return
					}
					s.giveBack(b)
				}
			}
		})
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) == 0 || len(s.spare) > spareChunks {
		t.Errorf("%d spare chunks", len(s.spare))
	}
}

// Spare chunks that are not used between two calls of age go back to the kernel. The others stay.
func TestSpareChunksAge(t *testing.T) {
	s := chunkStore{aging: true} // the test ages
	spare := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.spare)
	}
	use := func(n int) {
		var lent [][]byte
		for range n {
			lent = append(lent, s.lease(protocol.ChunkSize))
		}
		for _, b := range lent {
			s.giveBack(b)
		}
	}
	use(10)
	for i, step := range []struct{ wanted, left int }{{0, 10}, {4, 4}, {4, 4}, {6, 6}, {0, 6}, {0, 0}} {
		s.age()
		use(step.wanted)
		if n := spare(); n != step.left {
			t.Errorf("step %d: %d spare chunks, want %d", i, n, step.left)
		}
	}
	use(spareChunks + 3)
	if n := spare(); n != spareChunks {
		t.Errorf("%d spare chunks, want %d", n, spareChunks)
	}
}

// Under netpoll a connection has its own loop, and another kit at each visit. Chunks belong to the backend. No chunk is
// lost with a kit that the garbage collector drops.
func TestKitsShareTheirChunks(t *testing.T) {
	h := newTestHandler()
	r, addr := serveHandler(t, h, Options{Backend: Netpoll})
	var stores [2]*chunkStore
	for i, name := range []string{"one", "other"} {
		p := dial(t, addr)
		p.send(command("NAME", name))
		p.expect("+OK\r\n")
		stores[i] = h.named(name).c.(*conn).loop.longReplies
	}
	if all := &r.back.(*netpollBackend).longReplies; stores[0] != all || stores[1] != all {
		t.Error("each connection has its own chunks")
	}
}

// A long reply that is written outside its connection's loop lies in chunks, too. When the client would get more unread
// output than it may have, its connection ends.
func TestPostedReplySpills(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b})
		p := dial(t, addr)
		p.send(command("NAME", "me"))
		p.expect("+OK\r\n")
		c := h.named("me").c
		write := func() (reply *protocol.Reply, text string) {
			var all strings.Builder
			reply = &protocol.Reply{Chunks: c.Chunks()}
			for i := range 100_000 {
				element := fmt.Sprintf("element-%07d", i)
				reply.BulkString(element)
				fmt.Fprintf(&all, "$%d\r\n%s\r\n", len(element), element)
			}
			return reply, all.String()
		}
		reply, text := write()
		if reply.Seal(); len(reply.B) != 0 || len(reply.Lent) < len(text)/protocol.ChunkSize {
			t.Fatalf("%d bytes lie in one buffer and %d pieces", len(reply.B), len(reply.Lent))
		}
		c.PostReply(1, reply)
		p.expect(text)

		limits := OutputLimits{}
		limits[protocol.ClassNormal].Hard = 1 << 20
		r.settings.Output.Set(limits)
		reply, _ = write()
		if !reply.Full() {
			t.Fatal("the reply is as long as it likes")
		}
		reply.Seal()
		c.PostReply(2, reply)
		eventually(t, "the connection ends", func() bool { return r.Stats().OutputLimitCloses == 1 && r.Stats().Open == 0 })
	})
}
