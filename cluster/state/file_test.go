package state

import (
	"strings"
	"testing"

	"spindle/cluster/bus"
)

const (
	idA = "07c37dfeb235213a872192d90877d0cd55635b91"
	idB = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1"
	idC = "292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"
)

// loaded returns the state that it reads from a nodes.conf.
func loaded(text string) (*State, error) {
	s := fresh()
	return s, s.Load(text)
}

// TestFileIsReadAgain: a written file reads back with the same meaning.
func TestFileIsReadAgain(t *testing.T) {
	w := cluster(t, 1, 2)
	s := w.hosts[0].s
	s.Terms.Hostname, s.Terms.HumanName = "a.example", "shard-1"
	s.Apply(s.Terms)
	s.nodes[1].TLSPort = 7443
	s.coming[9000], s.moving[1] = s.nodes[1], s.nodes[1]
	s.current, s.voted = 1<<63, 12
	text := string(s.Describe())
	again, err := loaded(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	again.Terms.Hostname, again.Terms.HumanName = "a.example", "shard-1"
	again.Apply(again.Terms)
	for _, n := range append(s.nodes, again.nodes...) {
		n.PingSent, n.PongReceived, n.Link = 0, 0, nil
	}
	if got, want := string(again.Describe()), string(s.Describe()); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

// TestFilesOfAllVersions: nodes.conf as 3.0, 4.0, 7.0 and 7.4 write it.
func TestFilesOfAllVersions(t *testing.T) {
	for version, text := range map[string]string{
		"3.0": idA + " 127.0.0.1:7000 myself,master - 0 0 1 connected 0-5460 [93-<-" + idB + "]\n" +
			idB + " 127.0.0.1:7001 master - 0 1426238317239 2 connected 5461-16383\n" +
			idC + " 127.0.0.1:7002 slave " + idB + " 0 1426238316232 2 connected\nvars currentEpoch 6 lastVoteEpoch 3\n",
		"4.0": idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460 [93-<-" + idB + "]\n" +
			idB + " 127.0.0.1:7001@17001 master - 0 1426238317239 2 connected 5461-16383\n" +
			idC + " 127.0.0.1:7002@17002 slave " + idB +
			" 0 1426238316232 2 connected\nvars currentEpoch 6 lastVoteEpoch 3\n\n\n",
		"7.0": idA + " 127.0.0.1:7000@17000,host-a myself,master - 0 0 1 connected 0-5460 [93-<-" + idB + "]\n" +
			idC + " 127.0.0.1:7002@17002, slave " + idB + " 0 1426238316232 2 connected\n" +
			idB + " 127.0.0.1:7001@17001,host-b master - 0 1426238317239 2 connected 5461-16383\nvars currentEpoch 6 " +
			"lastVoteEpoch 3 other 1\n",
		"7.4": "vars currentEpoch 6 lastVoteEpoch 3\n" +
			idC + " 127.0.0.1:7002@17002,,tls-port=0,nodename=c,shard-id=" + idB + " slave " + idB +
			" 0 1426238316232 2 connected\n" +
			idB + " 127.0.0.1:7001@17001,,tls-port=7443,shard-id=" + idB + " master - 0 1426238317239 2 connected 5461-16383\n" +
			idA + " 127.0.0.1:7000@17000,,tls-port=0,shard-id=" + idA +
			" myself,master - 0 0 1 connected 0-5460 [93-<-" + idB + "]\n",
		"Valkey 9.1": "vars currentEpoch 6 lastVoteEpoch 3\n" +
			idC + " 127.0.0.1:7002@17002,,availability-zone=eu:1,client-tls-port=7778,client-tcp-port=7777,client-ipv6=::1," +
			"client-ipv4=10.1.2.3,tls-port=0,shard-id=" + idB + " slave " + idB + " 0 1426238316232 2 connected\n" +
			idB + " 127.0.0.1:7001@17001,,tls-port=7443,shard-id=" + idB + " master - 0 1426238317239 2 connected 5461-16383\n" +
			idA + " 127.0.0.1:7000@17000,,tls-port=0,shard-id=" + idA +
			" myself,master - 0 0 1 connected 0-5460 [93-<-" + idB + "]\n",
		"7.4, saved between two messages": "vars currentEpoch 6 lastVoteEpoch 3\n" +
			idC + " 127.0.0.1:7002@17002,,tls-port=0,shard-id=" + idC + " slave " + idB + " 0 1426238316232 2 connected\n" +
			idB + " 127.0.0.1:7001@17001,,tls-port=7443,shard-id=" + idB + " master - 0 1426238317239 2 connected 5461-16383\n" +
			idA + " 127.0.0.1:7000@17000,,tls-port=0,shard-id=" + idA +
			" myself,master - 0 0 1 connected 0-5460 [93-<-" + idB + "]\n",
	} {
		s, err := loaded(text)
		if err != nil {
			t.Errorf("%s: %v", version, err)
			continue
		}
		a, b, c := s.byID[idA], s.byID[idB], s.byID[idC]
		if s.me != a || a.NumSlots != 5461 || b.NumSlots != 16384-5461 || c.Primary != b || len(b.Replicas) != 1 ||
			c.ShardID != b.ShardID ||
			a.ShardID == b.ShardID || s.current != 6 || s.voted != 3 || b.BusPort != 17001 || b.Epoch != 2 || c.Epoch != 0 ||
			s.coming[93] != b {
			t.Errorf("%s: read as\n%s", version, s.Describe())
		}
	}
}

// TestEpochOfANodeWithoutPrimary: a replica whose primary is unknown has its own epoch. It is read from the file.
func TestEpochOfANodeWithoutPrimary(t *testing.T) {
	s, err := loaded(idA + " 127.0.0.1:7000@17000 myself,slave - 0 0 7 connected\n" +
		idB + " 127.0.0.1:7001@17001 noflags - 0 0 5 disconnected\nvars currentEpoch 7 lastVoteEpoch 0\n")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := s.byID[idA].Epoch, s.byID[idB].Epoch; a != 7 || b != 5 {
		t.Errorf("the epochs are %d and %d, not 7 and 5", a, b)
	}
}

// TestDamagedFilesAreRefused: the error names the wrong line.
func TestDamagedFilesAreRefused(t *testing.T) {
	good := idA + " 127.0.0.1:7000@17000,,tls-port=0,shard-id=" + idA +
		" myself,master - 0 0 1 connected 0-5460\nvars currentEpoch 1 lastVoteEpoch 0\n"
	if _, err := loaded(good); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"myself,", ""}, {idA, "short"}, {"master", "king"}, {" connected 0-5460", ""}, {"0-5460", "0-16384"},
		{"0-5460", "-1"}, {"0-5460", "x"},
		{"0-5460", "[5->-x]"}, {"0-5460", "[5-<-" + idB}, {"0-5460", "[99999->-" + idB + "]"}, {"7000@", "70000@"},
		{"@17000", "@x"}, {"127.0.0.1:7000@17000", "nowhere"},
		{"tls-port=0", "tls-port"}, {"tls-port=0", "color=red"}, {"shard-id=" + idA, "shard-id=x"},
		{"currentEpoch 1", "currentEpoch x"},
		{"lastVoteEpoch 0", "lastVoteEpoch"}, {"master -", "slave x"}, {" 0 0 1 ", " 0 0 x "}, {" 0 0 1 ", " a 0 1 "},
	} {
		if _, err := loaded(strings.Replace(good, change[0], change[1], 1)); err == nil {
			t.Errorf("%q in place of %q was taken", change[1], change[0])
		}
	}
	for _, line := range []string{"\x00", "\x00\t\x00"} {
		if _, err := loaded(good + line + "\n"); err == nil {
			t.Errorf("the line %q was taken", line)
		}
	}
	if _, err := loaded(good + strings.Replace(good, idA, idB, 1)); err == nil {
		t.Error("two lines that are this node's were taken")
	}
}

