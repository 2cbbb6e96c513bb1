package route

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"spindle/protocol/respclient"
	"spindle/proxy/route"
	"spindle/tests/testkit"
)

// shards has three servers that share the keys by slot, and one server that has all keys.
type shards struct {
	t       *testing.T
	table   *route.Table
	parts   []*respclient.Client
	whole   *respclient.Client
	byShard []uint16
	gather  route.Gather
	plan    route.Plan
}

// startShards starts three shards and the server with all keys.
func startShards(t *testing.T, kind string, version int) *shards {
	s := &shards{t: t, byShard: make([]uint16, route.Redis.Slots())}
	s.gather.Chance = rand.IntN
	for i := range 4 {
		server := testkit.Launch(t, testkit.Kind(t, kind))
		c, err := respclient.Dial(server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if i == 3 {
			s.whole = c
			s.table = tableOf(t, server)
		} else {
			s.parts = append(s.parts, c)
		}
		if version == 3 {
			c.Must("HELLO", 3)
		}
	}
	for slot := range s.byShard {
		s.byShard[slot] = uint16(slot % 3)
	}
	return s
}

// send sends a part of a call to a shard, and adds the reply to the Gather.
func (s *shards) send(shard int, args [][]byte, keys []int32) {
	var request []any
	for _, a := range args {
		request = append(request, a)
	}
	c := s.parts[shard]
	c.Send(request...)
	_, raw, err := c.ReceiveRaw()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.gather.Add(fmt.Sprint("shard ", shard), keys, raw); err != nil {
		s.t.Errorf("%q: %v", args, err)
	}
}

// do runs a call as a proxy would. It returns the raw reply, and the reply of the server with all keys.
func (s *shards) do(words ...string) (got, want string) {
	var args [][]byte
	var request []any
	for _, w := range words {
		args = append(args, []byte(w))
		request = append(request, w)
	}
	s.whole.Send(request...)
	_, raw, err := s.whole.ReceiveRaw()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &s.plan
	s.table.Plan(args, p)
	switch p.Class {
	case route.Split:
		groups := p.Groups(s.byShard)
		s.gather.Begin(p.Row, len(groups), p.KeyCount)
		slices.Reverse(groups) // replies come in any order
		for _, g := range groups {
			part := [][]byte{args[0]}
			for _, at := range g.Keys {
				part = append(part, args[at:int(at)+p.Step()]...)
			}
			s.send(g.Shard, part, g.Keys)
		}
	case route.All:
		s.gather.Begin(p.Row, len(s.parts), 0)
		for i := range s.parts {
			s.send(i, args, nil)
		}
	case route.Forward:
		shard := 0
		if p.Slot >= 0 {
			shard = int(s.byShard[p.Slot])
		}
		c := s.parts[shard]
		c.Send(request...)
		_, reply, err := c.ReceiveRaw()
		if err != nil {
			s.t.Fatal(err)
		}
		return string(reply), string(raw)
	default:
		s.t.Fatalf("%q is %v: %v", words, p.Class, p.Err)
	}
	return string(s.gather.Append(nil)), string(raw)
}

// TestJoinedRepliesAreThoseOfOneServer: calls over three shards have the same replies as on one server with all keys.
func TestJoinedRepliesAreThoseOfOneServer(t *testing.T) {
	for _, kind := range []string{testkit.Ours, testkit.Redis70} {
		for _, version := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s in RESP%d", kind, version), func(t *testing.T) {
				s := startShards(t, kind, version)
				mset, mget, del := []string{"MSET"}, []string{"MGET"}, []string{"UNLINK"}
				for i := range 100 {
					key := fmt.Sprint("key:", i)
					mset = append(mset, key, fmt.Sprint("value ", i))
					mget = append(mget, key, "nosuch"+key)
					if i%3 == 0 {
						del = append(del, key)
					}
				}
				for _, call := range [][]string{
					mset, mget, {"DBSIZE"}, {"EXISTS", "key:1", "key:1", "key:2", "x"}, {"TOUCH", "key:5", "y"}, del, mget, {"DBSIZE"},
					{"DEL", "key:1", "key:2", "key:2", "key:7"}, {"MGET", "key:4"}, {"MGET", "{a}1", "{a}2"}, {"SET", "solo", "1"},
					{"SADD", "set", "a"}, {"MGET", "set", "solo", "key:8"}, {"SCRIPT", "LOAD", "return 1"},
					{"SCRIPT", "KILL"},
					{"FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)"},
					{"FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)"},
					{"FUNCTION", "STATS"}, {"FUNCTION", "DELETE", "nosuch"}, {"FUNCTION", "DELETE", "l"}, {"FUNCTION", "KILL"},
					{"WAIT", "0", "10"}, {"FLUSHALL", "bad"}, {"SCRIPT", "FLUSH", "SYNC"},
				} {
					if got, want := s.do(call...); got != want {
						t.Errorf("%.60q: %q\none server says %q", call, got, want)
					}
				}
				s.checkKeys(t)
				s.do("SCRIPT", "LOAD", "return 1")
				// If the number equals the number of shards, all have the script, and a proxy replies 1 in its place.
				have, _ := s.do("SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", strings.Repeat("0", 40))
				if want := "*2\r\n:3\r\n:0\r\n"; have != want {
					t.Errorf("%q shards have the scripts, want %q", have, want)
				}
				for _, call := range [][]string{{"FLUSHDB"}, {"DBSIZE"}, {"KEYS", "*"}, {"RANDOMKEY"}, {"FLUSHALL", "ASYNC"}} {
					if got, want := s.do(call...); got != want {
						t.Errorf("%q: %q\none server says %q", call, got, want)
					}
				}
			})
		}
	}
}

