package engine

import (
	"bytes"
	"strconv"
	"unsafe"

	"spindle/engine/client"
	"spindle/engine/command"
)

var (
	wordDel    = []byte("DEL")
	wordUnlink = []byte("UNLINK")
	wordHDel   = []byte("HDEL")
)

// Trusting runs f with keys past their deadline taken for valid. Turn only.
func (c *Core) Trusting(f func()) {
	c.assertHeld()
	was := c.space.Trusting
	c.space.Trusting = true
	f()
	c.space.Trusting = was
}

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
func (c *Core) fieldExpired(db int, key, field []byte) (wanted bool) {
	c.Effect(db, wordHDel, key, field)
	return c.Notifies(command.EventSubkeys)
}

// fieldsExpired tells listeners of a hash that has lost fields so, and perhaps is gone with them.
func (c *Core) fieldsExpired(db int, key []byte, fields [][]byte, emptied bool) {
	c.NotifySubkeys(command.EventHash, "hexpired", db, key, fields, 1)
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
	if wanted&class == 0 || !c.hearsEvents() {
		return
	}
	name := bytesOf(event)
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

// hearsEvents reports whether keyspace events go anywhere. No client hears of keys that are still hidden.
func (c *Core) hearsEvents() bool {
	if c.stack.depth > 0 && c.stack.frames[0].Client.Is(client.Importing) {
		return false
	}
	return !c.replaying && c.hooks.Publish != nil && (c.hooks.Heard == nil || c.hooks.Heard())
}

// bytesOf is an event's name, which must not be written to.
func bytesOf(event string) []byte { return unsafe.Slice(unsafe.StringData(event), len(event)) }

// NotifySubkeys implements command.Core: the event as Notify has it, and those with subkeys. names may contain one
// twice.
//
//	S  __subkeyspace@db__:key           event|length:subkey,length:subkey…
//	T  __subkeyevent@db__:event         length:key|length:subkey,…
//	I  __subkeyspaceitem@db__:key\nsubkey   event; a message a subkey, unless key has a line feed
//	V  __subkeyspaceevent@db__:event|key     length:subkey,…
func (c *Core) NotifySubkeys(class command.EventClass, event string, db int, key []byte, names [][]byte, step int) {
	c.Notify(class, event, db, key)
	wanted := command.EventClass(c.settings.NotifyEvents.Get())
	if wanted&class == 0 || wanted&command.EventSubkeys == 0 || len(names) == 0 || !c.hearsEvents() {
		return
	}
	if wanted&command.EventSubkeyspace != 0 {
		c.channel = append(appendDB(append(c.channel[:0], "__subkeyspace@"...), db), key...)
		c.message = appendSubkeys(append(append(c.message[:0], event...), '|'), names, step)
		c.hooks.Publish(c.channel, c.message)
	}
	if wanted&command.EventSubkeyevent != 0 {
		c.channel = append(appendDB(append(c.channel[:0], "__subkeyevent@"...), db), event...)
		c.message = appendSubkeys(append(appendSubkey(c.message[:0], key), '|'), names, step)
		c.hooks.Publish(c.channel, c.message)
	}
	if wanted&command.EventSubkeyspaceItem != 0 && bytes.IndexByte(key, '\n') < 0 {
		c.channel = append(append(appendDB(append(c.channel[:0], "__subkeyspaceitem@"...), db), key...), '\n')
		n := len(c.channel)
		for i := 0; i < len(names); i += step {
			c.channel = append(c.channel[:n], names[i]...)
			c.hooks.Publish(c.channel, bytesOf(event))
		}
	}
	if wanted&command.EventSubkeyspaceEvent != 0 {
		c.channel = append(appendDB(append(c.channel[:0], "__subkeyspaceevent@"...), db), event...)
		c.channel = append(append(c.channel, '|'), key...)
		c.message = appendSubkeys(c.message[:0], names, step)
		c.hooks.Publish(c.channel, c.message)
	}
	if cap(c.channel) > keptChannel {
		c.channel = nil
	}
	if cap(c.message) > keptChannel {
		c.message = nil
	}
}

// appendSubkeys appends every step-th name, each with its length, since a name may have any byte.
func appendSubkeys(dst []byte, names [][]byte, step int) []byte {
	for i := 0; i < len(names); i += step {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendSubkey(dst, names[i])
	}
	return dst
}

func appendSubkey(dst, name []byte) []byte {
	return append(append(strconv.AppendInt(dst, int64(len(name)), 10), ':'), name...)
}

// keptChannel is how much room for a channel's name one event leaves to the next: a key may be long.
const keptChannel = 4 << 10

// appendDB appends a database's number as the names of channels have it.
func appendDB(dst []byte, db int) []byte {
	return append(strconv.AppendInt(dst, int64(db), 10), "__:"...)
}
