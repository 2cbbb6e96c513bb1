package server

import (
	"sync"
	"time"

	"spindle/engine/data/value"
	"spindle/internal/slots"
)

// The cluster's view of the keyspace and of pub/sub: slots.Keys and slots.Messages.

// A divided is the keyspace by slots.
type divided struct {
	in *instance

	mu       sync.Mutex
	pending  *slots.Map // the Map before those that Moved has told of and nobody has heard of yet
	hasMoved bool       // somebody is going to tell of them
}

// Count implements slots.Keys.
func (d *divided) Count(slot uint16) int { return d.in.space.InSlot(slot) }

// Each implements slots.Keys.
func (d *divided) Each(slot uint16, limit int, yield func(key []byte)) {
	d.in.space.EachInSlot(slot, limit, func(v value.Value) { yield(v.Key()) })
}

// dropSlice is how long a turn deletes keys of slots that have left.
const dropSlice = 300 * time.Microsecond

// Drop implements slots.Keys.
func (d *divided) Drop(all []uint16) {
	go func() {
		for _, slot := range all {
			for more := true; more; {
				ran := d.in.core.DoWhenWritable(func() {
					m := d.in.slots.Load()
					more = !m.Replica && !m.Shard(slot) && d.in.core.DropSlot(slot, dropSlice)
				})
				if !ran {
					return
				}
				if more {
					time.Sleep(dropSlice) // as long as others have the turn
				}
			}
		}
	}()
}

// Moved implements slots.Keys. Several changes may be told of at once.
func (d *divided) Moved(before, _ *slots.Map) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hasMoved {
		return
	}
	d.pending, d.hasMoved = before, true
	go d.tell()
}

// tell has the core and pub/sub go by the Map of now.
func (d *divided) tell() {
	d.mu.Lock()
	before := d.pending
	d.hasMoved = false
	d.mu.Unlock()
	now := d.in.slots.Load()
	var left map[uint16]bool // slots with another owner
	if before != nil {
		left = changed(before, now)
	}
	d.in.core.Do(func() {
		d.in.core.Reroute()
		if len(left) > 0 {
			d.in.hub.EndShards(func(channel string) bool { return left[slots.Of([]byte(channel))] })
		}
	})
}

// changed are the slots that had an owner and have another one, or none, and those of a shard that this node has left.
func changed(before, now *slots.Map) map[uint16]bool {
	left := map[uint16]bool{}
	var was, is *slots.Node
	gone := false
	for slot := range uint16(slots.Count) {
		if a, b := before.Owner(slot), now.Owner(slot); a != was || b != is { // slots come in runs
			was, is = a, b
			gone = a != nil && (b == nil || a.ID != b.ID || before.Shard(slot) && !now.Shard(slot))
		}
		if gone {
			left[slot] = true
		}
	}
	return left
}

// deliveries are messages of other nodes on the way to this node's subscribers, in order.
type deliveries struct {
	in *instance

	mu      sync.Mutex
	list    []delivery
	bytes   int
	running bool
}

type delivery struct {
	channel, message []byte
	shard            bool
}

// mostDelivered is how many bytes may wait for a turn. Messages beyond are lost, as those to a client that is too slow.
const mostDelivered = 64 << 20

// Deliver implements slots.Messages.
func (d *deliveries) Deliver(channel, message []byte, shard bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(channel) + len(message)
	if d.bytes+n > mostDelivered {
		return
	}
	d.list = append(d.list, delivery{channel, message, shard})
	d.bytes += n
	if !d.running {
		d.running = true
		go d.run()
	}
}

// run delivers until nothing is left.
func (d *deliveries) run() {
	for {
		d.mu.Lock()
		list := d.list
		d.list, d.bytes, d.running = nil, 0, len(list) > 0
		d.mu.Unlock()
		if len(list) == 0 {
			return
		}
		d.in.core.Do(func() {
			for _, m := range list {
				if m.shard {
					d.in.hub.PublishShard(m.channel, m.message)
				} else {
					d.in.hub.Publish(m.channel, m.message)
				}
			}
		})
	}
}
