package reactor

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"spindle/protocol"
)

// pongHandler replies +PONG to everything, to measure the cost of the loops alone.
type pongHandler struct{ turn atomic.Uint64 }

func (h *pongHandler) Open(c protocol.Conn) (any, []byte) { return c, nil }
func (h *pongHandler) Malformed(session any, err *protocol.Error) protocol.Verdict {
	return protocol.Tell
}
func (h *pongHandler) Closed(session any)                                 {}
func (h *pongHandler) Reserve(any, int) (*protocol.Bulk, *protocol.Error) { return nil, nil }
func (h *pongHandler) Serve(b *protocol.Batch) {
	for i := range b.Requests {
		switch args := b.Requests[i].Args; {
		case bytes.EqualFold(args[0], []byte("config")):
			b.Reply.B = append(b.Reply.B, "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"...)
		default:
			b.Reply.B = append(b.Reply.B, "+PONG\r\n"...)
		}
	}
	b.Done = len(b.Requests)
	b.Turn = h.turn.Add(1)
}

// TestPongServer serves until killed, for a load generator: PONG=gnet:21150[:loops] go test -run PongServer ./reactor
func TestPongServer(t *testing.T) {
	spec := os.Getenv("PONG")
	if spec == "" {
		t.Skip("a server for load generators, not a test: PONG=gnet:21150 starts it")
	}
	words := strings.Split(spec, ":")
	port, _ := strconv.Atoi(words[1])
	loops := 1
	if len(words) > 2 {
		loops, _ = strconv.Atoi(words[2])
	}
	r, err := New(Options{
		Handler: &pongHandler{}, Backend: backendNamed(words[0]), Bind: []string{"127.0.0.1"}, Port: port, Loops: loops,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Serve()
	select {} // the test kills this process
}

func backendNamed(name string) Backend {
	for b := Gnet; b <= IOUring; b++ {
		if b.String() == name {
			return b
		}
	}
	return -1
}
