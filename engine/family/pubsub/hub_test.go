package pubsub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/glob"
	"spindle/protocol"
)

// A mailbox is a connection that stores its messages.
type mailbox struct {
	protocol.Conn
	loop  *loop
	class protocol.Class
	got   []string
}

func (m *mailbox) Loop() protocol.Loop {
	if m.loop == nil {
		return nil
	}
	return m.loop
}
func (m *mailbox) SetClass(c protocol.Class)  { m.class = c }
func (m *mailbox) Post(_ uint64, p []byte)    { m.got = append(m.got, string(p)) }
func (m *mailbox) take() (got string)         { got = strings.Join(m.got, ""); m.got = nil; return got }
func message(resp3 bool, words ...any) string { return string(reply(resp3, words...).B) }

func reply(resp3 bool, words ...any) *protocol.Reply {
	r := &protocol.Reply{RESP3: resp3}
	r.Push(len(words))
	for _, w := range words {
		if n, ok := w.(int); ok {
			r.Int(int64(n))
		} else {
			r.BulkString(w.(string))
		}
	}
	return r
}

// A loop delivers its mail when the test says so. Until then the posted lists must not change.
type loop struct{ mail []func() }

func (l *loop) PostAll(_ uint64, to []protocol.Conn, except protocol.Conn, p []byte) {
	l.mail = append(l.mail, func() {
		for _, c := range to {
			if c != except {
				c.Post(0, p)
			}
		}
	})
}

func (l *loop) read() {
	for _, f := range l.mail {
		f()
	}
	l.mail = nil
}

// noCore delivers pushes at once.
type noCore struct{}

func (noCore) Here() *client.Client             { return nil }
func (noCore) Push(cl *client.Client, p []byte) { cl.Conn.Post(0, p) }
func (noCore) PushAll(to *client.Audience, _ bool, resp2, resp3 []byte) {
	to.Send(0, nil, resp2, resp3)
}

// A listener models a client.
type listener struct {
	cl   *client.Client
	box  *mailbox
	of   [kinds][]string // in the order of subscription
	want []string        // messages in the order of publishing; those of several patterns for one message are sorted
}

// TestHubAgainstAModel runs random subscriptions, messages, protocol changes and departures of clients on two loops.
// Each client gets each message of its subscriptions once, in order, in its protocol. The counts, flags, limits and
// memory are right.
func TestHubAgainstAModel(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		h := NewHub(noCore{})
		loops := []*loop{{}, {}}
		var all []*listener
		names := []string{"a", "ab", "b", "", "a*", "*", "?"}
		receive := func() {
			for _, l := range loops {
				l.read()
			}
			for i, c := range all {
				got := strings.Join(c.box.got, "")
				if want := strings.Join(c.want, ""); got != want {
					t.Fatalf("seed %d: client %d got\n%q, want\n%q", seed, i, got, want)
				}
				c.box.got, c.want = nil, nil
			}
		}
		for range 4000 {
			if len(all) < 3 || rng.IntN(20) == 0 && len(all) < 12 {
				box := &mailbox{loop: loops[rng.IntN(2)]}
				all = append(all, &listener{cl: &client.Client{Conn: box, Protocol: 2 + rng.IntN(2)}, box: box})
			}
			i := rng.IntN(len(all))
			c, name := all[i], names[rng.IntN(len(names))]
			k := Kind(rng.IntN(int(kinds)))
			at := slices.Index(c.of[k], name)
			ctx := &command.Context{Client: c.cl, Reply: &protocol.Reply{RESP3: c.cl.Protocol == 3},
				Spec: &command.Spec{Name: "subscribe"},
				Args: [][]byte{[]byte("it"), []byte(name)}}
			switch rng.IntN(8) {
			case 0, 1:
				if h.listen(ctx, k); at < 0 {
					c.of[k] = append(c.of[k], name)
				}
			case 2:
				if h.unlisten(ctx, k); at >= 0 {
					c.of[k] = slices.Delete(c.of[k], at, at+1)
				}
			case 3:
				if rng.IntN(4) == 0 {
					ctx.Args = ctx.Args[:1]
					h.unlisten(ctx, k)
					c.of[k] = nil
				}
			case 4:
				receive()
				c.cl.Protocol = 5 - c.cl.Protocol
				h.Speaks(c.cl)
			case 5:
				if rng.IntN(4) == 0 {
					receive()
					h.Forget(c.cl)
					c.of = [kinds][]string{}
					all = slices.Delete(all, i, i+1)
				}
			default:
				text := fmt.Sprint(rng.Uint32())
				n := 0
				for _, l := range all {
					if slices.Contains(l.of[Channel], name) {
						l.want = append(l.want, message(l.cl.Protocol == 3, "message", name, text))
						n++
					}
				}
				for _, topic := range h.patterns {
					for _, l := range all {
						if slices.Contains(l.of[Pattern], topic.name) && glob.Match([]byte(topic.name), []byte(name)) {
							l.want = append(l.want, message(l.cl.Protocol == 3, "pmessage", topic.name, name, text))
							n++
						}
					}
				}
				if got := h.Publish([]byte(name), []byte(text)); got != n {
					t.Fatalf("seed %d: %d receivers, want %d", seed, got, n)
				}
			}
			channels, patterns, shards := h.Count(c.cl)
			if channels != len(c.of[0]) || patterns != len(c.of[1]) || shards != len(c.of[2]) {
				t.Fatalf("seed %d: counts %d %d %d, want %v", seed, channels, patterns, shards, c.of)
			}
			for k, name := range h.Names(c.cl) {
				if !slices.Contains(c.of[k], name) {
					t.Fatalf("seed %d: subscribed to %q, want %v", seed, name, c.of)
				}
			}
			subscribed := channels+patterns+shards > 0
			if c.cl.Is(client.PubSub) != subscribed || (c.cl.FamilyBytes > 0) != subscribed ||
				(c.box.class == protocol.ClassPubSub) != subscribed {
				t.Fatalf("seed %d: flags %v, kept %d, class %v with %v", seed, c.cl.Flags, c.cl.FamilyBytes, c.box.class, c.of)
			}
			if rng.IntN(5) == 0 {
				receive()
			}
		}
		receive()
		for _, c := range all {
			h.Forget(c.cl)
		}
		if len(h.subscribers) != 0 || h.Len(Channel)+h.Len(Pattern)+h.Len(Shard) != 0 || len(h.patterns) != 0 || h.Heard() {
			t.Fatalf("seed %d: something stayed: %v", seed, h)
		}
	}
}

// TestUnheardMessagesCostNothing: a message without subscribers allocates nothing.
func TestUnheardMessagesCostNothing(t *testing.T) {
	h := NewHub(noCore{})
	box := &mailbox{}
	h.join(&client.Client{Conn: box, Protocol: 2}, Pattern, []byte("other*"))
	channel, payload := []byte("channel"), []byte("payload")
	if n := testing.AllocsPerRun(100, func() { h.Publish(channel, payload) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
