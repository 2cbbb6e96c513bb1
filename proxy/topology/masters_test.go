package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
)

func TestMastersAreRead(t *testing.T) {
	const details = "[name m ip h1 port '1' flags master config-epoch '3']"
	for _, c := range []struct{ name, addr, details, replicas, want string }{
		{"a primary", "[h1 '1']", details, "[]", "h1:1 3"},
		{"its replicas", "[h1 '1']", details,
			"[[ip h2 port '2' flags slave] [ip h3 port '3' flags slave,s_down] [ip h4 port '4' flags slave,disconnected] [ip h1 port '1' flags slave]]", "h1:1 3 [h2:2]"},
		{"IPv6", "[::1 '1']", details, "[]", "[::1]:1 3"},
		{"down", "[h1 '1']", "[flags master,s_down,o_down config-epoch '3']", "[]", "h1:1 3 failed"},
		{"an unknown name", "-", details, "[]", "it does not know the name"},
		{"no port", "[h1]", details, "[]", `it has the address ["h1"]`},
		{"a bad port", "[h1 x]", details, "[]", `it has the address ["h1" "x"]`},
		{"no epoch", "[h1 '1']", "[flags master]", "[]", "it has the config-epoch "},
	} {
		m, err := readMaster(value(t, c.addr).Elems[0], value(t, c.details).Elems[0], value(t, c.replicas).Elems[0])
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(m.addr, " ", m.epoch)
			if len(m.replicas) > 0 {
				got += fmt.Sprint(" ", m.replicas)
			}
			if m.failed {
				got += " failed"
			}
		}
		if !strings.HasPrefix(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
	for message, want := range map[string]string{
		"m 10.0.0.1 1 10.0.0.2 2": "m 10.0.0.1:1 10.0.0.2:2", "m ::1 1 ::2 2": "m [::1]:1 [::2]:2", "m h 1 h": "", "": "",
		"m h x h 2": "", "a b c d e f": "",
	} {
		name, before, after, ok := readSwitch(message)
		if got := strings.TrimSpace(fmt.Sprint(name, " ", before, " ", after)); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %t", message, got, ok)
		}
	}
}

// TestMasters plays the replies of three Sentinels about two names. Each step is "SENTINEL NAME ADDR EPOCH", or "switch
// NAME OLD NEW".
func TestMasters(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps [][2]string
	}{
		{"both names", [][2]string{{"s1 a h1:1 0", "a=h1:1 0-7"}, {"s1 b h2:2 0", "a=h1:1 0-7; b=h2:2 8-15"},
			{"s2 a h1:1 0", ""}}},
		{"a failover", [][2]string{{"s1 a h1:1 1", "a=h1:1 0-7"}, {"s2 a h3:3 2", "a=h3:3 0-7"}, {"s3 a h1:1 1", "late"}}},
		{"a message, then late Sentinels", [][2]string{{"s1 a h1:1 1", "a=h1:1 0-7"}, {"switch a h1:1 h3:3", "a=h3:3 0-7"},
			{"s2 a h1:1 1", "late"}, {"s1 a h3:3 2", ""}, {"s2 a h1:1 1", "late"}}},
		{"a message of another address", [][2]string{{"s1 a h1:1 1", "a=h1:1 0-7"}, {"switch a h9:9 h3:3", ""},
			{"switch c h1:1 h3:3", ""}, {"switch a h1:1 h1:1", ""}}},
		{"an early answer, then most Sentinels", [][2]string{{"s1 a h1:1 1", "a=h1:1 0-7"}, {"s2 a h3:3 1", "late"},
			{"s3 a h3:3 1", "a=h3:3 0-7"}}},
		{"most Sentinels have a lower epoch", [][2]string{{"s1 a h1:1 9", "a=h1:1 0-7"}, {"s2 a h3:3 0", "late"},
			{"s2 a h3:3 0", "late"}, {"s3 a h4:4 0", "late"}, {"s3 a h3:3 0", "a=h3:3 0-7"}}},
	} {
		s := newMasters([]string{"a", "b"}, EqualRanges(16, 2), 3)
		for i, step := range c.steps {
			w := strings.Fields(step[0])
			var m *Map
			var err error
			if w[0] == "switch" {
				m = s.switched(w[1], w[2], w[3])
			} else {
				epoch := uint64(w[3][0] - '0')
				m, err = s.take(map[string]int{"a": 0, "b": 1}[w[1]], master{addr: w[2], epoch: epoch}, w[0])
			}
			got := ""
			if m != nil {
				got = describe(m)
			}
			if err != nil {
				got = "late"
			}
			if got != step[1] {
				t.Errorf("%s, step %d: %s\nwant %s", c.name, i, got, step[1])
			}
		}
	}
}

func TestEqualRanges(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		counts := make([]int, n)
		last := uint16(0)
		for _, owner := range EqualRanges(1024, n) {
			if owner < last {
				t.Fatal("ranges are not in order")
			}
			last = owner
			counts[owner]++
		}
		for _, c := range counts {
			if c < 1024/n || c > 1024/n+1 {
				t.Errorf("%d shards have %v slots", n, counts)
			}
		}
	}
}

