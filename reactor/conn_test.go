package reactor

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/protocol"
	"spindle/tests/testkit"
)

func TestPipelineIsAnsweredInOrder(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		_, addr := serveHandler(t, newTestHandler(), Options{Backend: b})
		p := dial(t, addr)
		var ask, want strings.Builder
		for i := range 20_000 { // several reads, many batches
			word := fmt.Sprint("word", i)
			ask.WriteString(command("ECHO", word))
			fmt.Fprintf(&want, "$%d\r\n%s\r\n", len(word), word)
		}
		go io.WriteString(p, ask.String())
		p.expect(want.String())
	})
}

// However the network cuts the bytes, the replies are the same.
func TestAnySplitReadsTheSame(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		_, addr := serveHandler(t, h, Options{Backend: b})
		big := strings.Repeat("0123456789", 5000) // streamed
		ask := command("PING") + "ECHO inline\r\n" + command("ECHO", "") + command("LEN", big) +
			command("ECHO", strings.Repeat("z", 20_000)) + command("LEN", big) + "PING\r\n" + command("PING")
		want := "+OK\r\n$6\r\ninline\r\n$0\r\n\r\n:50000\r\n$20000\r\n" + strings.Repeat("z", 20_000) +
			"\r\n:50000\r\n+OK\r\n+OK\r\n"
		for range 3 { // long, not streamed, and others after it
			ask += command("LEN", strings.Repeat("y", longArgument)) + command("PING") + command("ECHO", "e") +
				command("LEN", strings.Repeat("x", protocol.BigBulk-1)) + command("LEN", big)
			want += fmt.Sprintf(":%d\r\n+OK\r\n$1\r\ne\r\n:%d\r\n:%d\r\n", longArgument, protocol.BigBulk-1, len(big))
		}
		for seed := range uint64(5 * testkit.Scale()) {
			rng := rand.New(rand.NewPCG(seed, 1))
			p := dial(t, addr)
			go func() {
				for at := 0; at < len(ask); {
					n := 1 + rng.IntN(30)
					if rng.IntN(3) == 0 || at > 200 {
						n = 1 + rng.IntN(20_000)
					}
					n = min(n, len(ask)-at)
					if _, err := io.WriteString(p, ask[at:at+n]); err != nil {
						return
					}
					at += n
					if rng.IntN(4) == 0 {
						testkit.Moment(rng, 2*time.Millisecond)
					}
				}
			}()
			p.expect(want)
			p.Close()
		}
		eventually(t, "every reserved block is given back", func() bool {
			return h.reserved.Load() == h.bulkFreed.Load() && h.reserved.Load() > 0
		})
	})
}

// Only the bytes that a long argument lacks are copied. Requests that arrive after it are served in place.
func TestLacking(t *testing.T) {
	for _, x := range []struct{ size, come, want int }{
		{20_000, 5_000, 15_000}, {longArgument, 1, longArgument - 1}, {longArgument - 1, 1, 60_000}, {20_000, 19_999, 1},
	} {
		ask := command("SET", "k", strings.Repeat("v", x.size))
		from := len(ask) - x.size
		c := &conn{input: input{parser: &protocol.Parser{}, pending: []byte(ask[:from+x.come])}}
		if _, err := c.parser.Parse(c.pending); err != nil {
			t.Fatal(err)
		}
		if n := c.lacking(60_000); n != x.want {
			t.Errorf("%d of %d bytes have come: it lacks %d, want %d", x.come, x.size, n, x.want)
		}
		if n := c.lacking(1); n != 1 {
			t.Errorf("%d of one byte", n)
		}
	}
}

// A post of an earlier turn comes before the reply of a later one, and the other way round.
func TestPostsKeepTheOrderOfTurns(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		_, addr := serveHandler(t, h, Options{Backend: b, Loops: 2})
		listener := dial(t, addr)
		listener.send(command("NAME", "ear"))
		listener.expect("+OK\r\n")
		ear := h.named("ear")
		// One counter is increased inside turns only: by the listener's own requests, and by turns of other goroutines
		// that post.
		const rounds = 1500
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range rounds {
					h.mu.Lock()
					h.turn++
					if h.count%3 == 0 {
						ear.c.PostReply(h.turn, &protocol.Reply{B: h.next()})
					} else {
						ear.c.Post(h.turn, h.next())
					}
					h.mu.Unlock()
				}
			})
		}
		wg.Go(func() {
			for range rounds {
				io.WriteString(listener, command("COUNT"))
			}
		})
		var want strings.Builder
		for i := range 4 * rounds {
			fmt.Fprintf(&want, "#%08d\n", i+1)
		}
		listener.expect(want.String())
		wg.Wait()
	})
}

