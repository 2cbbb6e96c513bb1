package slots

// Keys is the cluster's access to the keyspace, which implements it.
type Keys interface {
	// Count returns how many keys slot holds in all databases, with expired ones that are not removed yet. Any
	// goroutine, without a turn.
	Count(slot uint16) int
	// Drop deletes the keys of slots in slices of turns, and replicas get the deletions. It skips a slot that by then
	// belongs to this node's shard again. Any goroutine; does not block.
	Drop(slots []uint16)
	// Moved tells that Current has a new Map. In a later turn, clients that wait for keys of slots that left, or are
	// subscribed to their shard channels, are told. Any goroutine; does not block. before is nil for the first.
	Moved(before, now *Map)
}

// Bus is the core's access to the cluster, which implements it.
type Bus interface {
	// Publish sends a message to the nodes of the cluster, or to those of this node's shard if shard is set. Turn only;
	// channel and message are copied; does not block.
	Publish(channel, message []byte, shard bool)
}

// Messages takes messages that other nodes have published; pub/sub implements it.
type Messages interface {
	// Deliver sends a message to this node's own subscribers in a later turn. channel and message then belong to the
	// receiver. Any goroutine; does not block.
	Deliver(channel, message []byte, shard bool)
}
