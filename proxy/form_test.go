package proxy

import (
	"fmt"
	"testing"

	"spindle/protocol/respclient"
	"spindle/proxy/route"
)

// TestLongStringInRESP3: a long string from a shard of RESP2 is passed on as it comes, wherever its header is cut. A
// short one, which may be a double, is kept until it is whole.
func TestLongStringInRESP3(t *testing.T) {
	number := func(n int64) respclient.Value { return respclient.Value{Kind: ':', Int: n} }
	get := []respclient.Value{{Kind: '$', Text: "get"}, number(2), {Kind: '*', Elems: []respclient.Value{{Kind: '+',
		Text: "readonly"}}}, number(1), number(1), number(1)}
	table, err := route.Read(respclient.Value{Kind: '*', Elems: []respclient.Value{{Kind: '*', Elems: get}}}, route.Redis)
	if err != nil {
		t.Fatal(err)
	}
	for size, passes := range map[int]bool{1 << 20: true, requestLong: true, 100: false} {
		first := fmt.Sprintf("$%d\r\nx", size)
		for cut := range len(first) { // the first read ends there
			c := newPacing(t)
			c.w.p.commands.Store(table)
			u := c.dial(c.s.access)
			u.old = true
			u.push(call{s: c.s, number: c.s.expect(), slot: -1, row: int32(table.Find([]byte("get")).Number) + 1},
				encode("GET", "k"))
			u.Received([]byte(first[:cut]))
			u.Received([]byte(first[cut:]))
			if u.passing != passes || passes != (c.s.conn.Buffered() == len(first)) {
				t.Errorf("a string of %d bytes, cut at %d, is passed on: %v, %d bytes", size, cut, u.passing,
					c.s.conn.Buffered())
			}
		}
	}
}