// FuzzLoad: no file makes the reader panic. A file that it accepts is written so that it is accepted again.
func FuzzLoad(f *testing.F) {
	f.Add(idA + " 127.0.0.1:7000@17000,h,tls-port=0,nodename=x,shard-id=" + idA +
		" myself,master - 0 0 1 connected 0-5460 [93->-" + idB + "]\nvars currentEpoch 1\n")
	f.Add(idA + " :0@0,, myself,slave " + idB + " 1 1 0 connected\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := loaded(text)
		if err != nil {
			return
		}
		if _, err := loaded(string(s.Describe())); err != nil {
			t.Errorf("%v: %q was written as %q", err, text, s.Describe())
		}
		s.At(s.now + 100)
		s.Tick()
		s.Finish()
	})
}

// FuzzReceive: no parsed message makes a node panic. A message of an unknown node makes it neither forget nor add a
// node.
func FuzzReceive(f *testing.F) {
	text := idA + " 127.0.0.1:7000@17000,,tls-port=0,shard-id=" + idA + " myself,master - 0 0 1 connected 0-5460\n" +
		idB + " 127.0.0.1:7001@17001,,tls-port=0,shard-id=" + idB + " master - 0 0 2 connected 5461-16383\n"
	m := &bus.Message{Type: bus.Ping, Sender: idC, ConfigEpoch: 9, CurrentEpoch: 9, Flags: bus.Primary,
		Slots: &bus.Bitmap{}}
	m.Gossip = []bus.Gossip{{ID: idB, IP: "10.0.0.9", Flags: bus.Failed}}
	m.UpdateSlots = &bus.Bitmap{}
	for typ := range bus.Types {
		m.Type = typ
		f.Add(bus.Append(nil, m), true)
	}
	m.Type, m.Sender = bus.Ping, idB
	f.Add(bus.Append(nil, m), false)
	f.Fuzz(func(t *testing.T, p []byte, stranger bool) {
		m, err := bus.Parse(p)
		if err != nil {
			return
		}
		if stranger {
			m.Sender = idC
		}
		s, err := loaded(text)
		if err != nil {
			t.Fatal(err)
		}
		l := s.Accept("10.0.0.2", "127.0.0.1", nil, nil)
		before := len(s.nodes)
		s.Receive(l, m)
		s.Finish()
		s.Tick()
		s.Finish()
		if _, err := loaded(string(s.Describe())); err != nil && stranger {
			t.Errorf("nodes.conf cannot be read any more: %v", err)
		}
		if stranger && m.Type != bus.Meet && (len(s.nodes) != before || s.me.Epoch != 1 || s.current > 2 ||
			s.byID[idB].is(bus.Failed)) {
			t.Errorf("a stranger was believed: %s", s.Describe())
		}
	})
}
