package reactor

import (
	"strings"
	"testing"
	"time"

	"spindle/protocol"
)

// TestFullMailboxSlowsItsSender: while a loop does not read its mail, connections that have filled its box past the
// bound wait some milliseconds before each batch. Stats show the bytes held. The waits end when the loop reads again.
func TestFullMailboxSlowsItsSender(t *testing.T) {
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			h.stuck = make(chan struct{})
			r, addr := serveHandler(t, h, Options{Backend: b, Loops: 2})
			peers := joinReceivers(t, h, addr, 2)
			loops := [2]protocol.Loop{h.named("p0").c.Loop(), h.named("p1").c.Loop()}
			if loops[0] == loops[1] {
				t.Fatal("both are on one loop")
			}
			peers[1].send("*2\r\n$4\r\nTAKE\r\n$1000000\r\n" + strings.Repeat("x", 1000)) // blocks its loop in Reserve
			eventually(t, "a loop that is stuck", func() bool { return h.reserved.Load() == 1 })

			const batch = 1000
			for r.Stats().MailBytes <= mailMost {
				peers[0].send(strings.Repeat(command("FAN"), batch))
				peers[0].expect(strings.Repeat("+FAN\r\n", batch))
			}
			fan := func() time.Duration {
				began := time.Now()
				for range 3 { // a batch waits after its replies, so the next one's replies come late
					peers[0].send(command("FAN"))
					peers[0].expect("+FAN\r\n")
				}
				return time.Since(began) / 3
			}
			if took := fan(); took < slowSteps*time.Millisecond/2 {
				t.Errorf("a message past the bound took %v, want some %d ms", took, slowSteps)
			}
			if held := r.Stats().MailBytes; held > mailMost+4*batch*(mailBytes+10) {
				t.Errorf("%d bytes of mail, bound %d", held, mailMost)
			}
			close(h.stuck)
			peers[1].send(strings.Repeat("x", 999_000) + "\r\n")
			eventually(t, "the mail to be read", func() bool { return r.Stats().MailBytes == 0 })
			eventually(t, "messages to be quick again", func() bool { return fan() < slowSteps*time.Millisecond/2 })
			if n := r.brimful.Load(); n != 0 {
				t.Errorf("%d mailboxes are said to be full", n)
			}
		})
	}
}
