package engine

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/protocol"
)

// pushRows are TELL and WAIT. TELL x pushes x to all of the audience and then replies OK. WAIT k waits for a key and
// then does the same.
func pushRows(h **testCore, all *client.Audience) []command.Spec {
	tell := func(c *command.Context, word []byte) {
		p := append(append([]byte("!"), word...), '\r', '\n')
		(*h).PushAll(all, (*h).Here() != nil, p, p)
	}
	return []command.Spec{
		{Name: "tell", Arity: 2, Run: func(c *command.Context) error {
			tell(c, c.Args[1])
			c.Reply.OK()
			return nil
		}},
		{Name: "await", Arity: 2, Run: func(c *command.Context) error {
			c.Core.Block(c, command.Wait{Keys: c.Args[1:2], Retry: func(c *command.Context) error {
				tell(c, []byte("woken"))
				c.Reply.BulkString("woke")
				return nil
			}})
			return nil
		}},
		{Name: "lends", Arity: 1, Run: func(c *command.Context) error {
			tell(c, []byte("first"))
			c.Reply.Array(1)
			c.Core.Lend(c, func(c *command.Context) (bool, error) {
				tell(c, []byte("second"))
				c.Reply.BulkString("over")
				return true, nil
			})
			return nil
		}},
	}
}

// TestPushesComeAfterTheirReply: a command's pushes to its own client come right after its reply, in a transaction
// after the reply of EXEC. The same holds for a command that was parked or has lent the turn. The pushes come even if
// the client wants no replies. Other clients get the pushes by mail.
func TestPushesComeAfterTheirReply(t *testing.T) {
	for _, c := range []struct{ name, ask, answer, mail string }{
		{"in a pipeline", "PING|TELL a|PING|TELL b",
			"+PONG\r\n+OK\r\n!a\r\n+PONG\r\n+OK\r\n!b\r\n", "post !a\r\n; post !b\r\n"},
		{"in a transaction", "MULTI|TELL a|PING|TELL b|EXEC|PING",
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n+PONG\r\n+OK\r\n!a\r\n!b\r\n+PONG\r\n",
			"post !a\r\n; post !b\r\n"},
		{"without replies", "CLIENT REPLY OFF|TELL a|PING|TELL b|CLIENT REPLY ON|PING", "!a\r\n!b\r\n+OK\r\n+PONG\r\n",
			"post !a\r\n; post !b\r\n"},
		{"with one reply less", "CLIENT REPLY SKIP|TELL a|PING", "!a\r\n+PONG\r\n", "post !a\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h *testCore
			var all client.Audience
			h = newTestCore(t, pushRows(&h, &all)...)
			cl, conn := h.arrive()
			other, otherConn := h.arrive()
			h.joins(&all, cl)
			h.joins(&all, other)
			h.expect("answers", h.do(cl, strings.Split(c.ask, "|")...), c.answer)
			h.expect("others", otherConn.take(), c.mail)
			h.expect("mail to itself", conn.take(), "")
		})
	}
	t.Run("parked", func(t *testing.T) {
		var h *testCore
		var all client.Audience
		h = newTestCore(t, pushRows(&h, &all)...)
		cl, conn := h.arrive()
		other, _ := h.arrive()
		h.joins(&all, cl)
		h.joins(&all, other)
		h.do(cl, "AWAIT k")
		h.expect("who wakes it", h.do(other, "PING", "SIGNAL k", "PING"), "+PONG\r\n+OK\r\n!woken\r\n+PONG\r\n")
		h.expect("who was woken", conn.take(), "post $4\r\nwoke\r\n; resume; post !woken\r\n")
	})
	t.Run("lent", func(t *testing.T) {
		var h *testCore
		var all client.Audience
		h = newTestCore(t, pushRows(&h, &all)...)
		cl, conn := h.arrive()
		h.joins(&all, cl)
		h.turn(cl, "PING", "LENDS", "PING")
		var got []string
		eventually(t, "over", func() bool {
			if mail := conn.take(); mail != "" {
				got = append(got, mail)
			}
			return len(got) > 0 && strings.Contains(got[len(got)-1], "resume")
		})
		h.expect("mail", strings.Join(got, "; "), "post *1\r\n$4\r\nover\r\n!first\r\n!second\r\n; resume")
	})
}