// Posts keep their order if a batch of the same connection waits for its turn. They stay before its reply.
func TestPostsDuringABatchKeepTheirOrder(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		for request, reply := range map[string]string{"SILENT": "", "PING": "+OK\r\n"} {
			h := newTestHandler()
			_, addr := serveHandler(t, h, Options{Backend: b})
			p := dial(t, addr)
			p.send(command("NAME", "me"))
			p.expect("+OK\r\n")
			me := h.named("me")
			h.mu.Lock()
			p.send(command(request))
			testkit.Holds(time.Second, me.busy.Load)
			var want strings.Builder
			for i := range 3 * postPieces {
				h.turn++
				line := fmt.Sprintf("post %d\n", i)
				me.c.Post(h.turn, []byte(line))
				want.WriteString(line)
			}
			h.mu.Unlock()
			p.expect(want.String() + reply)
		}
	})
}

func TestHeldConnectionResumes(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		_, addr := serveHandler(t, h, Options{Backend: b})
		p := dial(t, addr)
		p.send(command("NAME", "me") + command("HOLD") + command("ECHO", "after") + command("ECHO", "half")[:10])
		p.expect("+OK\r\n+HELD\r\n")
		p.send(command("ECHO", "half")[10:] + command("PING"))
		p.expectNothing(20 * time.Millisecond)
		h.named("me").c.Resume()
		p.expect("$5\r\nafter\r\n$4\r\nhalf\r\n+OK\r\n")
		// The request is not done at all, so it is served again. It is streamed or not, and arrives at once or in
		// parts.
		for _, size := range []int{10, 2 * longArgument, 100_000} {
			ask := command("LATER", strings.Repeat("v", size))
			p.sendCut(ask[:len(ask)-8], ask[len(ask)-8:]+command("PING"))
			me := h.named("me")
			eventually(t, "refused", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return me.asked })
			me.c.Resume()
			p.expect(fmt.Sprintf(":%d\r\n+OK\r\n", size))
		}
		if h.reserved.Load() != h.bulkFreed.Load() {
			t.Fatalf("%d of %d blocks given back", h.bulkFreed.Load(), h.reserved.Load())
		}
	})
}

// A blocked client that hangs up is noticed although none of its requests is served.
func TestHeldConnectionThatHangsUpIsClosed(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b})
		p := dial(t, addr)
		p.send(command("HOLD") + command("PING"))
		p.expect("+HELD\r\n")
		p.Close()
		eventually(t, "Closed", func() bool { return h.closed.Load() == 1 && r.Stats().Open == 0 })
		for i := range int64(20) { // the end arrives together with the request that blocks
			p := dial(t, addr)
			p.send(command("HOLD"))
			p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			p.expect("+HELD\r\n")
			p.expectEnd()
			eventually(t, "Closed", func() bool { return h.closed.Load() == 2+i && r.Stats().Open == 0 })
		}
	})
}

// TestWorkOfAClientThatHangsUp: a client closes its direction while its request is worked on outside the turn, with
// or without a request after it. It gets all replies, and then the end. If its socket breaks, the connection ends at
// once.
func TestWorkOfAClientThatHangsUp(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b})
		for i, after := range []string{"", command("ECHO", "after")} {
			p := dial(t, addr)
			p.send(command("NAME", "p"))
			p.expect("+OK\r\n")
			p.send(command("WORK") + after)
			p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			eventually(t, "WORK has begun", func() bool { return h.working.Load() == int64(i)+1 })
			p.expectNothing(20 * time.Millisecond)
			c := h.named("p").c
			h.mu.Lock()
			h.turn++
			c.Post(h.turn, []byte("+DONE\r\n"))
			c.Resume()
			h.mu.Unlock()
			p.expect("+DONE\r\n" + map[bool]string{true: "$5\r\nafter\r\n"}[after != ""])
			p.expectEnd()
			eventually(t, "Closed", func() bool { return h.closed.Load() == int64(i)+1 && r.Stats().Open == 0 })
		}
		if secured && b == Netpoll {
			return // it takes a reset under TLS for the end of the peer's direction
		}
		p := dial(t, addr)
		p.send(command("PING") + command("WORK"))
		p.expect("+OK\r\n")
		if secured {
			p.Conn = p.Conn.(*tls.Conn).NetConn()
		}
		p.Conn.(*net.TCPConn).SetLinger(0)
		p.Close() // by a reset
		eventually(t, "the end of a broken socket", func() bool { return h.closed.Load() == 3 && r.Stats().Open == 0 })
	})
}

func TestCloseAfterOutput(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		_, addr := serveHandler(t, h, Options{Backend: b})
		p := dialNarrow(t, addr)
		const size = 6 << 20 // more than the socket takes at once
		p.send(command("FILL", fmt.Sprint(size)) + command("QUIT") + command("PING"))
		p.expect(fmt.Sprintf("$%d\r\n%s\r\n+OK\r\n", size, strings.Repeat("y", size)))
		p.expectEnd()
		eventually(t, "Closed", func() bool { return h.closed.Load() == 1 })
	})
}

