package pubsub

import (
	"unsafe"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/glob"
	"spindle/protocol"
)

// publish is PUBLISH channel message. Replies: the number of subscriptions that got the message: those to the channel
// and those to each matching pattern.
// Propagates to replicas, but not to the log, because a message is not data.
func (h *Hub) publish(c *command.Context) error {
	c.Reply.Int(int64(h.Publish(c.Args[1], c.Args[2])))
	h.toOthers(c, false)
	return nil
}

// spublish is SPUBLISH shardchannel message. Replies: the number of clients that got the message. Propagates as PUBLISH
// does.
func (h *Hub) spublish(c *command.Context) error {
	c.Reply.Int(int64(h.PublishShard(c.Args[1], c.Args[2])))
	h.toOthers(c, true)
	return nil
}

// toOthers sends a message to other servers: through the bus to the cluster's nodes, or without a bus to the replicas.
func (h *Hub) toOthers(c *command.Context, shard bool) {
	if h.Bus != nil {
		h.Bus.Publish(c.Args[1], c.Args[2], shard)
		return
	}
	toReplicas(c)
}

// PublishShard sends a message to the subscribers of a shard channel and returns their number.
//
// Lifetime: both arguments are lent.
func (h *Hub) PublishShard(channel, payload []byte) (receivers int) {
	t := h.topics[Shard][string(channel)]
	if t == nil {
		return 0
	}
	receivers = t.audience.Len()
	h.send(t, Shard, "smessage", channel, payload)
	return receivers
}

// toReplicas propagates the call to replicas only, or not at all if the script has excluded replicas.
func toReplicas(c *command.Context) {
	if s := c.Client.Script; s != nil && s.Targets&client.ToReplicas == 0 {
		c.PropagateNothing()
		return
	}
	c.Effects.To = client.ToReplicas
	c.Propagate(c.Args...)
}

// Publish sends a message to the subscribers of channel, then to those of matching patterns. It returns the number of
// deliveries.
//
// Lifetime: both arguments are lent.
func (h *Hub) Publish(channel, payload []byte) (receivers int) {
	if t := h.topics[Channel][string(channel)]; t != nil {
		receivers += t.audience.Len()
		h.send(t, Channel, "message", channel, payload)
	}
	for _, t := range h.patterns {
		if glob.Match(unsafe.Slice(unsafe.StringData(t.name), len(t.name)), channel) {
			receivers += t.audience.Len()
			h.send(t, Pattern, "pmessage", channel, payload)
		}
	}
	return receivers
}

// send encodes the message once for each protocol of the subscribers, and sends it.
func (h *Hub) send(t *topic, k Kind, word string, channel, payload []byte) {
	var made [2][]byte
	speaks2, speaks3 := t.audience.Speaks()
	for i, wanted := range [2]bool{speaks2, speaks3} {
		if !wanted {
			continue
		}
		r := protocol.Reply{RESP3: i == 1, B: make([]byte, 0, 64+len(t.name)+len(channel)+len(payload))}
		if k == Pattern {
			r.Push(4)
			r.BulkString(word)
			r.BulkString(t.name)
		} else {
			r.Push(3)
			r.BulkString(word)
		}
		r.Bulk(channel)
		r.Bulk(payload)
		made[i] = r.B
	}
	if k == Shard && h.Sent != nil {
		n2, n3 := t.audience.Lens()
		h.Sent(channel, n2*len(made[0])+n3*len(made[1]))
	}
	h.core.PushAll(&t.audience, h.hears(h.core.Here(), t, k), made[0], made[1])
}

// hears reports whether cl, which may be nil, is subscribed to t.
func (h *Hub) hears(cl *client.Client, t *topic, k Kind) bool {
	if cl == nil || !cl.Is(client.PubSub) {
		return false
	}
	_, is := h.subscribers[cl].of[k][t.name]
	return is
}
