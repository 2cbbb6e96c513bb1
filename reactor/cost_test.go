package reactor

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
)

// Nothing on the way of a request allocates in steady state, also when gnet gathers many connections.
func TestRequestsDoNotAllocate(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			_, addr := serveHandler(t, &pongHandler{}, Options{Backend: b})
			var fds [24]int // enough to gather, and fewer than gnet's list of events has to grow for
			for i := range fds {
				fds[i] = rawDial(t, addr)
				defer unix.Close(fds[i])
			}
			ask := []byte(strings.Repeat(command("PING"), 3))
			half := len(ask)/2 + 3
			answer := make([]byte, 64)
			round := func() {
				for _, fd := range fds {
					unix.Write(fd, ask[:half]) // the rest waits in a chunk
					unix.Write(fd, ask[half:])
				}
				for _, fd := range fds {
					for got := 0; got < 3*len("+PONG\r\n"); {
						n, err := unix.Read(fd, answer)
						if err != nil || n == 0 {
							t.Fatal(n, err)
						}
						got += n
					}
				}
			}
			for range 100 {
				round()
			}
			// On a busy host the loop seems idle at times and registers with the runtime's poller, which allocates. An
			// allocation on the way of a request or of a gathered batch is in each lot of rounds, so the least counts.
			const lots, rounds = 40, 10
			each := math.Inf(1)
			for range lots {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range rounds {
					round()
				}
				runtime.ReadMemStats(&after)
				each = min(each, float64(after.Mallocs-before.Mallocs)/(rounds*float64(len(fds))*3))
			}
			t.Logf("%.4f allocations a request", each)
			if each > 0.002 {
				t.Errorf("%.4f allocations a request", each)
			}
		})
	}
}

// An idle loop that keeps its P in a raw wait delays neither the collector nor other goroutines.
func TestIdleLoopsDelayNoGoroutine(t *testing.T) {
	for _, b := range []Backend{Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			_, addr := serveHandler(t, newTestHandler(), Options{Backend: b, Loops: 3})
			p := dial(t, addr)
			for range 5 {
				p.send(command("PING"))
				p.expect("+OK\r\n")
				start := time.Now()
				runtime.GC()
				done := make(chan struct{})
				time.AfterFunc(time.Millisecond, func() { close(done) })
				<-done
				if took := time.Since(start); took > 10*time.Second {
					t.Fatalf("a collection and a timer took %v", took)
				}
			}
		})
	}
}
