package proxy

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol"
	"spindle/proxy/topology"
)

// TestLongMessage: a link does not keep the memory of a long message.
func TestLongMessage(t *testing.T) {
	l := &link{hub: &hub{}, topics: map[topicName]*held{}}
	var r protocol.Reply
	r.Array(3)
	for _, word := range []string{"message", "c", strings.Repeat("x", 4*keptIdle)} {
		r.BulkString(word)
	}
	l.Received(r.B[:len(r.B)/2])
	if len(l.part) != len(r.B)/2 {
		t.Fatalf("%d bytes are kept of %d", len(l.part), len(r.B)/2)
	}
	if l.Received(r.B[len(r.B)/2:]); cap(l.part) > keptIdle {
		t.Errorf("%d bytes are kept after the message", cap(l.part))
	}
}

// A closing is a wire that notes when it is closed.
type closing struct {
	wire
	closed bool
}

func (c *closing) Close(bool) { c.closed = true }

// TestServerThatLeft: the link to any shard is closed after its server has left the cluster. It stays if the server is
// a replica now, which the map may not tell at once.
func TestServerThatLeft(t *testing.T) {
	const primary, replica, gone = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"
	static := topology.NewStatic(16)
	if err := static.Set([]*topology.Shard{{ID: "a", Primary: primary, Replicas: []*topology.Replica{{Addr: replica}}}},
		make([]uint16, 16)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{primary, replica, gone} {
		d := &closing{}
		h := &hub{isBus: true, links: map[linkKey]*link{{}: {at: at, d: d}}, leaves: true}
		if h.follow(static.Current()); d.closed {
			t.Errorf("%s: it is closed at once", at)
		}
		if h.leaveStrangers(); d.closed != (at == gone) {
			t.Errorf("%s: closed is %v", at, d.closed)
		}
	}
}

// TestBusyShard: a shard runs a long script when the hub subscribes again. Clients that have heard the topic stay. One
// that asks for it first is told, as by a server.
func TestBusyShard(t *testing.T) {
	for _, heard := range []bool{true, false} {
		h := newHub(nil, true)
		one := &topic{topicKey: topicKey{topicName: topicName{channelKind, "news"}}}
		if heard {
			one.listeners = map[*worker]map[*session]struct{}{{}: {}}
		}
		h.begin(one)
		l := &link{hub: h, d: &wire{}, topics: map[topicName]*held{}}
		l.topics[one.topicName] = &held{topic: one, retries: true} // a retry is under way: no timer is started
		l.asked = []*held{l.topics[one.topicName]}
		l.take([]byte("-BUSY Redis is busy running a script.\r\n"))
		if stays := h.topics[one.topicKey] == one; stays != heard {
			t.Errorf("it was heard: %v; it stays: %v", heard, stays)
		}
		if !heard {
			continue
		}
		is := l.topics[one.topicName]
		for range 9 {
			l.asked = []*held{is}
			l.take([]byte("-BUSY Redis is busy running a script.\r\n"))
		}
		if pause := is.pause(); pause < 3*time.Second {
			t.Errorf("a shard that is busy for long is asked each %v", pause)
		}
		l.asked = []*held{is}
		l.take([]byte("*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"))
		if pause := is.pause(); pause != pauseFirst*time.Millisecond || !is.confirmed {
			t.Errorf("confirmed: %v, and the next pause is %v", is.confirmed, pause)
		}
	}
}

// BenchmarkAudience counts the receivers of a message on one of 10,000 channels, as PUBLISH does. The time must not
// grow with the channels.
func BenchmarkAudience(b *testing.B) {
	h := newHub(nil, true)
	for i := range 10_000 {
		h.begin(&topic{topicKey: topicKey{topicName: topicName{channelKind, strconv.Itoa(i)}}})
	}
	for b.Loop() {
		h.audience(topicName{channelKind, "7"}, "127.0.0.1:1")
	}
}
