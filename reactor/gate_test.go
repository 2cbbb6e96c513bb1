package reactor

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"spindle/protocol"
)

// TestGateHoldsReplies: nothing that a turn has decided is written before the gate lets that turn pass, and then all of
// it is, in order, however often and in whatever steps the gate opens.
func TestGateHoldsReplies(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		gate := protocol.NewGate()
		h := newBoard()
		var mu sync.Mutex
		durable := uint64(0)
		h.decided = func(turn uint64) { gate.Shut(turn) }
		_, addr := serveBoard(t, h, Options{Backend: backend, Gate: gate, Loops: 2})
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { // the disk
			defer close(done)
			for {
				select {
				case <-stop:
					gate.Open(math.MaxUint64)
					return
				case <-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond):
				}
				h.mu.Lock()
				mu.Lock()
				durable = max(durable, h.turn-min(h.turn, uint64(rand.IntN(3))))
				from := durable + 1
				if durable == h.turn {
					from = math.MaxUint64
				}
				mu.Unlock()
				gate.Open(from)
				h.mu.Unlock()
			}
		}()
		var clients sync.WaitGroup
		for i := range 8 {
			clients.Go(func() {
				c := dial(t, addr)
				for n := range 200 {
					c.send(command("TURN") + command("ECHO", fmt.Sprint(i, n)))
					line := make([]byte, len("+00000000\r\n"))
					if _, err := io.ReadFull(c.r, line); err != nil {
						t.Errorf("client %d, round %d: %v", i, n, err)
						return
					}
					turn, _ := strconv.ParseUint(string(line[1:9]), 10, 64)
					mu.Lock()
					if turn > durable {
						t.Errorf("the reply of turn %d came when %d was durable", turn, durable)
					}
					mu.Unlock()
					text := fmt.Sprint(i, n)
					c.expect(fmt.Sprintf("$%d\r\n%s\r\n", len(text), text))
				}
			})
		}
		clients.Wait()
		close(stop)
		<-done
	})
}
