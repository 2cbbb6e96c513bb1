package sentinel

import (
	"testing"

	"spindle/protocol/respclient"
)

// TestRefusedSubscription: a server has too many clients and refuses each new subscription. It replies to PING on the
// connection that it has accepted before, so it is not down.
func TestRefusedSubscription(t *testing.T) {
	b := newTestMachine(t, Directive{"auth-pass", "m", "secret"}, Directive{"down-after-milliseconds", "m", "5000"})
	b.pass(2000, "PONG", nil)
	l := b.primaries.list[0].link
	for range 3000 {
		if w := l.channel; w != nil {
			b.Received(w, respclient.Value{Kind: '-', Text: "ERR max number of clients reached"}, b.now)
			b.Lost(w, "closed", b.now)
		}
		b.pass(100, "PONG", nil)
	}
	if b.has("+sdown") || l.pending > 10 {
		t.Errorf("%d replies are awaited; events %v", l.pending, b.q.events)
	}
}
