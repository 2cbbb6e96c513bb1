package pubsub

import (
	"spindle/engine/command"
	"spindle/internal/glob"
)

// channels is PUBSUB CHANNELS [pattern]. Replies: the channels that have subscribers. Subscriptions to patterns do not
// count.
func (h *Hub) channels(c *command.Context) error { return h.list(c, Channel) }

// shardChannels is PUBSUB SHARDCHANNELS [pattern].
func (h *Hub) shardChannels(c *command.Context) error { return h.list(c, Shard) }

func (h *Hub) list(c *command.Context, k Kind) error {
	if len(c.Args) > 3 {
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	if len(c.Args) == 2 {
		c.Reply.Array(len(h.topics[k]))
		for name := range h.topics[k] {
			c.Reply.BulkString(name)
		}
		return nil
	}
	var fit []string
	for name := range h.topics[k] {
		if glob.Match(c.Args[2], []byte(name)) {
			fit = append(fit, name)
		}
	}
	c.Reply.Array(len(fit))
	for _, name := range fit {
		c.Reply.BulkString(name)
	}
	return nil
}

// numPat is PUBSUB NUMPAT. Replies: the number of patterns with subscribers.
func (h *Hub) numPat(c *command.Context) error {
	c.Reply.Int(int64(len(h.patterns)))
	return nil
}

// numSub is PUBSUB NUMSUB [channel …]. Replies: each channel and its number of subscribers. Subscriptions to patterns
// do not count.
func (h *Hub) numSub(c *command.Context) error { return h.counts(c, Channel) }

// shardNumSub is PUBSUB SHARDNUMSUB [shardchannel …].
func (h *Hub) shardNumSub(c *command.Context) error { return h.counts(c, Shard) }

func (h *Hub) counts(c *command.Context, k Kind) error {
	names := c.Args[2:]
	c.Reply.Array(2 * len(names))
	for _, name := range names {
		n := 0
		if t := h.topics[k][string(name)]; t != nil {
			n = t.audience.Len()
		}
		c.Reply.Bulk(name)
		c.Reply.Int(int64(n))
	}
	return nil
}

func help(c *command.Context) error {
	command.Help(c,
		"CHANNELS [<pattern>]",
		"    Channels that clients are subscribed to, or those that fit the pattern.",
		"NUMPAT",
		"    How many patterns clients are subscribed to.",
		"NUMSUB [<channel> ...]",
		"    How many clients are subscribed to each channel, patterns aside.",
		"SHARDCHANNELS [<pattern>]",
		"    CHANNELS for shard channels.",
		"SHARDNUMSUB [<shardchannel> ...]",
		"    NUMSUB for shard channels.",
	)
	return nil
}