// TestPushesReachNoOtherClient: duties and functions of Later push to a client that wants no replies, after the last
// command of its batch. It gets these pushes, and the client of the next turn gets none of them.
func TestPushesReachNoOtherClient(t *testing.T) {
	for _, c := range []struct {
		name, ask string
		ticks     bool
	}{
		{"a duty", "PING", true},
		{"the end of the turn", "ATEND", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h *testCore
			h = newTestCore(t, command.Spec{Name: "atend", Arity: 1, Run: func(c *command.Context) error {
				cl := c.Client
				h.Later(func() { h.Push(cl, []byte("!a\r\n")) })
				return nil
			}})
			cl, conn := h.arrive()
			other, otherConn := h.arrive()
			ticks := false
			h.Subscribe(part.Listeners{Tick: func(int64) {
				if ticks {
					ticks = false
					h.Push(cl, []byte("!a\r\n"))
				}
			}})
			h.do(cl, "CLIENT REPLY OFF")
			ticks = c.ticks
			h.pass(time.Second)
			h.expect("its own", h.do(cl, c.ask), "!a\r\n")
			h.expect("mail to itself", conn.take(), "")
			h.expect("the other's", h.do(other, "PING", "PING"), "+PONG\r\n+PONG\r\n")
			h.expect("mail to the other", otherConn.take(), "")
		})
	}
}

// TestUnheardEventsCostNothing: with all classes of keyspace events enabled, a SET allocates nothing, whether a client
// may get the events or not.
func TestUnheardEventsCostNothing(t *testing.T) {
	h := newTestCore(t)
	h.settings.NotifyEvents.Set(1<<31 - 1)
	heard, published := false, atomic.Int64{}
	h.Subscribe(part.Listeners{
		Heard:   func() bool { return heard },
		Publish: func(channel, payload []byte) { published.Add(1) },
	})
	h.RemoveSink(h.sink)
	cl, _ := h.arrive()
	h.do(cl, "SET k v")
	b := &protocol.Batch{Session: cl, Reply: &protocol.Reply{}}
	b.Requests = []protocol.Request{{Args: [][]byte{[]byte("SET"), []byte("k"), []byte("v")}}}
	for _, heard = range []bool{false, true} {
		if n := testing.AllocsPerRun(100, func() {
			b.Done = 0
			b.Reply.Reset()
			h.duties.at = 1 << 62
			h.Serve(b)
		}); n != 0 {
			t.Errorf("heard %v: %v allocations", heard, n)
		}
		if (published.Load() > 0) != heard {
			t.Errorf("heard %v: %d events published", heard, published.Load())
		}
	}
}

// A mailbag is a loop that keeps the lists of receivers that it is given.
type mailbag struct{ to [][]protocol.Conn }

func (m *mailbag) PostAll(_ uint64, to []protocol.Conn, _ protocol.Conn, _ []byte) {
	m.to = append(m.to, to)
}

// A seated connection is on a loop.
type seated struct {
	*fakeConn
	loop *mailbag
}

func (s seated) Loop() protocol.Loop { return s.loop }

// TestPushEachIsOneMailALoop: clients on two loops get one mail for each loop, and a client named twice is in it twice.
// The client whose command runs gets its push after the reply.
func TestPushEachIsOneMailALoop(t *testing.T) {
	var h *testCore
	var to []*client.Client
	h = newTestCore(t, command.Spec{Name: "tell", Arity: 1, Run: func(c *command.Context) error {
		h.PushEach(append([]*client.Client{c.Client}, to...), []byte("!"))
		c.Reply.OK()
		return nil
	}})
	caller, _ := h.arrive()
	loops := []*mailbag{{}, {}}
	for i := range 6 {
		cl, conn := h.arrive()
		cl.Conn = seated{conn, loops[i%2]}
		to = append(to, cl)
	}
	to = append(to, to[0])
	alone, mail := h.arrive() // on no loop
	to = append(to, alone)
	h.expect("the caller's", h.do(caller, "TELL"), "+OK\r\n!")
	h.expect("who is on no loop", mail.take(), "post !")
	for i, l := range loops {
		want := []protocol.Conn{to[i].Conn, to[i+2].Conn, to[i+4].Conn}
		if i == 0 {
			want = append(want, to[0].Conn)
		}
		if len(l.to) != 1 || !slices.Equal(l.to[0], want) {
			t.Errorf("loop %d was handed %v, want %v in one mail", i, l.to, want)
		}
	}
}
