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

// Trusting runs f. Meanwhile keys past their deadline count as valid. Turn only.
func (c *Core) Trusting(f func()) {
	c.assertHeld()
	was := c.space.Trusting
	c.space.Trusting = true
	f()
	c.space.Trusting = was
}

// expired tells sinks and listeners that key is about to be removed because its deadline has passed.
func (c *Core) expired(db int, key []byte) {
	c.effectOfRemoval(db, key, c.common.LazyfreeExpire.Get())
	c.Notify(command.EventExpired, "expired", db, key)
}

// evicted tells sinks and listeners that key is about to be evicted.
func (c *Core) evicted(db int, key []byte) {
	c.effectOfRemoval(db, key, c.settings.LazyfreeEviction.Get())
	c.Notify(command.EventEvicted, "evicted", db, key)
}

// fieldExpired tells sinks that a field of the hash at key is about to be removed because its deadline has passed.
func (c *Core) fieldExpired(db int, key, field []byte) (wanted bool) {
	c.Effect(db, wordHDel, key, field)
	return c.Notifies(command.EventSubkeys)
}

// fieldsExpired tells listeners that a hash has lost expired fields. emptied means that the hash is gone, too.
func (c *Core) fieldsExpired(db int, key []byte, fields [][]byte, emptied bool) {
	c.NotifySubkeys(command.EventHash, "hexpired", db, key, fields, 1)
	if emptied {
		c.Notify(command.EventGeneric, "del", db, key)
	}
}

// effectOfRemoval sends the removal of key to the sinks. The save rules do not count it, because no client made it.
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

// Notify implements command.Core: it publishes a keyspace event, if notify-keyspace-events enables its class.
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

// hearsEvents reports whether any client can get keyspace events. No client gets events about keys that are still
// hidden.
func (c *Core) hearsEvents() bool {
	if c.stack.depth > 0 && c.stack.frames[0].Client.Is(client.Importing) {
		return false
	}
	return !c.replaying && c.hooks.Publish != nil && (c.hooks.Heard == nil || c.hooks.Heard())
}

// bytesOf returns an event's name, which must not be written to.
func bytesOf(event string) []byte { return unsafe.Slice(unsafe.StringData(event), len(event)) }

// NotifySubkeys implements command.Core. It publishes the event as Notify does, and the events with subkeys. names may
// contain a name twice.
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

// appendSubkeys appends every step-th name, each with its length, because a name may contain any byte.
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

// keptChannel is the size up to which the buffer for a channel's name is kept for the next event. A key may be long.
const keptChannel = 4 << 10

// appendDB appends a database's number in the form of the channels' names.
func appendDB(dst []byte, db int) []byte {
	return append(strconv.AppendInt(dst, int64(db), 10), "__:"...)
}
