// Package bus is the wire of Redis Cluster: what nodes say to each other, byte for byte, in version 1 of its protocol.
//
// Owner: its caller; it is pure functions over bytes.
// Never: opens a socket, or believes a length or a count that the message does not have room for.
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
// Source: the Redis Cluster specification, and what nodes of 7.0 and 7.4 send.
package bus

import (
	"encoding/binary"
	"math/bits"
)

// A Type is what a message is about.
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
	ManualStart // a replica asks its primary to hold writes back: a manual failover
	Module
	PublishShard
	Types
)

var typeNames = [Types]string{"ping", "pong", "meet", "fail", "publish", "auth-req", "auth-ack", "update", "mfstart",
	"module", "publishshard"}

// String is the type's name in CLUSTER INFO.
func (t Type) String() string {
	if t < Types {
		return typeNames[t]
	}
	return "unknown"
}

// Heartbeat says that the message carries gossip.
func (t Type) Heartbeat() bool { return t <= Meet }

// Flags are what a node is, as its peers and nodes.conf know them.
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

// Bits of the first of the header's message flags.
const (
	flagPaused   = 1 << 0
	flagForceAck = 1 << 1
	flagExtended = 1 << 2
)

// Bitmap is a set of slots.
type Bitmap [SlotBytes]byte

// Has says whether slot is in the set.
func (b *Bitmap) Has(slot int) bool { return b[slot>>3]&(1<<(slot&7)) != 0 }

// Add puts slot into the set.
func (b *Bitmap) Add(slot int) { b[slot>>3] |= 1 << (slot & 7) }

// Remove takes slot out of the set.
func (b *Bitmap) Remove(slot int) { b[slot>>3] &^= 1 << (slot & 7) }

// Next is the first slot at or behind from that is in the set, or that is not, as in says. If there is none, it is
// 8 * SlotBytes.
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

// A Message is one message. What does not belong to its type is zero.
//
// Lifetime: of a parsed one, Slots, UpdateSlots, Channel and Payload are views of what was parsed; the rest is its own.
type Message struct {
	Type         Type
	Port, Port2  int // of clients: of the kind that the cluster uses, and of the other (with TLS, or without)
	BusPort      int
	CurrentEpoch uint64
	ConfigEpoch  uint64
	Offset       int64
	Sender       string  // an ID, or what somebody has put in its place
	Slots        *Bitmap // never nil
	Primary      string  // whose replica the sender is; "" for a primary
	IP           string  // announced; "" leaves it to who hears it
	Flags        Flags
	Down         bool // the sender's cluster state is fail
	Paused       bool // the sender holds writes back for a manual failover
	ForceAck     bool // the vote is asked for although the primary is up

	Gossip     []Gossip
	Extensions Extensions

	About string // of Fail and Update: the node

	UpdateEpoch uint64
	UpdateSlots *Bitmap // of Update alone

	Channel, Payload []byte
}

// Gossip is what a heartbeat says of a third node.
type Gossip struct {
	ID                     string
	PingSent, PongReceived uint32 // Unix seconds; 0 for none
	IP                     string
	Port, Port2, BusPort   int
	Flags                  Flags
}

// Extensions are what heartbeats of 7.0 and later may carry beside gossip.
//
// Asks says that the sender knows extensions, and has not seen yet whether who hears it does. On the wire it is an
// empty host name in front, which no version writes otherwise: 7.0 knows it, and passes it over without a word.
type Extensions struct {
	Asks      bool
	Hostname  string
	HumanName string
	Forgotten []Forgotten
	ShardID   string
	Unknown   []uint16 // types that this version does not know; only of a parsed message
	Present   bool     // a parsed message had some
}

// Forgotten is a node that is not to be taken back for a while.
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
)

// ValidID says whether id can be a node's: 40 digits and small letters.
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
