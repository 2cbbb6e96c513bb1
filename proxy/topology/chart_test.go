package topology

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
)

// value makes a reply from text: words are strings, numbers are integers, - is null, and brackets are arrays.
func value(t testing.TB, s string) respclient.Value {
	t.Helper()
	s = strings.NewReplacer("[", " [ ", "]", " ] ").Replace(s)
	stack := []respclient.Value{{Kind: '*'}}
	for _, w := range strings.Fields(s) {
		top := &stack[len(stack)-1]
		var n int64
		switch _, err := fmt.Sscanf(w, "%d", &n); {
		case w == "[":
			stack = append(stack, respclient.Value{Kind: '*'})
		case w == "]":
			stack = stack[:len(stack)-1]
			stack[len(stack)-1].Elems = append(stack[len(stack)-1].Elems, *top)
		case w == "-":
			top.Elems = append(top.Elems, respclient.Value{Kind: '$', Null: true})
		case err == nil && fmt.Sprint(n) == w:
			top.Elems = append(top.Elems, respclient.Value{Kind: ':', Int: n})
		default:
			top.Elems = append(top.Elems, respclient.Value{Kind: '$', Text: strings.Trim(w, "'")})
		}
	}
	if len(stack) != 1 {
		t.Fatalf("brackets of %q", s)
	}
	return stack[0]
}

// describe returns a Map as text: its shards with their replicas, and ranges of slots.
func describe(m *Map) string {
	if m == nil {
		return "none"
	}
	var out strings.Builder
	for i, s := range m.Shards {
		fmt.Fprintf(&out, "%s=%s", s.ID, s.Primary)
		if s.Failed {
			out.WriteString("!")
		}
		for _, r := range s.Replicas {
			fmt.Fprintf(&out, "+%s", r.Addr)
		}
		for slot := 0; slot < len(m.owners); slot++ {
			if int(m.owners[slot]) != i {
				continue
			}
			first := slot
			for slot+1 < len(m.owners) && int(m.owners[slot+1]) == i {
				slot++
			}
			fmt.Fprintf(&out, " %d-%d", first, slot)
		}
		out.WriteString("; ")
	}
	return strings.TrimSuffix(out.String(), "; ")
}

// shard returns a shard of CLUSTER SHARDS as text: its slots and its nodes, each "ID HOST PORT ROLE HEALTH".
func shard(slots string, nodes ...string) string {
	out := "[slots [" + slots + "] nodes ["
	for _, n := range nodes {
		w := strings.Fields(n)
		out += fmt.Sprintf("[id %s port %s ip %s endpoint %s role %s replication-offset 0 health %s]", w[0], w[2], w[1],
			w[1], w[3], w[4])
	}
	return out + "]]"
}

