package proxy

import (
	"testing"

	"spindle/protocol/respclient"
	"spindle/proxy/route"
)

// TestGatheredBytes: the parts of a request's reply that wait for another shard are bytes that the proxy keeps for the
// client.
func TestGatheredBytes(t *testing.T) {
	c := newPacing(t)
	table, err := route.Read(respclient.Value{Elems: []respclient.Value{{Null: true}}}, route.Redis)
	if err != nil {
		t.Fatal(err)
	}
	c.w.p.commands.Store(table)
	g := c.s.gather(&route.Row{Name: "keys", Merge: route.Concat}, 3, 0)
	first, second := c.dial(c.s.access), c.dial(c.s.access)
	for _, u := range []*upstream{first, second} {
		u.push(call{s: c.s, number: g.number, slot: -1, to: &share{of: g}}, encode("KEYS", "*"))
	}
	part := []byte("*1\r\n$3\r\nkey\r\n")
	if first.Received(part); c.s.kept != len(part) {
		t.Errorf("%d bytes are kept after the first part", c.s.kept)
	}
	if second.Received(part); c.s.kept != 2*len(part) {
		t.Errorf("%d bytes are kept after the second part", c.s.kept)
	}
	if g.fail(errNoShard, nil); c.s.kept != 0 || c.s.owed.n != 0 {
		t.Errorf("%d bytes are kept after the last part, %d replies are owed", c.s.kept, c.s.owed.n)
	}
}

// TestUnlikePart: a shard gives one part of a request a reply that the command cannot have. Its connection is closed,
// and with it the request's other part fails. The client gets one reply.
func TestUnlikePart(t *testing.T) {
	c := newPacing(t)
	g := c.s.gather(&route.Row{Name: "del", Merge: route.Sum}, 2, 0)
	u := c.dial(c.s.access)
	for slot := range 2 {
		u.push(call{s: c.s, number: g.number, slot: int32(slot), to: &share{of: g}}, encode("DEL", "k"))
	}
	u.d.(*wire).buffered = 0 // the kernel has taken both
	u.Received([]byte("+OK\r\n"))
	if u.state != down || c.s.kept != 0 || c.s.first != 1 || c.s.owed.n != 0 {
		t.Errorf("%d bytes are kept, %d requests were answered, %d replies are owed", c.s.kept, c.s.first, c.s.owed.n)
	}
}
