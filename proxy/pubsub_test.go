package proxy

import (
	"testing"

	"spindle/protocol"
)

// A classed is a wire that notes its class.
type classed struct {
	wire
	class protocol.Class
}

func (c *classed) SetClass(class protocol.Class) { c.class = class }

// TestLastUnsubscribe: after its last subscription a client is one without any, with the output limit of those.
func TestLastUnsubscribe(t *testing.T) {
	c := newPacing(t)
	d := &classed{class: protocol.ClassPubSub}
	c.s.conn = d
	c.s.subs()
	c.s.unsubscribe(channelKind, [][]byte{[]byte("UNSUBSCRIBE"), []byte("news")})
	if c.s.sub != nil || d.class != protocol.ClassNormal {
		t.Errorf("it has subscriptions: %v; its class is %d", c.s.sub != nil, d.class)
	}
}