func TestShardsAreRead(t *testing.T) {
	for _, c := range []struct {
		name, reply string
		tls         bool
		want        string
	}{
		{name: "two shards", reply: shard("0 100 200 300", "a h1 1 master online", "b h2 2 replica online") +
			shard("1000 2000", "c h3 3 master online"), want: "a=h1:1+h2:2 0-100 200-300; c=h3:3 1000-2000"},
		{name: "a shard without slots is left out", reply: shard("", "a h1 1 master online") + shard("1 1",
			"c h3 3 master online"), want: "c=h3:3 1-1"},
		{name: "no host: the one that was asked", reply: shard("0 1", "a '' 1 master online", "b - 2 replica online"),
			want: "a=asked:1+asked:2 0-1"},
		{name: "IPv6", reply: shard("0 1", "a ::1 1 master online"), want: "a=[::1]:1 0-1"},
		{name: "a host name",
			reply: "[slots [0 1] nodes [[id a port 1 ip 10.0.0.1 endpoint db1.example role master health online]]]",
			want:  "a=db1.example:1 0-1"},
		{name: "an unknown host name",
			reply: "[slots [0 1] nodes [[id a port 1 ip 10.0.0.1 endpoint ? role master health online]]]",
			want:  "a=10.0.0.1:1 0-1"},
		{name: "an unknown host name and no address",
			reply: "[slots [0 1] nodes [[id a port 1 ip '' endpoint ? role master health online]]]", want: "a=asked:1 0-1"},
		{name: "ports for TLS", tls: true,
			reply: "[slots [0 1] nodes [[id a port 1 tls-port 2 ip h endpoint h role master health online]]]",
			want:  "a=h:2 0-1"},
		{name: "TLS without such a port", tls: true,
			reply: "[slots [0 1] nodes [[id a port 1 ip h endpoint h role master health online]]]", want: "a=h:1 0-1"},
		{name: "a primary in fail", reply: shard("0 1", "a h1 1 master fail", "b h2 2 replica online"),
			want: "a=h1:1!+h2:2 0-1"},
		{name: "a replica in fail", reply: shard("0 1", "a h1 1 master online", "b h2 2 replica fail"), want: "a=h1:1 0-1"},
		{name: "two primaries, the first in fail", reply: shard("0 1", "a h1 1 master fail", "b h2 2 master online"),
			want: "b=h2:2 0-1"},
		{name: "no primary", reply: shard("0 1", "a h1 1 replica online") + shard("2 3", "b h2 2 master online"),
			want: "b=h2:2 2-3"},
		{name: "a port of 0", reply: shard("0 1", "a h1 0 master online") + shard("2 3", "b h2 2 master online"),
			want: "b=h2:2 2-3"},

		{name: "no slots at all", reply: shard("", "a h1 1 master online"), want: "it knows of no slot that a node serves"},
		{name: "an empty reply", want: "it knows of no slot that a node serves"},
		{name: "words", reply: "a b [c]", want: "it knows of no slot that a node serves"},
		{name: "a slot too high", reply: shard("0 16384", "a h1 1 master online"), want: "it knows of the slots 0 to 16384"},
		{name: "a slot too low", reply: shard("-1 5", "a h1 1 master online"), want: "it knows of the slots -1 to 5"},
		{name: "a range backwards", reply: shard("5 4", "a h1 1 master online"), want: "it knows of the slots 5 to 4"},
		{name: "two owners", reply: shard("0 5", "a h1 1 master online") + shard("5 9", "b h2 2 master online"),
			want: "it says that slot 5 has two owners"},
		{name: "one primary of two shards", reply: shard("0 5", "a h1 1 master online") + shard("6 9",
			"b h1 1 master online"), want: "it says that h1:1 is the primary of two shards"},
	} {
		v, err := readShards(value(t, c.reply), "asked:7000", c.tls)
		got := fmt.Sprint(err)
		if err == nil {
			var chart chart
			m, _, err := chart.take(v, "", time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			got = describe(m)
		}
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestCrowdedShards: replies as those of Redis 7.4.1, with two primaries in a shard. CLUSTER SHARDS lacks slots, and
// CLUSTER SLOTS has them. A failed primary in the first marks the shard of the second.
func TestCrowdedShards(t *testing.T) {
	others := shard("12288 16383", "f h3 3 master fail")
	for _, c := range []struct{ name, shards, slots, want string }{
		{"a replica was reset and got slots", shard("0 8191", "a h1 1 master online", "b h2 2 master online"),
			"[0 8191 [h1 1 a []]] [8192 12287 [h2 2 b []]] [12288 16383 [h3 3 f []]]",
			"a=h1:1 0-8191; b=h2:2 8192-12287; f=h3:3! 12288-16383"},
		{"a primary died", shard("", "a h1 1 master fail", "b h2 2 master online"),
			"[0 12287 [h2 2 b []]] [12288 16383 [h3 3 f []]]", "b=h2:2 0-12287; f=h3:3! 12288-16383"},
	} {
		before, err := readShards(value(t, c.shards+others), "asked:7000", false)
		if err != nil || !before.crowded {
			t.Errorf("%s: crowded is %t (%v)", c.name, before.crowded, err)
		}
		v, err := readSlots(value(t, c.slots), "asked:7000")
		if err != nil {
			t.Fatal(err)
		}
		v.markFailed(before.shards)
		var chart chart
		m, _, err := chart.take(v, "", time.Time{})
		if got := describe(m); err != nil || got != c.want {
			t.Errorf("%s: %s (%v)\nwant %s", c.name, got, err, c.want)
		}
	}
	reply := value(t, shard("0 1", "a h1 1 master fail", "b h2 2 replica online")+others)
	if v, _ := readShards(reply, "", false); v.crowded {
		t.Error("a shard with a replica counts as crowded")
	}
}

func TestSlotsAreRead(t *testing.T) {
	for _, c := range []struct{ name, reply, want string }{
		{"two shards", "[0 100 [h1 1 a] [h2 2 b]] [200 300 [h1 1 a] [h2 2 b]] [101 199 [h3 3 c []]]",
			"a=h1:1+h2:2 0-100 200-300; c=h3:3 101-199"},
		{"without IDs", "[0 100 [h1 1]] [101 199 [h3 3]]", "h1:1=h1:1 0-100; h3:3=h3:3 101-199"},
		{"no host", "[0 100 ['' 1 a] [- 2 b]]", "a=asked:1+asked:2 0-100"},
		{"an unknown host name", "[0 100 [? 1 a [ip 10.0.0.1]]]", "a=10.0.0.1:1 0-100"},
		{"no primary", "[0 100 [? 0 a] [h2 2 b]] [101 199 [h3 3 c]]", "c=h3:3 101-199"},
		{"an IPv6 address", "[0 1 [2001:db8::1 1 a]]", "a=[2001:db8::1]:1 0-1"},
		{"words", "[a b [h1 1]]", "CLUSTER SLOTS has the element [\"a\" \"b\" [\"h1\" (int) 1]]"},
		{"a slot too high", "[0 99999 [h1 1 a]]", "it knows of the slots 0 to 99999"},
		{"nothing", "", "it knows of no slot that a node serves"},
	} {
		v, err := readSlots(value(t, c.reply), "asked:7000")
		got := fmt.Sprint(err)
		if err == nil {
			var chart chart
			m, _, err := chart.take(v, "", time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			got = describe(m)
		}
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestChart plays views and redirections. Each step is a node's view with its epoch, or "moved SLOT ADDR".
func TestChart(t *testing.T) {
	three := []string{shard("0 99", "a h1 1 master online", "b h2 2 replica online"),
		shard("100 199", "c h3 3 master online", "d h4 4 replica online"), shard("200 299", "e h5 5 master online")}
	all := strings.Join(three, "")
	const start = "a=h1:1+h2:2 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"
	failedOver := shard("0 99", "a h1 1 replica online", "b h2 2 master online") + three[1] + three[2]
	type step struct {
		from  string // a node, and "@" with the seconds since the beginning
		epoch uint64
		view  string // or moved
		want  string // "" means that nothing changes
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"the same view again", []step{{"h1", 3, all, start}, {"h3", 3, three[2] + three[0] + three[1], ""}}},
		{"a failover keeps the ID",
			[]step{{"h1", 3, all, start}, {"h3", 4, failedOver, "a=h2:2+h1:1 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"}}},
		{"a shard is new", []step{{"h1", 3, three[0], "a=h1:1+h2:2 0-99"}, {"h1", 3, all, start}}},
		{"a shard leaves", []step{{"h1", 3, all, start},
			{"h1", 3, shard("0 199", "a h1 1 master online", "b h2 2 replica online") + three[2],
				"a=h1:1+h2:2 0-199; e=h5:5 200-299"}}},
		{"a shard is gone for long", []step{{"h1", 3, all, start}, {"h1@1", 3, three[0] + three[2], ""},
			{"h5@10", 3, three[0] + three[2], ""}, {"h5@11", 3, three[0] + three[2], "a=h1:1+h2:2 0-99; e=h5:5 200-299"}}},
		{"a shard is gone twice", []step{{"h1", 3, all, start}, {"h1@1", 3, three[0] + three[2], ""}, {"h5@10", 3, all, ""},
			{"h5@12", 3, three[0] + three[2], ""}}},
		{"a failover heard in two steps", []step{{"h1", 3, all, start}, {"h3@1", 4, three[1] + three[2], ""},
			{view: "moved 5 h2:2",
				want: "a=h2:2 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"}, {"h5@2", 4, three[1] + three[2], ""},
			{"h5@3", 4, failedOver, "a=h2:2+h1:1 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"}}},
		{"a failover heard in three steps",
			[]step{{"h1", 3, all, start}, {"h3", 4, shard("0 99", "a h1 1 master online") + three[1] + three[2],
				"a=h1:1 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"}, {"h5", 4, three[1] + three[2], ""},
				{"h5", 4, shard("0 99", "b h2 2 master online") + three[1] + three[2],
					"a=h2:2 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"}}},
		{"half of a shard's slots have no owner",
			[]step{{"h1", 3, all, start}, {"h3@1", 3, shard("0 49", "a h1 1 master online", "b h2 2 replica online") +
				three[1] + three[2], ""}}},
		{"a replica changes its shard", []step{{"h1", 3, all, start},
			{"h1", 3, shard("0 99", "a h1 1 master online") + shard("100 199", "c h3 3 master online", "d h4 4 replica online",
				"b h2 2 replica online") + three[2], "a=h1:1 0-99; c=h3:3+h2:2+h4:4 100-199; e=h5:5 200-299"}}},
		{"a node gets another address", []step{{"h1", 3, all, start},
			{"h1", 3, shard("0 99", "a h9 9 master online", "b h2 2 replica online") + three[1] + three[2],
				"a=h9:9+h2:2 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"}}},
		{"a stale view", []step{{"h1", 4, failedOver, "b=h2:2+h1:1 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"},
			{"h5", 3, all, "stale"}, {"h5", 3, all, "stale"}}},
		{"most nodes have a lower epoch", []step{{"h1", 9, three[0] + three[2], "a=h1:1+h2:2 0-99; e=h5:5 200-299"},
			{"h1", 3, all, "stale"}, {"h3", 3, all, start}}},
		{"no epoch", []step{{"h1", 4, failedOver, "b=h2:2+h1:1 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"},
			{"h5", 0, all, "b=h1:1+h2:2 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"}, {"h5", 3, all, "stale"}}},

		{"moved to where it is", []step{{"h1", 3, all, start}, {view: "moved 5 h1:1"}}},
		{"a slot moves",
			[]step{{"h1", 3, all, start},
				{view: "moved 5 h3:3", want: "a=h1:1+h2:2 0-4 6-99; c=h3:3+h4:4 5-5 100-199; e=h5:5 200-299"},
				{view: "moved 5 h1:1", want: start}}},
		{"a slot without owner",
			[]step{{"h1", 3, all, start},
				{view: "moved 300 h5:5", want: "a=h1:1+h2:2 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-300"}}},
		{"moved to the replica",
			[]step{{"h1", 3, all, start}, {view: "moved 5 h2:2", want: "a=h2:2 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"},
				{"h3", 4, failedOver, "a=h2:2+h1:1 0-99; c=h3:3+h4:4 100-199; e=h5:5 200-299"}}},
		{"moved to another shard's replica",
			[]step{{"h1", 3, all, start},
				{view: "moved 5 h4:4", want: "a=h1:1+h2:2 0-4 6-99; c=h4:4 5-5 100-199; e=h5:5 200-299"}}},
		{"moved to a new node",
			[]step{{"h1", 3, all, start},
				{view: "moved 5 h9:9", want: "a=h1:1+h2:2 0-4 6-99; c=h3:3+h4:4 100-199; e=h5:5 200-299; h9:9=h9:9 5-5"},
				{"h3", 4, all + shard("300 300", "x h9 9 master online"), start + "; h9:9=h9:9 300-300"}}},
		{"moved before any view", []step{{view: "moved 5 h1:1"}, {"h1", 3, all, start}}},
		{"moved out of range", []step{{"h1", 3, all, start}, {view: "moved 16384 h1:1"}, {view: "moved -1 h1:1"}}},
	} {
		var chart chart
		version := uint64(0)
		start := time.Unix(1, 0)
		for i, s := range c.steps {
			var m *Map
			var err error
			before, was := chart.now, describe(chart.now)
			var slot int
			var addr string
			if n, _ := fmt.Sscanf(s.view, "moved %d %s", &slot, &addr); n == 2 {
				m = chart.moved(slot, addr)
			} else {
				v, e := readShards(value(t, s.view), s.from+":1", false)
				if e != nil {
					t.Fatal(e)
				}
				v.epoch = s.epoch
				from, seconds, _ := strings.Cut(s.from, "@")
				after, _ := strconv.Atoi(seconds)
				m, _, err = chart.take(v, from, start.Add(time.Duration(after)*time.Second))
			}
			got := ""
			if m != nil {
				got = describe(m)
				version++
				if m.Version != version || chart.now != m {
					t.Errorf("%s, step %d: version %d, want %d", c.name, i, m.Version, version)
				}
			}
			if err != nil {
				got = "stale"
			}
			if got != s.want {
				t.Errorf("%s, step %d: %s\nwant %s", c.name, i, got, s.want)
			}
			if describe(before) != was {
				t.Errorf("%s, step %d: the Map before has changed to %s", c.name, i, describe(before))
			}
		}
	}
}

// TestWhatStaysIsShared: a new Map shares unchanged shards and all replicas with the previous Map.
func TestWhatStaysIsShared(t *testing.T) {
	var c chart
	take := func(reply string) *Map {
		v, err := readShards(value(t, reply), "h:1", false)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := c.take(v, "h", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	one := take(shard("0 99", "a h1 1 master online", "b h2 2 replica online") + shard("100 199", "c h3 3 master online"))
	one.Shards[0].Replicas[0].setLag(5, true)
	two := take(shard("0 98", "a h1 1 master online", "b h2 2 replica online") + shard("99 199", "c h3 3 master online",
		"d h4 4 replica online"))
	if one.Shards[0] != two.Shards[0] || one.Shards[1] == two.Shards[1] {
		t.Error("the first shard is another one, or the second is the same")
	}
	three := take(shard("0 98", "a h1 1 master online") + shard("99 199", "c h3 3 master online", "b h2 2 replica online"))
	if lag, known := three.Shards[1].Replicas[0].Lag(); lag != 5 || !known {
		t.Errorf("the replica's lag is %v, %t", lag, known)
	}
	if three.Find("h2:2") != three.Shards[1] || three.Find("h1:1") != three.Shards[0] || three.Find("h4:4") != nil {
		t.Error("Find")
	}
	if three.Uncovered() != maxSlots-200 || three.Shard(200) != nil || three.Shard(0) != three.Shards[0] {
		t.Errorf("%d slots without shard", three.Uncovered())
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		host string
		port int64
		want string
	}{
		{"127.0.0.1", 6381, "127.0.0.1:6381"}, {"db1.example", 1, "db1.example:1"}, {"::1", 6381, "[::1]:6381"},
		{"[::1]", 6381, "[::1]:6381"}, {"", 6381, "asked:6381"}, {"h", 65535, "h:65535"}, {"?", 6381, "no"}, {"h", 0, "no"},
		{"h", 65536, "no"}, {"a b", 1, "no"}, {"a/b", 1, "no"},
	} {
		got, ok := address(c.host, c.port, "asked")
		if !ok {
			got = "no"
		}
		if got != c.want {
			t.Errorf("%q, %d: %s, want %s", c.host, c.port, got, c.want)
		}
	}
}

func TestEpoch(t *testing.T) {
	text := "cluster_state:ok\r\ncluster_current_epoch:17\r\ncluster_my_epoch:2\r\n"
	if got := readEpoch(respclient.Value{Kind: '$', Text: text}); got != 17 {
		t.Errorf("%d", got)
	}
	if got := readEpoch(respclient.Value{Kind: '-', Text: "NOPERM"}); got != 0 {
		t.Errorf("%d", got)
	}
}

// FuzzView: for any bytes from a node, either the view is refused, or it makes a Map in which the shard of each slot
// exists.
func FuzzView(f *testing.F) {
	f.Add([]byte(
		"*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:5\r\n$5\r\nnodes\r\n*1\r\n*8\r\n+id\r\n+a\r\n+port\r\n:1\r\n+endpoint\r\n+h\r\n+role\r\n+master\r\n"))
	f.Add([]byte("*1\r\n*3\r\n:0\r\n:5\r\n*3\r\n+h\r\n:1\r\n+a\r\n"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		reply, err := parse(wire)
		if err != nil {
			return
		}
		for _, read := range []func() (view, error){
			func() (view, error) { return readShards(reply, "h:1", false) },
			func() (view, error) { return readSlots(reply, "h:1") },
		} {
			v, err := read()
			if err != nil {
				continue
			}
			var c chart
			m, _, err := c.take(v, "h:1", time.Time{})
			if err != nil || m == nil || m.Uncovered() == len(m.owners) {
				t.Fatalf("%q: %s, %v", wire, describe(m), err)
			}
			ids := map[string]bool{}
			for _, s := range m.Shards {
				if s.ID == "" || ids[s.ID] || s.Primary == "" {
					t.Fatalf("%q: %s", wire, describe(m))
				}
				ids[s.ID] = true
			}
			for _, i := range m.owners {
				if i != None && int(i) >= len(m.Shards) {
					t.Fatalf("%q: a slot of shard %d of %d", wire, i, len(m.Shards))
				}
			}
		}
	})
}

// parse reads one reply from bytes.
func parse(wire []byte) (respclient.Value, error) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		w := bufio.NewWriter(far)
		w.Write(wire)
		w.Flush()
		far.Close()
	}()
	return respclient.New(near).Receive()
}
