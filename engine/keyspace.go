package engine

import (
	"strconv"
	"unsafe"

	"spindle/engine/command"
)

var (
	wordDel    = []byte("DEL")
	wordUnlink = []byte("UNLINK")
	wordHDel   = []byte("HDEL")
)

// expired tells sinks and listeners that key is about to go because its deadline has passed.
func (c *Core) expired(db int, key []byte) {
	c.effectOfRemoval(db, key, c.common.LazyfreeExpire.Get())
	c.Notify(command.EventExpired, "expired", db, key)
}

// evicted does the same for a key that makes room.
func (c *Core) evicted(db int, key []byte) {
	c.effectOfRemoval(db, key, c.settings.LazyfreeEviction.Get())
	c.Notify(command.EventEvicted, "evicted", db, key)
}

// fieldExpired tells sinks that a field of the hash at key is about to go because its deadline has passed.
func (c *Core) fieldExpired(db int, key, field []byte) { c.Effect(db, wordHDel, key, field) }

// fieldsExpired tells listeners of a hash that has lost fields so, and perhaps is gone with them.
func (c *Core) fieldsExpired(db int, key []byte, _ int, emptied bool) {
	c.Notify(command.EventHash, "hexpired", db, key)
	if emptied {
		c.Notify(command.EventGeneric, "del", db, key)
	}
}

// effectOfRemoval is no change that the save rules count: no client made it.
func (c *Core) effectOfRemoval(db int, key []byte, lazily bool) {
	if lazily {
		c.Effect(db, wordUnlink, key)
	} else {
		c.Effect(db, wordDel, key)
	}
}

// Notifies implements command.Core.
func (c *Core) Notifies(classes command.EventClass) bool {
	return command.EventClass(c.settings.NotifyEvents.Get())&classes != 0
}

// Notify implements command.Core: a keyspace event, if notify-keyspace-events has its class.
func (c *Core) Notify(class command.EventClass, event string, db int, key []byte) {
	c.assertHeld()
	wanted := command.EventClass(c.settings.NotifyEvents.Get())
	if wanted&class == 0 || c.replaying || c.hooks.Publish == nil || c.hooks.Heard != nil && !c.hooks.Heard() {
		return
	}
	name := unsafe.Slice(unsafe.StringData(event), len(event)) // it is never written to
	if wanted&command.EventKeyspace != 0 {
		c.channel = append(appendDB(append(c.channel[:0], "__keyspace@"...), db), key...)
		c.hooks.Publish(c.channel, name)
	}
	if wanted&command.EventKeyevent != 0 {
		c.channel = append(appendDB(append(c.channel[:0], "__keyevent@"...), db), event...)
		c.hooks.Publish(c.channel, key)
	}
	if cap(c.channel) > keptChannel {
		c.channel = nil
	}
}

// keptChannel is how much room for a channel's name one event leaves to the next: a key may be long.
const keptChannel = 4 << 10

// appendDB appends a database's number as the names of channels have it.
func appendDB(dst []byte, db int) []byte {
	return append(strconv.AppendInt(dst, int64(db), 10), "__:"...)
}
