package proxy

import (
	"bytes"
	"testing"

	"spindle/protocol"
	"spindle/protocol/respclient"
	"spindle/proxy/route"
	"spindle/proxy/topology"
)

// TestShortSubcommands: servers before Redis 7 do not tell how many arguments a subcommand has. One without its
// argument has an error for its reply.
func TestShortSubcommands(t *testing.T) {
	c := newPacing(t)
	number := func(n int64) respclient.Value { return respclient.Value{Kind: ':', Int: n} }
	row := respclient.Value{Elems: []respclient.Value{{Text: "script"}, number(-2), {}, number(0), number(0), number(0)}}
	table, err := route.Read(respclient.Value{Elems: []respclient.Value{row}}, route.Redis)
	if err != nil {
		t.Fatal(err)
	}
	c.w.p.commands.Store(table)
	c.w.p.settings.Pose.Set(true)
	c.w.p.settings.Announce.Set("127.0.0.1:6379")
	u := c.dial(c.s.access)
	c.s.access.shared[u.at] = []*upstream{u}
	static := topology.NewStatic(16)
	if err := static.Set([]*topology.Shard{{ID: "a", Primary: u.at}}, make([]uint16, 16)); err != nil {
		t.Fatal(err)
	}
	c.w.topology = static.Current()
	c.s.serve(&protocol.Request{Args: bytes.Fields([]byte("SCRIPT LOAD"))}, nil)
	u.Received([]byte("-ERR wrong number of arguments\r\n"))
	for _, word := range []string{"KEYSLOT", "REPLICAS", "COUNTKEYSINSLOT", "GETKEYSINSLOT"} {
		c.s.cluster([][]byte{[]byte("CLUSTER"), []byte(word)}, nil)
	}
	if c.s.owed.n > 0 || u.calls.n > 0 {
		t.Errorf("%d replies are owed, and %d calls wait", c.s.owed.n, u.calls.n)
	}
}
