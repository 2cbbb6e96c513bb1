package reactor

import (
	"testing"

	"spindle/protocol"
)

// A lateHandler is a Combiner that publishes all batches. They run when the test calls run.
type lateHandler struct {
	protocol.Handler
	offered chan *protocol.Outbox
}

func (h *lateHandler) Join(ring func()) *protocol.Outbox { return protocol.NewOutbox(ring) }

func (h *lateHandler) Offer(b *protocol.Batch, o *protocol.Outbox) (ran bool) {
	o.Publish(b)
	h.offered <- o
	return false
}

func (h *lateHandler) Help() {}

// run runs the batch that was offered next.
func (h *lateHandler) run() {
	o := <-h.offered
	for b := o.Take(); b != nil; {
		next := b.Next()
		h.Serve(b)
		b.Return()
		b = next
	}
	o.Ring()
}

// stall keeps each loop of r from its work until the test calls goOn.
func stall(r *Reactor) (goOn func()) {
	release := make(chan struct{})
	for _, l := range r.loops {
		stalled := make(chan struct{})
		l.post(mail{kind: mailRun, run: func() { close(stalled); <-release }})
		<-stalled
	}
	return func() { close(release) }
}

// TestPeerGoneWhileItsBatchIsAway: a client sends a request that may wait forever, and leaves. Its
// bytes and its end come in one event, and the batch goes away. The connection ends when the batch is back.
func TestPeerGoneWhileItsBatchIsAway(t *testing.T) {
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			late := &lateHandler{h, make(chan *protocol.Outbox, 1)}
			r, addr := serveHandler(t, late, Options{Backend: b, Loops: 2})
			p := dial(t, addr)
			eventually(t, "the connection to be open", func() bool { return h.opened.Load() == 1 })
			goOn := stall(r)
			p.send(command("LATER", "x"))
			p.Close()
			goOn()
			late.run()
			eventually(t, "Closed", func() bool { return h.closed.Load() == 1 && r.Stats().Open == 0 })
		})
	}
}
