package reactor

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"spindle/internal/invariant"
	"spindle/protocol"
)

// joinReceivers connects n peers and gives them names, so that FAN reaches them.
func joinReceivers(t *testing.T, h *testHandler, addr string, n int) (peers []*peer) {
	receivers := map[protocol.Loop][]protocol.Conn{}
	for i := range n {
		p, name := dial(t, addr), fmt.Sprint("p", i)
		p.send(command("NAME", name))
		p.expect("+OK\r\n")
		s := h.named(name)
		h.mu.Lock()
		s.stays = true
		peers, receivers[s.c.Loop()] = append(peers, p), append(receivers[s.c.Loop()], s.c)
		h.mu.Unlock()
	}
	h.mu.Lock()
	h.receivers = receivers
	h.mu.Unlock()
	return peers
}

// TestMessageForManyIsMadeOnce: a message for a thousand connections leases no reply buffers, because all share its
// bytes.
func TestMessageForManyIsMadeOnce(t *testing.T) {
	const clients, messages = 10 * crowd, 8
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			r, addr := serveHandler(t, h, Options{Backend: b})
			peers := joinReceivers(t, h, addr, clients)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			peers[0].send(strings.Repeat(command("FAN"), messages))
			peers[0].expect(strings.Repeat("+FAN\r\n", messages))
			for _, p := range peers[1:] {
				for i := range messages {
					p.expect(fmt.Sprintf("#%08d\n", i+1))
				}
			}
			runtime.ReadMemStats(&after)
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(clients*1024); got > most {
				t.Errorf("%d bytes allocated for %d receivers, want %d at most", got, clients, most)
			}
			if mail := r.Stats().MailBytes; mail != 0 {
				t.Errorf("%d bytes of mail are counted when all has been read", mail)
			}
		})
	}
}

// TestMessagesForOneShareABuffer: messages of one batch for one connection are joined in a buffer that already exists.
func TestMessagesForOneShareABuffer(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			_, addr := serveHandler(t, h, Options{Backend: b})
			hears, says := joinReceivers(t, h, addr, 1)[0], dial(t, addr)
			const batch, rounds = 16, 400
			ask := []byte(strings.Repeat(command("FAN"), batch))
			heard, told := make([]byte, batch*len("#00000001\n")), make([]byte, batch*len("+FAN\r\n"))
			round := func() {
				says.Write(ask)
				if _, err := io.ReadFull(says, told); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(hears, heard); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				round()
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range rounds {
				round()
			}
			runtime.ReadMemStats(&after)
			each := float64(after.Mallocs-before.Mallocs)/rounds - 2*batch // fmt makes two for each message
			t.Logf("%.2f allocations a batch beside the messages", each)
			if each > 0.2 {
				t.Errorf("%.2f allocations a batch beside the messages", each)
			}
		})
	}
}

// TestMessagesForManyKeepTheirOrder: replies and messages for many reach each connection in the order of their turns.
// None is lost or doubled, on one loop and on two.
func TestMessagesForManyKeepTheirOrder(t *testing.T) {
	const clients, rounds = 6, 300
	eachLink(t, func(t *testing.T, b Backend) {
		for loops := 1; loops <= 2; loops++ {
			h := newTestHandler()
			_, addr := serveHandler(t, h, Options{Backend: b, Loops: loops})
			peers := joinReceivers(t, h, addr, clients)
			fans, own := 0, make([]int, clients) // numbers that all get but the asker; what the peer itself asked for
			plan := make([]string, clients)
			rng := rand.New(rand.NewPCG(1, uint64(loops)))
			fanned := make([]int, clients)
			for i := range clients {
				for range rounds {
					if rng.IntN(2) == 0 {
						plan[i] += command("FAN")
						fans++
						fanned[i]++
					} else {
						plan[i] += command("COUNT")
						own[i]++
					}
				}
			}
			for i, p := range peers {
				go func() {
					for text := plan[i]; text != ""; {
						n := min(len(text), 16*len(command("COUNT")))
						p.Conn.Write([]byte(text[:n]))
						text = text[n:]
					}
				}()
			}
			for i, p := range peers {
				last, seen, told := 0, 0, 0
				for seen < fans-fanned[i]+own[i] || told < fanned[i] {
					line, err := p.r.ReadString('\n')
					if err != nil {
						t.Fatalf("peer %d has seen %d numbers and %d replies: %v", i, seen, told, err)
					}
					if line == "+FAN\r\n" {
						told++
						continue
					}
					n := 0
					if _, err := fmt.Sscanf(line, "#%08d", &n); err != nil || n <= last {
						t.Fatalf("peer %d: %q after %d", i, line, last)
					}
					last = n
					seen++
				}
			}
		}
	})
}

// TestMessagesOfOneIterationLeaveTogether: the messages of several senders that are ready at once reach each receiver
// in one write, however many receivers there are.
func TestMessagesOfOneIterationLeaveTogether(t *testing.T) {
	const clients, senders, rounds = 2 * crowd, 8, 4
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			r, addr := serveHandler(t, h, Options{Backend: b})
			peers := joinReceivers(t, h, addr, clients)
			before, said := r.Stats().Writes, 0
			for range rounds { // gnet begins to gather after the first
				h.mu.Lock() // the loop stays in its first batch until all have asked
				for _, p := range peers[:senders] {
					p.send(command("FAN"))
				}
				h.mu.Unlock()
				for i, p := range peers {
					want := senders
					if i < senders {
						want = senders - 1
					}
					for got, replied := 0, i >= senders; got < want || !replied; {
						line, err := p.r.ReadString('\n')
						if err != nil {
							t.Fatal(err)
						}
						if line == "+FAN\r\n" {
							replied = true
						} else {
							got++
						}
					}
				}
				said += senders
			}
			// The first batch of a round may be written alone, and so may the first round.
			if writes, most := r.Stats().Writes-before, int64((2*rounds+senders)*clients); writes > most {
				t.Errorf("%d writes of %d messages to %d receivers, want %d at most", writes, said, clients, most)
			}
		})
	}
}
