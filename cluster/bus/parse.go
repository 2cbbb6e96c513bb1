package bus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// ErrFrame means that the stream does not hold messages. Nothing after this error can be parsed.
var ErrFrame = errors.New("Bad message length or signature received on the Cluster bus")

// Upper bounds of a message's length. A published message may have a channel and a payload of a client's maximum
// length.
const (
	maxHeartbeat = HeaderBytes + math.MaxUint16*gossipBytes + 1<<20
	maxPublish   = HeaderBytes + 8 + 2*(512<<20)
)

// BeginBytes is how many bytes Begins needs, and PrefixBytes is how many Frame needs.
const (
	BeginBytes  = 8
	PrefixBytes = 16
)

// Begins reports whether a message can begin with p, which has at least BeginBytes.
func Begins(p []byte) bool {
	return bytes.HasPrefix(p, []byte("RCmb")) && binary.BigEndian.Uint32(p[4:]) >= HeaderBytes
}

// Frame returns the length of the message that begins with p. p has at least PrefixBytes.
//
// Errors: ErrFrame.
func Frame(p []byte) (length int, err error) {
	n := int64(binary.BigEndian.Uint32(p[4:]))
	if !Begins(p) {
		return 0, ErrFrame
	}
	limit := int64(maxHeartbeat)
	switch Type(binary.BigEndian.Uint16(p[12:])) {
	case Publish, PublishShard, Module:
		limit = maxPublish
	}
	if n > limit {
		return 0, ErrFrame
	}
	return int(n), nil
}

// TypeOf returns the type of a message that may be damaged in other parts.
func TypeOf(p []byte) Type { return Type(binary.BigEndian.Uint16(p[12:])) }

// errVersion is the error for a message of another protocol version. It is ignored without a log line.
var errVersion = errors.New("a message of another version")

// Silent reports whether an error of Parse should not be logged.
func Silent(err error) bool { return errors.Is(err, errVersion) }

// Parse reads one whole message, whose length came from Frame.
//
// Errors: the message is malformed. The next message in the stream can still be parsed.
func Parse(p []byte) (*Message, error) {
	if len(p) < HeaderBytes {
		return nil, ErrFrame
	}
	u16, u64 := binary.BigEndian.Uint16, binary.BigEndian.Uint64
	if u16(p[8:]) != 1 {
		return nil, errVersion
	}
	m := &Message{
		Port: int(u16(p[10:])), Type: Type(u16(p[12:])), CurrentEpoch: u64(p[16:]), ConfigEpoch: u64(p[24:]),
		Offset: int64(u64(p[32:])), Sender: string(p[40:80]), Slots: (*Bitmap)(p[80:2128]),
		IP: untilZero(p[2168 : 2168+ipBytes]), Port2: int(u16(p[2246:])), BusPort: int(u16(p[2248:])),
		Flags: Flags(u16(p[2250:])), Down: p[2252] != 0, Paused: p[2253]&flagPaused != 0, ForceAck: p[2253]&flagForceAck != 0,
	}
	if p[2128] != 0 || !bytes.Equal(p[2128:2168], make([]byte, IDBytes)) {
		m.Primary = string(p[2128:2168])
	}
	data := p[HeaderBytes:]
	switch {
	case m.Type.Heartbeat():
		return m.parseHeartbeat(p, data)
	case m.Type == Fail:
		if len(data) != IDBytes {
			return nil, m.wrongLength(len(p), HeaderBytes+IDBytes)
		}
		m.About = string(data)
	case m.Type == Update:
		if len(data) != updateBytes {
			return nil, m.wrongLength(len(p), HeaderBytes+updateBytes)
		}
		m.UpdateEpoch, m.About, m.UpdateSlots = u64(data), string(data[8:48]), (*Bitmap)(data[48:])
	case m.Type == Publish || m.Type == PublishShard:
		if len(data) < 8 {
			return nil, m.wrongLength(len(p), HeaderBytes+8)
		}
		channel, payload := uint64(binary.BigEndian.Uint32(data)), uint64(binary.BigEndian.Uint32(data[4:]))
		if uint64(len(data)) != 8+channel+payload {
			return nil, m.wrongLength(len(p), int(HeaderBytes+8+channel+payload))
		}
		m.Channel, m.Payload = data[8:8+channel], data[8+channel:]
	case m.Type == VoteRequest || m.Type == Vote || m.Type == ManualStart:
		if len(data) != 0 {
			return nil, m.wrongLength(len(p), HeaderBytes)
		}
	}
	return m, nil // Module and types of later versions are ignored
}

// parseHeartbeat reads gossip and extensions.
func (m *Message) parseHeartbeat(p, data []byte) (*Message, error) {
	count := int(binary.BigEndian.Uint16(p[14:]))
	if len(data) < count*gossipBytes {
		return nil, m.wrongLength(len(p), HeaderBytes+count*gossipBytes)
	}
	m.Gossip = make([]Gossip, count)
	for i := range m.Gossip {
		g := data[i*gossipBytes : (i+1)*gossipBytes]
		text := string(g[:94])
		u16 := func(at int) int { return int(binary.BigEndian.Uint16(g[at:])) }
		ip, _, _ := strings.Cut(text[48:], "\x00")
		m.Gossip[i] = Gossip{
			ID: text[:IDBytes], PingSent: binary.BigEndian.Uint32(g[40:]), PongReceived: binary.BigEndian.Uint32(g[44:]),
			IP: ip, Port: u16(94), BusPort: u16(96), Flags: Flags(u16(98)), Port2: u16(100),
		}
	}
	data = data[count*gossipBytes:]
	if p[2253]&flagExtended != 0 {
		m.Extensions.Present = true
		for range binary.BigEndian.Uint16(p[2214:]) {
			if len(data) < 8 {
				return nil, m.tooLong(len(p))
			}
			length := int(binary.BigEndian.Uint32(data))
			if length%8 != 0 || length < 8 {
				return nil, fmt.Errorf("Received a %s packet without proper padding (%d bytes)", m.Type, length)
			}
			if length > len(data) {
				return nil, m.tooLong(len(p))
			}
			m.Extensions.take(binary.BigEndian.Uint16(data[4:]), data[8:length])
			data = data[length:]
		}
	}
	if len(data) != 0 {
		return nil, m.wrongLength(len(p), len(p)-len(data))
	}
	return m, nil
}

// take reads one extension. It ignores an extension that is too short for its type.
func (e *Extensions) take(kind uint16, body []byte) {
	switch {
	case kind == extHostname:
		e.Hostname = untilZero(body)
		e.Asks = e.Asks || e.Hostname == ""
	case kind == extHumanName:
		e.HumanName = untilZero(body)
	case kind == extForgotten && len(body) >= IDBytes+8:
		e.Forgotten = append(e.Forgotten, Forgotten{string(body[:IDBytes]), binary.BigEndian.Uint64(body[IDBytes:])})
	case kind == extShardID && len(body) >= IDBytes:
		e.ShardID = string(body[:IDBytes])
	case kind == extZone:
		e.Zone, e.HasZone = untilZero(body), true
	case kind > extShardID:
		e.Unknown = append(e.Unknown, kind)
	}
}

func (m *Message) wrongLength(got, want int) error {
	return fmt.Errorf("Received invalid %s packet of length %d but expected length %d", m.Type, got, want)
}

func (m *Message) tooLong(total int) error {
	return fmt.Errorf("Received invalid %s packet with extension data that exceeds total packet length (%d)",
		m.Type, total)
}

func untilZero(p []byte) string {
	if i := bytes.IndexByte(p, 0); i >= 0 {
		p = p[:i]
	}
	return string(p)
}