func TestStatic(t *testing.T) {
	s := NewStatic(2)
	var heard []uint64
	s.OnChange(func(m *Map) { heard = append(heard, m.Version) })
	var early []string
	s.BeforeChange(func(m *Map) { early = append(early, fmt.Sprint(m.Version, " while ", s.Current().Version)) })
	if m := s.Current(); len(m.Shards) > 0 || m.Slots() != 2 || m.Owner(1) != -1 {
		t.Error("there are shards at first")
	}
	for _, c := range []struct {
		shards []*Shard
		owners []uint16
		good   bool
	}{
		{[]*Shard{{ID: "a", Primary: "h:1"}}, []uint16{0, None}, true},
		{[]*Shard{{ID: "a", Primary: "h:1"}}, []uint16{0, 1}, false},
		{[]*Shard{{ID: "a"}}, []uint16{0}, false},
		{[]*Shard{{ID: "a", Primary: "h:1"}, {ID: "a", Primary: "h:2"}}, []uint16{0}, false},
		{[]*Shard{{ID: "a", Primary: "h:2"}}, []uint16{0, 0}, true},
	} {
		if err := s.Set(c.shards, c.owners); (err == nil) != c.good {
			t.Errorf("%v: %v", c.owners, err)
		}
	}
	s.OnChange(func(m *Map) { heard = append(heard, m.Version) })
	if fmt.Sprint(heard) != "[0 1 2 2]" || s.Current().Shard(1).Primary != "h:2" {
		t.Errorf("heard %v", heard)
	}
	if want := []string{"0 while 0", "1 while 0", "2 while 1"}; !slices.Equal(early, want) {
		t.Errorf("before changes: %q, want %q", early, want)
	}
	select {
	case <-s.Ready():
	default:
		t.Error("not ready")
	}
}

func TestStandings(t *testing.T) {
	for text, want := range map[string]string{
		"# Replication\r\nrole:master\r\nconnected_slaves:1\r\nmaster_repl_offset:500\r\n":                                 "{true false 500}",
		"role:slave\r\nmaster_link_status:up\r\nslave_repl_offset:450\r\nmaster_repl_offset:450\r\n":                       "{false true 450}",
		"role:slave\r\nmaster_link_status:down\r\nslave_read_repl_offset:9\r\nslave_repl_offset:1\r\nmaster_repl_offset:1": "{false false 1}",
		"role:slave\r\nmaster_link_status:up\r\n":                                                                          "error",
		"role:master\r\nmaster_repl_offset:-5\r\n":                                                                         "error",
		"": "error",
	} {
		s, err := readStanding(respclient.Value{Kind: '$', Text: text})
		got := fmt.Sprint(s)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestLag: a replica's lag is the age of the newest offset of its primary that it has reached.
func TestLag(t *testing.T) {
	var h history
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	ask := func(seconds int, offset int64, want string) {
		t.Helper()
		lag, known := h.lag(at(seconds), offset)
		if got := fmt.Sprint(lag, " ", known); got != want {
			t.Errorf("offset %d at %d s: %s, want %s", offset, seconds, got, want)
		}
	}
	ask(0, 5, "0s false")
	h.note(at(0), 100)
	ask(0, 100, "0s true")
	ask(0, 99, "0s false")
	h.note(at(1), 200)
	h.note(at(2), 200)
	h.note(at(3), 300)
	ask(3, 300, "0s true")
	ask(3, 250, "1s true")
	ask(3, 199, "3s true")
	ask(4, 400, "1s true")
	h.note(at(5), 10) // another primary
	ask(5, 300, "0s true")
	ask(5, 9, "0s false")
	for i := range 3 * historyLength {
		h.note(at(5+i), int64(10+i))
	}
	last := 3*historyLength - 1
	ask(5+last, int64(10+last), "0s true")
	ask(5+last, int64(10+last-historyLength), "0s false")
	ask(5+last, int64(10+last-5), "5s true")
}

func TestOrder(t *testing.T) {
	m := &Map{Shards: []*Shard{{Primary: "p1", Replicas: []*Replica{{Addr: "r1"}}}, {Primary: "p2", Failed: true},
		{Primary: "p3"}}}
	none := func(int, func(i, j int)) {}
	for _, c := range []struct {
		seeds         []string
		m             *Map
		hint, doubted string
		bad           trouble
		want          string
	}{
		{[]string{"s1", "p1"}, m, "h", "", nil, "[h p1 p3 s1 r1 p2]"},
		{[]string{"s1", "s2"}, nil, "", "", nil, "[s1 s2]"},
		{[]string{"s1", "p1"}, m, "", "p1", nil, "[p3 s1 r1 p2 p1]"},
		{[]string{"s1", "p1"}, m, "h", "p3", trouble{"h": "x", "p1": "x", "p3": "x", "s1": "x", "r1": "x"},
			"[h p1 p2 s1 r1 p3]"},
	} {
		if got := fmt.Sprint(inOrder(c.seeds, c.m, c.hint, c.doubted, c.bad, none)); got != c.want {
			t.Errorf("%v; want %s", got, c.want)
		}
	}
}

func TestTrouble(t *testing.T) {
	var tr trouble
	got := fmt.Sprint(tr.note("a", nil), tr.note("a", fmt.Errorf("x")), tr.note("a", fmt.Errorf("x")),
		tr.note("a", fmt.Errorf("y")), tr.note("a", nil), tr.note("a", fmt.Errorf("y")))
	if got != "false true false true false true" {
		t.Error(got)
	}
}
