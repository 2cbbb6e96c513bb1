// Package pubsub implements publish and subscribe: channels, patterns of channels, shard channels.
//
// Owner: the core; everything here runs in a turn.
// Never: touches a socket, or keeps a message: only current subscribers get it.
// Start at hub.go; subscribe.go subscribes, publish.go makes messages, look.go is PUBSUB.
package pubsub

import "spindle/engine/command"

func (h *Hub) Family() command.Family {
	const (
		looks     = command.PubSub | command.Loading | command.Stale
		listens   = looks | command.NoScript
		publishes = looks | command.Fast | command.MayReplicate
		sentinel  = command.Sentinel
	)
	shard, shards := command.FirstArg(command.KeyNotKey), command.EachArg(1, command.KeyNotKey)
	return command.Family{Name: "pubsub", Rows: []command.Spec{
		{Name: "psubscribe", Arity: -2, Traits: command.WhileSubscribed, Flags: listens | sentinel,
			Channels: command.SubscribesToPatterns, Run: h.psubscribe},
		{Name: "publish", Arity: 3, Flags: publishes | sentinel, Channels: command.PublishesTo, Run: h.publish},
		{Name: "pubsub", Arity: -2, Subs: []command.Spec{
			{Name: "channels", Arity: -2, Flags: looks, Run: h.channels},
			{Name: "help", Arity: 2, Flags: command.Loading | command.Stale, Run: help},
			{Name: "numpat", Arity: 2, Flags: looks, Run: h.numPat},
			{Name: "numsub", Arity: -2, Flags: looks, Run: h.numSub},
			{Name: "shardchannels", Arity: -2, Flags: looks, Run: h.shardChannels},
			{Name: "shardnumsub", Arity: -2, Flags: looks, Run: h.shardNumSub},
		}},
		{Name: "punsubscribe", Arity: -1, Traits: command.WhileSubscribed, Flags: listens | sentinel, Run: h.punsubscribe},
		{Name: "spublish", Arity: 3, Flags: publishes, Keys: shard, Channels: command.PublishesTo, Run: h.spublish},
		{Name: "ssubscribe", Arity: -2, Traits: command.WhileSubscribed, Flags: listens, Keys: shards,
			Channels: command.SubscribesTo, Run: h.ssubscribe},
		{Name: "subscribe", Arity: -2, Traits: command.WhileSubscribed, Flags: listens | sentinel,
			Channels: command.SubscribesTo, Run: h.subscribe},
		{Name: "sunsubscribe", Arity: -1, Traits: command.WhileSubscribed, Flags: listens, Keys: shards, Run: h.sunsubscribe},
		{Name: "unsubscribe", Arity: -1, Traits: command.WhileSubscribed, Flags: listens | sentinel, Run: h.unsubscribe},
	}}
}
