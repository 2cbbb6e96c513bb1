package cluster

import (
	"sync"

	"spindle/engine"
	"spindle/engine/data/keyspace"
	"spindle/engine/family/pubsub"
	"spindle/internal/slots"
)

// This file has the node's keyspace and subscribers, in the form that the cluster uses.

// A Local holds this node's core, keyspace and subscribers.
type Local struct {
	Core    *engine.Core
	Space   *keyspace.Keyspace
	Hub     *pubsub.Hub
	Current *slots.Current
	Moved   func() // the core and pub/sub now use another map; turn only
}

// Keys returns the keyspace, ordered by slots.
func (l Local) Keys() slots.Keys { return &localKeys{local: l} }

// Messages returns the receiver that passes other nodes' messages to this node's subscribers.
func (l Local) Messages() slots.Messages { return &localMessages{local: l} }

// A localKeys is the keyspace ordered by slots. It implements slots.Keys.
type localKeys struct {
	local Local

	mu       sync.Mutex
	pending  *slots.Map // the Map before the changes that apply has not handled yet
	hasMoved bool       // a call of apply is coming

	dropping sync.Mutex // held while Drop's keys are removed
}

func (d *localKeys) Count(slot uint16) int   { return d.local.Space.InSlot(slot) }
func (d *localKeys) Mark(slot uint16)        { d.local.Space.Mark(slot) }
func (d *localKeys) Marked(slot uint16) bool { return d.local.Space.Marked(slot) }

func (d *localKeys) Drop(all []uint16, may func(slot uint16) bool) {
	go func() {
		d.dropping.Lock() // each removal takes a share of the core's time
		defer d.dropping.Unlock()
		d.local.Core.DropSlots(all, func(slot uint16) bool {
			m := d.local.Current.Load()
			return !m.Replica && !m.Shard(slot) && !d.local.Space.Hides(slot) && may(slot)
		})
	}()
}

// Moved implements slots.Keys. One run of apply may handle several changes.
func (d *localKeys) Moved(before, _ *slots.Map) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hasMoved {
		return
	}
	d.pending, d.hasMoved = before, true
	go d.apply()
}

// apply makes the core and pub/sub use the current Map.
func (d *localKeys) apply() {
	d.mu.Lock()
	before := d.pending
	d.hasMoved = false
	d.mu.Unlock()
	now := d.local.Current.Load()
	var left map[uint16]bool // slots with another owner
	if before != nil {
		left = changed(before, now)
	}
	d.local.Core.Do(func() {
		d.local.Core.Reroute()
		if len(left) > 0 {
			d.local.Hub.EndShards(func(channel string) bool { return left[slots.Of([]byte(channel))] })
		}
		d.local.Moved()
	})
}

// changed returns the slots whose owner has changed or is gone, and the slots of a shard that this node has left.
func changed(before, now *slots.Map) map[uint16]bool {
	left := map[uint16]bool{}
	var was, is *slots.Node
	gone := false
	for slot := range uint16(slots.Count) {
		if a, b := before.Owner(slot), now.Owner(slot); a != was || b != is { // slots come in ranges
			was, is = a, b
			gone = a != nil && (b == nil || a.ID != b.ID || before.Shard(slot) && !now.Shard(slot))
		}
		if gone {
			left[slot] = true
		}
	}
	return left
}

// A localMessages holds other nodes' messages for this node's subscribers, in order.
type localMessages struct {
	local Local

	mu      sync.Mutex
	list    []delivery
	bytes   int
	running bool
}

type delivery struct {
	channel, message []byte
	shard            bool
}

// mostDelivered is how many bytes may wait for a turn. Further messages are lost, as with a client that reads too
// slowly.
const mostDelivered = 64 << 20

func (d *localMessages) Deliver(channel, message []byte, shard bool) {
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

// run delivers messages until none is left.
func (d *localMessages) run() {
	for {
		d.mu.Lock()
		list := d.list
		d.list, d.bytes, d.running = nil, 0, len(list) > 0
		d.mu.Unlock()
		if len(list) == 0 {
			return
		}
		d.local.Core.Do(func() {
			for _, m := range list {
				if m.shard {
					d.local.Hub.PublishShard(m.channel, m.message)
				} else {
					d.local.Hub.Publish(m.channel, m.message)
				}
			}
		})
	}
}
