package pubsub

import (
	"strings"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// words are the names of the confirmations of each kind.
var words = [kinds]struct{ joined, left string }{
	Channel: {"subscribe", "unsubscribe"},
	Pattern: {"psubscribe", "punsubscribe"},
	Shard:   {"ssubscribe", "sunsubscribe"},
}

// subscribe is SUBSCRIBE channel [channel …]. Replies: a push for each channel: "subscribe", the channel, and the
// number of the client's channels and patterns.
func (h *Hub) subscribe(c *command.Context) error { return h.listen(c, Channel) }

// psubscribe is PSUBSCRIBE pattern [pattern …]. Replies: as SUBSCRIBE.
func (h *Hub) psubscribe(c *command.Context) error { return h.listen(c, Pattern) }

// ssubscribe is SSUBSCRIBE shardchannel [shardchannel …]. Replies: as SUBSCRIBE, with the number of shard channels.
// Errors: inside a transaction.
func (h *Hub) ssubscribe(c *command.Context) error { return h.listen(c, Shard) }

// unsubscribe is UNSUBSCRIBE [channel …]. Without names it ends all subscriptions to channels. Replies: a push for each
// channel, even if the client was not subscribed to it. If there is no channel, one push with null.
func (h *Hub) unsubscribe(c *command.Context) error { return h.unlisten(c, Channel) }

// punsubscribe is PUNSUBSCRIBE [pattern …]. Replies: as UNSUBSCRIBE.
func (h *Hub) punsubscribe(c *command.Context) error { return h.unlisten(c, Pattern) }

// sunsubscribe is SUNSUBSCRIBE [shardchannel …]. Replies: as UNSUBSCRIBE.
func (h *Hub) sunsubscribe(c *command.Context) error { return h.unlisten(c, Shard) }

func (h *Hub) listen(c *command.Context, k Kind) error {
	cl := c.Client
	if cl.Conn == nil || cl.Is(client.DenyBlocking) && (k == Shard || !cl.Is(client.Multi)) {
		return errDenyBlocking(strings.ToUpper(c.Spec.Name))
	}
	for _, name := range c.Args[1:] {
		h.join(cl, k, name)
		h.confirm(c, k, words[k].joined, name)
	}
	return nil
}

func (h *Hub) unlisten(c *command.Context, k Kind) error {
	cl := c.Client
	if len(c.Args) > 1 {
		for _, name := range c.Args[1:] {
			h.leave(cl, k, string(name))
			h.confirm(c, k, words[k].left, name)
		}
		return nil
	}
	s := h.subscribers[cl]
	if s == nil || len(s.of[k]) == 0 {
		h.confirm(c, k, words[k].left, nil)
		return nil
	}
	for _, name := range s.names(k) {
		h.leave(cl, k, name)
		h.confirm(c, k, words[k].left, []byte(name))
	}
	return nil
}

// EndShards ends the subscriptions to shard channels that moved to other nodes, and notifies the subscribers.
func (h *Hub) EndShards(gone func(channel string) bool) {
	any := false
	for name := range h.topics[Shard] {
		any = any || gone(name)
	}
	if !any {
		return
	}
	for cl, s := range h.subscribers {
		for _, name := range s.names(Shard) {
			if !gone(name) {
				continue
			}
			h.leave(cl, Shard, name)
			_, _, shards := h.Count(cl)
			r := protocol.Reply{RESP3: cl.Protocol == 3}
			r.Push(3)
			r.BulkString(words[Shard].left)
			r.BulkString(name)
			r.Int(int64(shards))
			h.core.Push(cl, r.B)
		}
	}
}

// confirm sends the client a confirmation, even under CLIENT REPLY OFF. A nil name becomes null.
func (h *Hub) confirm(c *command.Context, k Kind, word string, name []byte) {
	channels, patterns, shards := h.Count(c.Client)
	count := channels + patterns
	if k == Shard {
		count = shards
	}
	r := c.Reply
	silenced := c.Client.Is(client.ReplyOff | client.ReplySkip)
	if silenced {
		r = &protocol.Reply{RESP3: c.Client.Protocol == 3}
	}
	r.Push(3)
	r.BulkString(word)
	if name == nil {
		r.Null()
	} else {
		r.Bulk(name)
	}
	r.Int(int64(count))
	if silenced {
		h.core.Push(c.Client, r.B)
	}
}
