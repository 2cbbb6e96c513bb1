package slots

// Keys is what the cluster asks of the keyspace, which implements it.
type Keys interface {
	// Count is how many keys slot holds, expired ones that nobody has removed among them. Any goroutine, without a
	// turn.
	Count(slot uint16) int
	// Each calls yield with up to limit keys of slot, which are lent until yield returns. Turn only.
	Each(slot uint16, limit int, yield func(key []byte))
	// Drop has the keys of slots deleted in slices of turns, as deletions that replicas hear of. A slot that belongs to
	// this node's shard again when its time comes is left alone. Any goroutine; does not block.
	Drop(slots []uint16)
	// Moved says that Current has another Map now: clients that wait for keys, or are subscribed to shard channels, of
	// slots that have left are told in a turn to come. Any goroutine; does not block. before is nil for the first.
	Moved(before, now *Map)
}

// Bus is what the core tells the cluster, which implements it.
type Bus interface {
	// Publish sends a message to the nodes of the cluster, or to those of this node's shard if shard is set. Turn only;
	// channel and message are copied; does not block.
	Publish(channel, message []byte, shard bool)
}

// Messages takes what other nodes have published: the side of pub/sub implements it.
type Messages interface {
	// Deliver hands a message to this node's own subscribers in a turn to come. The caller gives channel and message
	// away. Any goroutine; does not block.
	Deliver(channel, message []byte, shard bool)
}
