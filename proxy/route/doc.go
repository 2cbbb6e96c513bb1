// Package route decides to which shards a proxy sends a command.
//
// It reads a shard's own COMMAND reply: arity, flags, key specifications and tips. hand.go has the commands that the
// tips call special, and those that concern the proxy itself. legacy.go has facts that servers before Redis 7 do not
// return.
//
// Owner: its caller. A Table does not change, and any goroutine may read it. A Plan and a Gather belong to one loop.
// Never: blocks, keeps an argument, or sends anything.
//
// route.R1. A command has a class other than Refused only if the shards of each call can be determined. Otherwise a
// call could silently return a wrong reply.
//
// Start at table.go; plan.go is the hot path, keys.go finds keys, split.go groups them, merge.go joins replies.
package route