// checkKeys compares the replies of KEYS, which have no fixed order, and of RANDOMKEY.
func (s *shards) checkKeys(t *testing.T) {
	got, want := s.do("KEYS", "*")
	names := strings.Split(got, "\r\n")
	wanted := strings.Split(want, "\r\n")
	if len(names) < 50 || names[0] != wanted[0] {
		t.Errorf("KEYS begins with %q of %d lines; one server says %q", names[0], len(names), wanted[0])
	}
	slices.Sort(names)
	slices.Sort(wanted)
	if !slices.Equal(names, wanted) {
		t.Errorf("KEYS: %q\none server says %q", names, wanted)
	}
	drawn := map[string]bool{}
	for range 200 {
		key, _ := s.do("RANDOMKEY")
		if !slices.Contains(names, strings.Split(key, "\r\n")[1]) {
			t.Errorf("RANDOMKEY: %q is no key", key)
		}
		drawn[key] = true
	}
	if len(drawn) < 10 {
		t.Errorf("RANDOMKEY drew only %d keys of %d", len(drawn), len(names)/2)
	}
}

// TestFailedPartIsNamed: if one shard refuses its part of a write, the error names the shard, and tells how many shards
// did their part.
func TestFailedPartIsNamed(t *testing.T) {
	s := startShards(t, testkit.Ours, 2)
	s.parts[1].Must("CONFIG", "SET", "maxmemory", "1")
	call := []string{"MSET"}
	for i := range 30 {
		call = append(call, fmt.Sprint(i), "v")
	}
	got, _ := s.do(call...)
	if !strings.HasPrefix(got, "-OOM ") || !strings.HasSuffix(got, " (shard shard 1; done by 2 of 3 shards)\r\n") {
		t.Errorf("MSET: %q", got)
	}
	for i := range 3 {
		if n := s.parts[i].Must("DBSIZE").Int; (n > 0) != (i != 1) {
			t.Errorf("shard %d has %d keys", i, n)
		}
	}
	if _, raw := s.do("DBSIZE"); !bytes.HasPrefix([]byte(raw), []byte(":")) {
		t.Errorf("DBSIZE: %q", raw)
	}
}
