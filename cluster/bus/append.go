package bus

import (
	"encoding/binary"
	"slices"
)

// usualExtensions is the room that a heartbeat's usual extensions need. It also fits the lengths of a published
// message.
const usualExtensions = 128

// Append appends m to dst. A longer ID is cut, a shorter one is padded with zeros.
func Append(dst []byte, m *Message) []byte {
	start := len(dst)
	dst = slices.Grow(dst, HeaderBytes+len(m.Gossip)*gossipBytes+usualExtensions+len(m.Channel)+len(m.Payload))
	dst = append(dst, make([]byte, HeaderBytes)...)
	h := dst[start:]
	put16, put64 := binary.BigEndian.PutUint16, binary.BigEndian.PutUint64
	copy(h, "RCmb")
	put16(h[8:], 1)
	put16(h[10:], uint16(m.Port))
	put16(h[12:], uint16(m.Type))
	put64(h[16:], m.CurrentEpoch)
	put64(h[24:], m.ConfigEpoch)
	put64(h[32:], uint64(m.Offset))
	copy(h[40:80], m.Sender)
	copy(h[80:2128], m.Slots[:])
	copy(h[2128:2168], m.Primary)
	copy(h[2168:2168+ipBytes-1], m.IP)
	put16(h[2246:], uint16(m.Port2))
	put16(h[2248:], uint16(m.BusPort))
	put16(h[2250:], uint16(m.Flags))
	h[2252] = boolByte(m.Down)
	h[2253] = boolByte(m.Paused)*flagPaused | boolByte(m.ForceAck)*flagForceAck
	switch {
	case m.Type.Heartbeat():
		put16(h[14:], uint16(len(m.Gossip)))
		for i := range m.Gossip {
			dst = appendGossip(dst, &m.Gossip[i])
		}
		var n uint16
		dst, n = appendExtensions(dst, &m.Extensions)
		if n > 0 {
			put16(dst[start+2214:], n)
			dst[start+2253] |= flagExtended
		}
	case m.Type == Fail:
		dst = appendFixed(dst, m.About, IDBytes)
	case m.Type == Update:
		dst = binary.BigEndian.AppendUint64(dst, m.UpdateEpoch)
		dst = appendFixed(dst, m.About, IDBytes)
		dst = append(dst, m.UpdateSlots[:]...) // the sender has set it
	case m.Type == Publish || m.Type == PublishShard:
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.Channel)))
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.Payload)))
		dst = append(append(dst, m.Channel...), m.Payload...)
	}
	binary.BigEndian.PutUint32(dst[start+4:], uint32(len(dst)-start))
	return dst
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// appendFixed appends text, padded with zeros to size bytes.
func appendFixed(dst []byte, text string, size int) []byte {
	dst = append(dst, text[:min(len(text), size)]...)
	return append(dst, make([]byte, size-min(len(text), size))...)
}

func appendGossip(dst []byte, g *Gossip) []byte {
	dst = appendFixed(dst, g.ID, IDBytes)
	dst = binary.BigEndian.AppendUint32(dst, g.PingSent)
	dst = binary.BigEndian.AppendUint32(dst, g.PongReceived)
	dst = appendFixed(dst, g.IP[:min(len(g.IP), ipBytes-1)], ipBytes)
	return append(dst, byte(g.Port>>8), byte(g.Port), byte(g.BusPort>>8), byte(g.BusPort), byte(g.Flags>>8), byte(g.Flags),
		byte(g.Port2>>8), byte(g.Port2), 0, 0)
}

// appendExtensions appends the extensions and returns their number. Each is padded to a multiple of 8.
func appendExtensions(dst []byte, e *Extensions) ([]byte, uint16) {
	n := uint16(0)
	begin := func(kind uint16, payload int) {
		dst = binary.BigEndian.AppendUint32(dst, uint32(8+(payload+7)&^7))
		dst = binary.BigEndian.AppendUint16(dst, kind)
		dst = append(dst, 0, 0)
		n++
	}
	text := func(kind uint16, s string, is bool) {
		if is {
			begin(kind, len(s)+1)
			dst = appendFixed(dst, s, (len(s)+1+7)&^7)
		}
	}
	text(extHostname, "", e.Asks)
	text(extHostname, e.Hostname, e.Hostname != "")
	text(extHumanName, e.HumanName, e.HumanName != "")
	for _, f := range e.Forgotten {
		begin(extForgotten, IDBytes+8)
		dst = appendFixed(dst, f.ID, IDBytes)
		dst = binary.BigEndian.AppendUint64(dst, f.TTLSeconds)
	}
	if e.ShardID != "" {
		begin(extShardID, IDBytes)
		dst = appendFixed(dst, e.ShardID, IDBytes)
	}
	text(extZone, e.Zone, e.HasZone)
	return dst, n
}
