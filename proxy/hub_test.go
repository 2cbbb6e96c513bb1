package proxy

import (
	"strings"
	"testing"

	"spindle/protocol"
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
