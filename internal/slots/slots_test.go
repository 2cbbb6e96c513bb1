package slots_test

import (
	"testing"

	"spindle/internal/slots"
)

// TestOf: slots from the specification and from redis-server.
func TestOf(t *testing.T) {
	for key, want := range map[string]uint16{
		"": 0, "123456789": 0x31C3 & 16383, "foo": 12182, "bar": 5061, "hello": 866, "{foo}bar": 12182, "a{foo}b{bar}": 12182,
		"{}foo": 9500, "foo{": 7673, "{foo": 13308, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015,
	} {
		if got := slots.Of([]byte(key)); got != want {
			t.Errorf("Of(%q) = %d, want %d", key, got, want)
		}
	}
}

// TestOfPattern: a pattern has one slot if all keys that it matches are in this slot.
func TestOfPattern(t *testing.T) {
	for pattern, want := range map[string]int{
		"foo": 12182, "{foo}*": 12182, "{foo}": 12182, "*{foo}": -1, "{f*}": -1, "f?o": -1, "{foo}[ab]": 12182, "": 0,
		"{}foo": 9500, "{}foo*": -1, "{}{foo}*": -1,
	} {
		got, one := slots.OfPattern([]byte(pattern))
		if one != (want >= 0) || one && int(got) != want {
			t.Errorf("OfPattern(%q) = %d, %t, want %d", pattern, got, one, want)
		}
	}
}

// TestMap: the owner of a slot, and this node's slots.
func TestMap(t *testing.T) {
	me, other := &slots.Node{ID: "me", IP: "10.0.0.1", Port: 7000},
		&slots.Node{ID: "other", Hostname: "o.example", TLSPort: 7443}
	d := slots.NewDraft(me)
	d.Assign(1, me)
	d.Assign(2, other)
	m := d.Done()
	if m.Owner(0) != nil || m.Owner(1) != me || m.Owner(2) != other || !m.Mine(1) || m.Mine(2) ||
		m.Shard(2) || m.Shard(0) {
		t.Error("wrong owners")
	}
	d = slots.NewDraft(me)
	d.Map().Primary, d.Map().Replica, d.Map().Endpoints = other, true, slots.EndpointHostname
	d.Assign(2, other)
	if m = d.Done(); m.Mine(2) || !m.Shard(2) {
		t.Error("a replica's shard is its primary's")
	}
	if m.Host(me) != "?" || m.Host(other) != "o.example" || me.ClientPort(false) != 7000 || me.ClientPort(true) != 0 ||
		other.ClientPort(true) != 7443 {
		t.Error("wrong endpoints")
	}
}

// TestOfLongKeys compares the checksum of eight bytes at a time with that of single bits.
func TestOfLongKeys(t *testing.T) {
	simple := func(p []byte) (crc uint16) {
		for _, b := range p {
			for bit := 7; bit >= 0; bit-- {
				top := crc>>15 ^ uint16(b>>bit&1)
				crc = crc<<1 ^ top*0x1021
			}
		}
		return crc
	}
	key := []byte{}
	for i := range 100 {
		if got, want := slots.Of(key), simple(key)%slots.Count; got != want {
			t.Fatalf("%q: slot %d, want %d", key, got, want)
		}
		key = append(key, byte('!'+i*37%90))
		if key[i] == '{' {
			key[i] = 'x'
		}
	}
}

// BenchmarkOf takes the slot of a key of 16 bytes.
func BenchmarkOf(b *testing.B) {
	key := []byte("key:000000012345")
	for b.Loop() {
		slots.Of(key)
	}
}
