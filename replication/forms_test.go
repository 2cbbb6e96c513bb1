package replication

import (
	"context"
	"net"
	"strings"
	"testing"
)

func TestSpecial(t *testing.T) {
	const footer, newer = "\x0a\x00checksum", "\x0c\x00checksum" // of Redis 7.0 and 7.4; \x50 is Valkey's
	for _, c := range []struct {
		line string
		want Forms
	}{
		{"HSET h f v", 0}, {"hpexpireat h 1 FIELDS 1 f", FieldDeadlines}, {"HPERSIST h FIELDS 1 f", FieldDeadlines},
		{"HPERSIS h", 0},
		{"BF.ADD b x", Blooms}, {"bf.reserve b 0.1 5", Blooms}, {"BF.", 0}, {"BFX a", 0}, {"RENAME a b", 0},
		{"RESTORE k 0", 0},
		{"RESTORE k 0 \x00v" + footer, 0}, {"RESTORE k 0 \x07v" + footer, Blooms},
		{"restore k 0 \x19v" + newer + " REPLACE", FieldDeadlines | redisFields | payload12},
		{"RESTORE k 0 \x18v" + newer, FieldDeadlines | redisFields | payload12}, {"RESTORE k 0 \xffv" + newer, 0},
		{"RESTORE k 0 \x16v\x50\x00checksum", FieldDeadlines | valkeyFields | payload80},
		{"RESTORE k 0 \x18v\x50\x00checksum", 0}, {"RESTORE k 0 \x00v\x50\x00checksum", payload80},
		{"RESTORE-ASKING k 0 \x00v" + newer, payload12}, {"RESTORE k 0 \x00v\x0b\x00checksum", payload11},
		{"RESTORE k 0 \x1bv\x0f\x00checksum", payload15}, {"RESTORE k 0 \x1bv\x11\x00checksum", payload15},
		{"FUNCTION RESTORE v" + newer + " FLUSH", payload12}, {"FUNCTION RESTORE v" + footer, 0}, {"FUNCTION FLUSH", 0},
		{"FUNCTION RESTORE", 0}, {"PING", 0}, {"H", 0},
		{"XADD s IDMP p m 1-1 f v", Messages}, {"xadd s idmp p m 1-1 f v", Messages}, {"XADD s 1-1 IDMP IDMP", 0},
		{"XADD s MAXLEN = 5 1-1 f v", 0}, {"XADD IDMP 1-1 f v", 0}, {"XADD s IDMPX", 0}, {"XADD s", 0}, {"XADD", 0},
		{"XACK s g 1-1", 0}, {"XCLAIM s g c 0 1-1", 0}, {"XAUTOCLAIM s", 0}, {"X", 0}, {"XA", 0},
		{"XCFGSET s IDMP-DURATION 5", Messages}, {"XIDMPRECORD s p m 1-1", Messages},
	} {
		p := newPrimary(t)
		p.Do(func() {
			p.feed.spotEffect(0, []byte(wire(c.line)))
			if got := p.feed.specialAt != 0; got != (c.want != 0) {
				t.Errorf("%q is spotted: %t", c.line, got)
			}
		})
		var args [][]byte
		for word := range strings.SplitSeq(c.line, " ") {
			args = append(args, []byte(word))
		}
		if got := special(args); got != c.want {
			t.Errorf("%q: %d, want %d", c.line, got, c.want)
		}
	}
}

func TestLacking(t *testing.T) {
	const seven4 = Messages | valkeyFields | payloads&^payload11&^payload12
	const seven2 = FieldDeadlines | redisFields | payload12 | seven4
	const old = seven2 | payload11
	const none = "# Modules\r\n"
	const bf = none + "module:name=bf,ver=20800,api=1,filters=0,usedby=[],using=[],options=[]\r\n"
	for _, c := range []struct {
		version, modules string
		want             Forms
	}{
		{"7.0.15", none, old | Blooms}, {"7.2.4", bf, seven2}, {"7.4.1", none, seven4 | Blooms}, {"7.4.1", bf, seven4},
		{"7.10.0", bf, seven4}, {"8.0.0", none, seven4 | Blooms}, {"6.2.14", bf, old}, {"", none, 0},
		{"8.6.1", bf, valkeyFields | payload14 | payload15 | payload80}, {"8.10.0", bf, valkeyFields | payload80},
		{"9.0.0", bf, valkeyFields | payload80},
		{"unstable", none, 0},
	} {
		if got := lacking(c.version, c.modules); got != c.want {
			t.Errorf("version %s with %q lacks %d, want %d", c.version, c.modules, got, c.want)
		}
	}
}

// TestSurvey: the reply of a peer about itself is read, and anything else is an error.
func TestSurvey(t *testing.T) {
	for _, c := range []struct {
		answer, version string
		lacks           Forms
		fails           bool
	}{
		{"$37\r\n# Server\r\nredis_version:7.0.15\r\nx:y\r\n\r\n$0\r\n\r\n", "7.0.15",
			FieldDeadlines | redisFields | valkeyFields | Blooms | payloads | Messages, false},
		{"-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n", "", 0, true},
		{"$-1\r\n", "", 0, true}, {"$99999999999\r\n", "", 0, true}, {"$5\r\nab", "", 0, true}, {"", "", 0, true},
		{strings.Repeat("x", 100_000), "", 0, true},
	} {
		version, lacks, err := survey(func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Read(make([]byte, 100))
				_, _ = theirs.Write([]byte(c.answer))
				theirs.Close()
			}()
			return ours, nil
		}, "")
		if version != c.version || lacks != c.lacks || (err != nil) != c.fails {
			t.Errorf("%.60q: %s, lacks %d, %v", c.answer, version, lacks, err)
		}
	}
}

