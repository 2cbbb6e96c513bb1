package reactor

import (
	"bytes"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol"
)

// A slowHandler spends a tenth of a millisecond on each batch.
type slowHandler struct{ pongHandler }

func (h *slowHandler) Serve(b *protocol.Batch) {
	for begin := time.Now(); time.Since(begin) < time.Millisecond/10; {
	}
	b.Done = len(b.Requests)
	b.Turn = h.turn.Add(1)
}

// A loop that always finds something to read still lets other goroutines run, although there is only one thread for
// all.
func TestBusyLoopYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	h := &slowHandler{}
	_, addr := serveHandler(t, h, Options{Backend: Gnet, Loops: 1})
	pings := bytes.Repeat([]byte("PING\r\n"), 1<<20/6)
	var ended atomic.Bool
	for range 8 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			for !ended.Load() {
				if _, err := c.Write(pings); err != nil {
					return
				}
			}
		}()
	}
	eventually(t, "100 turns", func() bool { return h.turn.Load() >= 100 })
	from, last, runs := h.turn.Load(), h.turn.Load(), 0
	for last < from+2000 {
		if n := h.turn.Load(); n != last {
			last = n
			runs++
		}
		runtime.Gosched()
	}
	ended.Store(true)
	if batches := int(last - from); runs < batches/40 {
		t.Errorf("others ran %d times while the loop served %d batches of 100 µs", runs, batches)
	}
}
