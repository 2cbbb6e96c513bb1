package reactor

import (
	"strings"
	"testing"

	"spindle/protocol"
)

// A nowhere is a host for loops whose turns the test runs itself.
type nowhere struct{}

func (nowhere) wake()            {}
func (nowhere) watchWrite(*conn) {}
func (nowhere) drop(*conn)       {}

// An eager is a testHandler that resumes a connection from within Serve if Serve left a request of the batch unserved.
type eager struct{ *testHandler }

func (e eager) Serve(b *protocol.Batch) {
	e.testHandler.Serve(b)
	if b.Done < len(b.Requests) {
		sessionOf(b.Session).c.Resume()
	}
}

// TestTrafficBeforeTheReplay: a long argument's request was left undone, and its connection is resumed. More bytes
// arrive before the connection comes up in loop.ready. The request is served once, and later requests after it.
func TestTrafficBeforeTheReplay(t *testing.T) {
	long, ping := command("LATER", strings.Repeat("x", protocol.BigBulk)), command("PING")
	for _, tt := range []struct {
		name    string
		handler protocol.Handler
		behind  string // what arrives with the end of the argument
	}{
		{"resumed after the batch", newTestHandler(), ""},
		{"resumed after the batch, more is there", newTestHandler(), ping},
		{"resumed within the batch", eager{newTestHandler()}, ""},
		{"resumed within the batch, more is there", eager{newTestHandler()}, ping},
		{"resumed within the batch, more to replay is there", eager{newTestHandler()}, command("LATER", "y")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Reactor{handler: tt.handler, settings: &Settings{}}
			r.settings.Rows()
			r.gone.Add(1)
			l := newLoop(r, 0)
			l.kit, l.longReplies, l.host = newKit(1), &chunkStore{}, nowhere{}
			c := &conn{}
			c.setLoop(l)
			c.open()
			want := ""
			for range 2 { // the second time shows what is left of the first
				c.OnTraffic([]byte(long[:100]))
				c.OnTraffic([]byte(long[100:] + tt.behind))
				c.Resume()
				l.readMail(nil, 0) // as before another connection's batch
				c.OnTraffic([]byte(ping))
				for range 4 {
					c.goOn()
				}
				want += ":32768\r\n"
				switch tt.behind {
				case ping:
					want += "+OK\r\n"
				case "":
				default:
					want += ":1\r\n"
				}
				want += "+OK\r\n"
			}
			if got := string(c.out.tail.B); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if c.parser != nil || c.replay || c.flow != flowing || c.pending != nil {
				t.Errorf("parser %v, replay %t, flow %d, %d bytes pending", c.parser, c.replay, c.flow, len(c.pending))
			}
		})
	}
}