// TestRefusedRests: a replica that cannot read the data gets an error with the reason, waits, and is closed after its
// rest. Once the data hold nothing of the kind, they are sent.
func TestRefusedRests(t *testing.T) {
	p := newPrimary(t)
	p.saver.holds = FieldDeadlines
	ask := func() (*replica, *socket) {
		cl, s := p.arrive()
		p.do(cl, "REPLCONF listening-port 7000")
		r := cl.ReplicaState.(*replica)
		p.Do(func() { r.asked, r.answered, r.version, r.lacks = true, true, "7.0.15", FieldDeadlines })
		if got := p.do(cl, "PSYNC ? -1"); got != "" {
			t.Errorf("%q at once", got)
		}
		return r, s
	}
	r, s := ask()
	s.take(t, "-ERR Full synchronization refused: key 'special' of database 3 has deadlines of fields, "+
		"which Redis reads from version 7.4 (RDB version 12) on, and Valkey from 9.0\r\n")
	p.do(r.cl, "SYNC") // what a replica does then
	p.Do(func() { p.feed.Tick(p.SteadyMs() + refusalRest - 100) })
	if s.isClosed() || r.state != waiting {
		t.Errorf("state %v before the rest is over, closed %t", r.state, s.isClosed())
	}
	p.Do(func() { p.feed.Tick(p.SteadyMs() + refusalRest + 100) })
	if s.take(t, "-ERR Full"); !s.isClosed() {
		t.Error("it is not closed after its rest")
	}
	p.saver.clean = true
	_, s = ask()
	s.take(t, "$3\r\nRDB")
}

// TestEffectsThatAreUnknown: a replica that cannot run an effect is closed. Later it gets no part of the stream, but a
// full copy.
func TestEffectsThatAreUnknown(t *testing.T) {
	p := newPrimary(t)
	good, _ := p.online()
	old, s := p.online()
	p.Do(func() {
		r := old.ReplicaState.(*replica)
		r.port, r.asked, r.answered, r.lacks = 7000, true, true, Blooms
		p.feed.spot(0, [][]byte{[]byte("HPERSIST"), []byte("h")})
		if s.isClosed() {
			t.Error("closed because of what it knows")
		}
		p.feed.spot(0, [][]byte{[]byte("BF.ADD"), []byte("b")})
	})
	if !s.isClosed() || good.ReplicaState.(*replica).cl != good {
		t.Error("a replica without the module is not closed")
	}
	p.Closed(old)
	cl, again := p.arrive()
	p.do(cl, "REPLCONF listening-port 7000")
	if got := p.do(cl, "PSYNC "+p.feed.ID+" 1"); !strings.HasPrefix(got, "+FULLRESYNC") {
		t.Errorf("%q", got)
	}
	again.take(t, "$3\r\nRDB")
}

// TestVersionSaid: a replica that sends its version is not asked for it. The primary knows at once which forms the
// replica cannot read.
func TestVersionSaid(t *testing.T) {
	p := newPrimary(t)
	p.saver.holds = FieldDeadlines
	cl, s := p.arrive()
	for _, c := range []struct{ line, want string }{
		{"REPLCONF listening-port 7000 version 8.1.3", "+OK\r\n"},
		{"REPLCONF set-cluster-node-id " + other, "+OK\r\n"}, {"REPLCONF rdb-no-compress 1", "+OK\r\n"},
		{"REPLCONF version 8.1", "-ERR Unrecognized version format: 8.1\r\n"},
		{"REPLCONF version x", "-ERR Unrecognized version format: x\r\n"},
	} {
		if got := p.do(cl, c.line); got != c.want {
			t.Errorf("%s: %q", c.line, got)
		}
	}
	if got := p.do(cl, "PSYNC ? -1"); got != "" {
		t.Errorf("%q at once", got)
	}
	s.take(t, "-ERR Full synchronization refused: key 'special' of database 3 has deadlines of fields, "+
		"which Redis reads from version 7.4 (RDB version 12) on, and Valkey from 9.0\r\n")

	cl, s = p.arrive() // a spindle: what it names counts
	p.do(cl, "REPLCONF listening-port 7001 capa hash-field-deadlines", "REPLCONF version 9.0.0")
	if got := p.do(cl, "PSYNC ? -1"); !strings.HasPrefix(got, "+FULLRESYNC") || p.saver.valkey {
		t.Errorf("%q, Valkey's form %t", got, p.saver.valkey)
	}
	s.take(t, "$3\r\nRDB")

	cl, s = p.arrive() // a Valkey
	p.do(cl, "REPLCONF listening-port 7002", "REPLCONF version 9.1.2")
	p.do(cl, "PSYNC ? -1")
	s.take(t, "$3\r\nRDB")
	if !p.saver.valkey {
		t.Error("a Valkey 9 did not get Valkey's form")
	}
	p.Do(func() {
		p.feed.spot(0, [][]byte{[]byte("HPERSIST"), []byte("h")})
		if s.isClosed() {
			t.Error("closed because of a command that Valkey 9 has")
		}
		p.feed.spot(0, [][]byte{[]byte("RESTORE"), []byte("h"), []byte("0"), []byte("\x18v\x0c\x00checksum")})
		if !s.isClosed() {
			t.Error("a payload in Redis's form went to a Valkey")
		}
	})
}
