package reactor

import (
	"strings"
	"testing"

	"spindle/protocol"
)

// A nowhere is a host of loops that a test turns by hand.
type nowhere struct{}

func (nowhere) wake()            {}
func (nowhere) watchWrite(*conn) {}
func (nowhere) drop(*conn)       {}

// TestTrafficBeforeTheReplay: a long argument's request was left undone, and its connection may go on; more bytes arrive before its
// place in turn comes. It is served once, in its order, whoever comes first.
func TestTrafficBeforeTheReplay(t *testing.T) {
	r := &Reactor{handler: newBoard(), settings: &Settings{}}
	r.settings.Rows()
	r.gone.Add(1)
	l := newLoop(r, 0)
	l.kit, l.host = newKit(), nowhere{}
	c := &conn{loop: l}
	c.open()
	long := command("LATER", strings.Repeat("x", protocol.BigBulk))
	for range 2 {
		c.OnTraffic([]byte(long[:100]))
		c.OnTraffic([]byte(long[100:]))
		if !c.held || !c.replay {
			t.Fatalf("held %t, replay %t", c.held, c.replay)
		}
		c.Resume()
		l.readMail(nil, 0) // as before another connection's batch
		c.OnTraffic([]byte(command("PING")))
		c.goOn()
	}
	want := strings.Repeat(":32768\r\n+OK\r\n", 2)
	if got := string(c.out.tail.B); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if c.parser != nil || c.replay || c.held {
		t.Errorf("parser %v, replay %t, held %t", c.parser, c.replay, c.held)
	}
}