// The reply to a protocol error comes after earlier replies. A client that wants no replies does not get it. The
// connection ends either way.
func TestProtocolErrorEndsAConnection(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		for before, want := range map[string]string{
			"PING":  "+OK\r\n-ERR Protocol error: expected '$', got 'P'\r\n",
			"QUIET": "+OK\r\n",
		} {
			h := newTestHandler()
			_, addr := serveHandler(t, h, Options{Backend: b})
			p := dial(t, addr)
			p.send(command(before) + "*1\r\nPING\r\n")
			p.expect(want)
			p.expectEnd()
			if h.malformed.Load() != 1 {
				t.Errorf("%s: Malformed was not told", before)
			}
		}
	})
}

// A half-parsed request of a connection that has ended never becomes a part of the next connection's requests, although
// both use the loop's parser.
func TestNextConnectionStartsClean(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		_, addr := serveHandler(t, newTestHandler(), Options{Backend: b})
		for _, last := range []string{
			"*3000000000\r\n",                        // a count out of range
			"*2\r\n$4\r\nECHO\r\nfooz\r\n",           // a length without its sign
			"*2\r\n$4\r\nECHO\r\n$-10\r\n",           // a length out of range
			command("QUIT") + "*3\r\n$4\r\nECHO\r\n", // half a request after the end
		} {
			old := dial(t, addr)
			old.send(last)
			if line, err := old.r.ReadString('\n'); err != nil {
				t.Fatalf("%q: %q, %v", last, line, err)
			}
			p := dial(t, addr)
			p.send(command("ECHO", "clean"))
			p.expect("$5\r\nclean\r\n")
		}
	})
}

// 64 MB arrive in time and memory linear in their size, and the handler may keep them.
func TestBigArgument(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b})
		p := dial(t, addr)
		const size = 12 << 20
		go func() {
			fmt.Fprintf(p, "*2\r\n$4\r\nTAKE\r\n$%d\r\n", size)
			block := bytes.Repeat([]byte{'b'}, 1<<20)
			for range size / len(block) {
				p.Write(block)
			}
			io.WriteString(p, "\r\n"+command("PING"))
		}()
		p.expect("+OK\r\n+OK\r\n")
		if h.taken.Load() != 1 || h.bulkFreed.Load() != h.reserved.Load()-1 { // the earlier memory was freed
			t.Errorf("taken %d, freed %d of %d", h.taken.Load(), h.bulkFreed.Load(), h.reserved.Load())
		}
		if pooled := r.Stats().PooledBytes; pooled > 1<<20 {
			t.Errorf("%d bytes of buffers are left", pooled)
		}
	})
}

// A lent reply is sent piece by piece; its release runs once.
func TestLentReplyIsReleasedOnceWhenSent(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		_, addr := serveHandler(t, h, Options{Backend: b})
		p := dialNarrow(t, addr)
		const size = 8 << 20
		for range 3 {
			p.send(command("PING") + command("BIG", fmt.Sprint(size)) + command("BIG", "5") + command("PING"))
			time.Sleep(10 * time.Millisecond) // the socket fills up
			p.expect(fmt.Sprintf("+OK\r\n$%d\r\n", size))
			if _, err := io.CopyN(io.Discard, p.r, size); err != nil {
				t.Fatal(err)
			}
			p.expect("\r\n$5\r\nxxxxx\r\n+OK\r\n")
		}
		eventually(t, "released", func() bool { return h.lentFreed.Load() == 6 && h.lent.Load() == 6 })
	})
}

func TestLentReplyIsReleasedOnceWhenTheConnectionDies(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b})
		p := dialNarrow(t, addr)
		p.send(command("NAME", "me"))
		p.expect("+OK\r\n")
		me := h.named("me")
		p.send(strings.Repeat(command("BIG", fmt.Sprint(6<<20)), 4))
		eventually(t, "output waits", func() bool { return me.c.Usage().Output > 12<<20 })
		p.Close()
		eventually(t, "all released", func() bool { return r.Stats().Open == 0 && h.lentFreed.Load() == 4 })
		// Later posts to the connection are released, too.
		me.c.PostReply(9999, &protocol.Reply{Lent: []protocol.Lent{{Data: []byte("x"),
			Release: func() { h.lentFreed.Add(1) }}}})
		eventually(t, "the late one too", func() bool { return h.lentFreed.Load() == 5 })
	})
}

// TestLastActiveCountsWrites: a client that only receives, however slowly, is not idle.
func TestLastActiveCountsWrites(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		_, addr := serveHandler(t, h, Options{Backend: b})
		p := dialNarrow(t, addr)
		p.send(command("NAME", "slow"))
		p.expect("+OK\r\n")
		c := h.named("slow").c
		const size = 6 << 20 // more than both sockets hold
		p.send(command("FILL", fmt.Sprint(size)))
		then := int64(0)
		eventually(t, "the socket is full, and nothing counts as activity", func() bool {
			then = c.LastActive()
			waits := c.Usage().Output
			moves := func() bool { return c.Usage().Output != waits || c.LastActive() != then }
			return waits > 0 && !testkit.Holds(20*time.Millisecond, moves)
		})
		p.expect(fmt.Sprintf("$%d\r\n%s\r\n", size, strings.Repeat("y", size)))
		if now := c.LastActive(); now < then+20 {
			t.Errorf("active at %d, %d before the reply was read", now, then)
		}
	})
}
