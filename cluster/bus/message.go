// Package bus is the wire format of Redis Cluster: the messages between nodes, in version 1 of the protocol.
//
// Owner: the caller. The package has only pure functions over bytes.
// Never: opens a socket, or trusts a length or count that does not fit into the message.
// Start here; append.go writes messages, parse.go reads them.
//
//	0      4       8    10    12    14     16             24            32        40      80     2128
//	+------+-------+----+-----+-----+------+--------------+-------------+---------+-------+------+----
//	| RCmb | total | 1  |port |type |count | currentEpoch | configEpoch | offset  |sender |slots |
//	+------+-------+----+-----+-----+------+--------------+-------------+---------+-------+------+----
//	2128      2168   2214        2216     2246  2248  2250  2252  2253   2256
//	+---------+------+-----------+--------+-----+-----+-----+-----+------+------
//	| primary | ip   |extensions |reserved|port2|cport|flags|state|mflags| data    big endian throughout
//	+---------+------+-----------+--------+-----+-----+-----+-----+------+------
//
// Source: the Redis Cluster specification, and messages of 7.0 and 7.4 nodes.
package bus

import (
	"encoding/binary"
	"math/bits"
)

// A Type is the kind of a message.
type Type uint16

const (
	Ping Type = iota
	Pong
	Meet
	Fail
	Publish
	VoteRequest
	Vote
	Update
	ManualStart // a replica asks its primary to pause writes for a manual failover
	Module
	PublishShard
	Types
)

var typeNames = [Types]string{"ping", "pong", "meet", "fail", "publish", "auth-req", "auth-ack", "update", "mfstart",
	"module", "publishshard"}

// String returns the type's name in CLUSTER INFO.
func (t Type) String() string {
	if t < Types {
		return typeNames[t]
	}
	return "unknown"
}

// Heartbeat reports whether messages of this type carry gossip.
func (t Type) Heartbeat() bool { return t <= Meet }

// Flags describe a node, in messages and in nodes.conf.
type Flags uint16

const (
	Primary Flags = 1 << iota
	Replica
	MaybeFailed // PFAIL
	Failed      // FAIL
	Myself
	Handshake
	NoAddress
	ToMeet
	MigrateTo
	NoFailover
)

// Lengths of the parts.
const (
	HeaderBytes = 2256
	IDBytes     = 40
	SlotBytes   = 16384 / 8
	ipBytes     = 46
	gossipBytes = 104
	updateBytes = 8 + IDBytes + SlotBytes
)

// Bits in the first byte of the header's message flags.
const (
	flagPaused   = 1 << 0
	flagForceAck = 1 << 1
	flagExtended = 1 << 2
)

// Bitmap is a set of slots.
type Bitmap [SlotBytes]byte

// Has reports whether slot is in the set.
func (b *Bitmap) Has(slot int) bool { return b[slot>>3]&(1<<(slot&7)) != 0 }

// Add adds slot.
func (b *Bitmap) Add(slot int) { b[slot>>3] |= 1 << (slot & 7) }

// Ranges returns the slots of the set, as pairs of the first and last slot of each range.
func (b *Bitmap) Ranges() (ranges [][2]int) {
	for slot := b.Next(0, true); slot < 8*SlotBytes; {
		end := b.Next(slot, false)
		ranges = append(ranges, [2]int{slot, end - 1})
		slot = b.Next(end, true)
	}
	return ranges
}

// Meets reports whether the two sets have a slot in common.
func (b *Bitmap) Meets(other *Bitmap) bool {
	for i := range b {
		if b[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// Remove removes slot.
func (b *Bitmap) Remove(slot int) { b[slot>>3] &^= 1 << (slot & 7) }

// Next returns the first slot >= from that is in the set, or with in false, that is not. If there is none, it returns 8
// * SlotBytes.
func (b *Bitmap) Next(from int, in bool) int {
	const all = 8 * SlotBytes
	for from < all {
		many := binary.LittleEndian.Uint64(b[from>>6<<3:])
		if !in {
			many = ^many
		}
		if many >>= from & 63; many != 0 {
			return from + bits.TrailingZeros64(many)
		}
		from = from&^63 + 64
	}
	return all
}

// A Message is one message. Fields that its type does not have are zero.
//
// Lifetime: in a parsed message, Slots, UpdateSlots, Channel and Payload point into the parsed bytes; the rest are
// copies.
type Message struct {
	Type         Type
	Port, Port2  int // for clients: Port with the cluster's choice of TLS, Port2 with the other
	BusPort      int
	CurrentEpoch uint64
	ConfigEpoch  uint64
	Offset       int64
	Sender       string  // an ID; a peer may put anything here
	Slots        *Bitmap // never nil
	Primary      string  // the sender's primary; "" for a primary
	IP           string  // announced; "": the receiver uses the connection's address
	Flags        Flags
	Down         bool // the sender's cluster state is fail
	Paused       bool // the sender pauses writes for a manual failover
	ForceAck     bool // asks for a vote although the primary is up

	Gossip     []Gossip
	Extensions Extensions

	About string // Fail and Update: the node

	UpdateEpoch uint64
	UpdateSlots *Bitmap // only in Update

	Channel, Payload []byte
}

// Gossip is a heartbeat's report about a third node.
type Gossip struct {
	ID                     string
	PingSent, PongReceived uint32 // Unix seconds; 0: none
	IP                     string
	Port, Port2, BusPort   int
	Flags                  Flags
}

// Extensions are optional parts of heartbeats since 7.0.
//
// Asks means that the sender knows extensions, but does not know yet whether the receiver does. On the wire this is an
// empty host name as the first extension. No other version sends that, and 7.0 ignores it without a log line.
type Extensions struct {
	Asks      bool
	Hostname  string
	HumanName string
	Forgotten []Forgotten
	ShardID   string
	Zone      string   // availability-zone
	HasZone   bool     // the sender knows of zones
	Unknown   []uint16 // types that this version does not know; only in parsed messages
	Present   bool     // the parsed message had extensions
}

// Forgotten is a node that must not be added again for a while.
type Forgotten struct {
	ID         string
	TTLSeconds uint64
}

// Types of extensions.
const (
	extHostname uint16 = iota
	extHumanName
	extForgotten
	extShardID
	extZone uint16 = 8 // Valkey's; 4 to 7 are not used here, because Redis and Valkey have 4 for different things
)

// ValidID reports whether id can be a node's ID: 40 digits and lower-case letters.
func ValidID(id string) bool {
	if len(id) != IDBytes {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
