package slots

// Keys is the cluster's access to the keyspace, which implements it.
type Keys interface {
	// Count returns how many keys slot holds in all databases, including expired keys that are not removed yet. Any
	// goroutine, without a turn.
	Count(slot uint16) int
	// Mark marks slot, if it has keys. Marked reports whether it has had keys at each moment since the latest Mark. A
	// moment without keys counts, also within a turn. Any goroutine, without a turn.
	Mark(slot uint16)
	Marked(slot uint16) bool
	// Drop deletes the keys of slots in slices of turns, and replicas get the deletions. It skips a slot that belongs
	// to this node's shard again by then, or for which may returns false in the turn. Any goroutine; it does not block.
	Drop(slots []uint16, may func(slot uint16) bool)
	// Moved notes that Current has a new Map. In a later turn, it informs clients that wait for keys of slots that have
	// left, or are subscribed to their shard channels. Any goroutine; it does not block. before is nil for the first
	// Map.
	Moved(before, now *Map)
}

// Bus is the core's access to the cluster, which implements it.
type Bus interface {
	// Publish sends a message to the nodes of the cluster, or if shard is set, to the nodes of this node's shard. Turn
	// only. It copies channel and message, and does not block.
	Publish(channel, message []byte, shard bool)
}

// Messages takes messages that other nodes have published; pub/sub implements it.
type Messages interface {
	// Deliver sends a message to this node's own subscribers in a later turn. channel and message then belong to the
	// receiver. Any goroutine; it does not block.
	Deliver(channel, message []byte, shard bool)
}
