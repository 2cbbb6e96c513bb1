package bus

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var id = strings.Repeat("0123456789", 4)

// every returns one message of each type, with all parts that the type can have.
func every() (all []*Message) {
	for t := range Types {
		m := &Message{Type: t, Port: 7000, Port2: 7443, BusPort: 17000, CurrentEpoch: 9, ConfigEpoch: 1 << 63, Offset: -1,
			Sender: id, Primary: strings.Repeat("f", 40), IP: "2001:db8::1", Flags: Primary | Myself, Down: true,
			Paused: true, ForceAck: true}
		m.Slots = &Bitmap{}
		m.Slots.Add(0)
		m.Slots.Add(16383)
		switch t {
		case Ping, Pong, Meet:
			m.Gossip = []Gossip{{id, 1, 2, "10.0.0.1", 1, 2, 3, MaybeFailed}, {strings.Repeat("a", 40), 0, 0, "", 0, 0, 0, 0}}
			m.Extensions = Extensions{Asks: t == Meet, Hostname: "a.example", HumanName: "shard1-a", ShardID: id, Present: true,
				Zone: "us-east-1a", HasZone: true,
				Forgotten: []Forgotten{{id, 60}, {strings.Repeat("b", 40), 1}}}
		case Fail:
			m.About = id
		case Update:
			m.About, m.UpdateEpoch = id, 77
			m.UpdateSlots = &Bitmap{}
			m.UpdateSlots.Add(5)
		case Publish, PublishShard:
			m.Channel, m.Payload = []byte("news"), []byte("")
		}
		all = append(all, m)
	}
	return all
}

// TestRoundTrip: a written message reads back the same, and its length field is right.
func TestRoundTrip(t *testing.T) {
	for _, m := range every() {
		p := Append([]byte("before"), m)[6:]
		if n, err := Frame(p); err != nil || n != len(p) {
			t.Fatalf("%s: length %d of %d, %v", m.Type, n, len(p), err)
		}
		got, err := Parse(p)
		if err != nil {
			t.Fatalf("%s: %v", m.Type, err)
		}
		if m.Type == Module {
			continue // its body is ignored
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%s:\n got %+v\nwant %+v", m.Type, got, m)
		}
	}
}

// TestLayout checks offsets that every version of the protocol has.
func TestLayout(t *testing.T) {
	m := every()[Ping]
	p := Append(nil, m)
	if len(p) != 2256+2*104+(8+16)+(8+16)+2*(8+48)+(8+40)+(8+16) {
		t.Errorf("a ping of %d bytes", len(p))
	}
	for at, want := range map[int]string{
		0: "RCmb", 8: "\x00\x01\x1b\x58\x00\x00\x00\x02", 40: id, 2128: "ffff", 2168: "2001:db8::1\x00", 2214: "\x00\x06",
		2246: "\x1d\x13\x42\x68\x00\x11\x01\x07", 2256: id, 2256 + 48: "10.0.0.1",
		2256 + 94: "\x00\x01\x00\x03\x00\x04\x00\x02\x00\x00",
		2464:      "\x00\x00\x00\x18\x00\x00\x00\x00a.example\x00",
	} {
		if !bytes.HasPrefix(p[at:], []byte(want)) {
			t.Errorf("at %d: %q, want %q", at, p[at:at+len(want)], want)
		}
	}
	if !m.Slots.Has(16383) || p[80] != 1 || p[80+2047] != 0x80 {
		t.Error("slot bits")
	}
}

// TestRefused: a length or count that does not fit into the message is refused.
func TestRefused(t *testing.T) {
	for name, spoil := range map[string]func(p []byte) []byte{
		"a gossip count":          func(p []byte) []byte { p[14], p[15] = 0xff, 0xff; return p },
		"an extension count":      func(p []byte) []byte { p[2214] = 1; return p },
		"an odd extension":        func(p []byte) []byte { p[2464+3] = 0x19; return p },
		"an extension of nothing": func(p []byte) []byte { p[2464+3] = 0; return p },
		"a huge extension":        func(p []byte) []byte { p[2464] = 0x7f; return p },
		"a byte behind":           func(p []byte) []byte { return append(p, 0) },
		"cut":                     func(p []byte) []byte { return p[:len(p)-8] },
		"another version":         func(p []byte) []byte { p[9] = 2; return p },
	} {
		if _, err := Parse(spoil(Append(nil, every()[Ping]))); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for _, typ := range []Type{Fail, Update, Publish, VoteRequest, Vote, ManualStart, PublishShard} {
		if _, err := Parse(append(Append(nil, every()[typ]), 0)); err == nil {
			t.Errorf("%s with one byte more was accepted", typ)
		}
	}
	frame := func(change func(p []byte)) error {
		p := Append(nil, every()[Ping])
		change(p)
		_, err := Frame(p)
		return err
	}
	if frame(func(p []byte) { p[0] = 'X' }) == nil ||
		frame(func(p []byte) { binary.BigEndian.PutUint32(p[4:], 2255) }) == nil ||
		frame(func(p []byte) { binary.BigEndian.PutUint32(p[4:], 1<<31) }) == nil {
		t.Error("a frame that is none was taken")
	}
}

// FuzzParse: no input makes the parser panic. A message that it accepts is written back the same, except for unknown
// parts.
func FuzzParse(f *testing.F) {
	for _, m := range every() {
		f.Add(Append(nil, m))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := Parse(p)
		if err != nil {
			return
		}
		again, err := Parse(Append(nil, m))
		if err != nil {
			t.Fatal(err)
		}
		m.Extensions.Unknown, m.Extensions.Present, again.Extensions.Present = nil, false, false
		if !m.Type.Heartbeat() && len(m.IP) > 45 || len(m.IP) > 45 {
			m.IP = m.IP[:45]
		}
		for i := range m.Gossip {
			m.Gossip[i].IP = m.Gossip[i].IP[:min(45, len(m.Gossip[i].IP))]
		}
		if !reflect.DeepEqual(m, again) {
			t.Errorf("read again:\n got %+v\nwant %+v", again, m)
		}
	})
}

// TestNext: Next finds the ranges of a set, at both ends of the set and within a byte.
func TestNext(t *testing.T) {
	var b Bitmap
	for _, slot := range []int{0, 1, 6, 7, 8, 9, 100, 16383} {
		b.Add(slot)
	}
	var got []int
	for slot := b.Next(0, true); slot < 16384; {
		end := b.Next(slot, false)
		got = append(got, slot, end)
		slot = b.Next(end, true)
	}
	if want := []int{0, 2, 6, 10, 100, 101, 16383, 16384}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}
