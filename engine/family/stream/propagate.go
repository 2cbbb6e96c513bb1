package stream

import (
	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
)

// What a group delivers is told to the sinks as what it comes to, so that nobody has to deliver again: who has which
// entry since when.

var (
	wordXClaim         = []byte("XCLAIM")
	wordXGroup         = []byte("XGROUP")
	wordSetID          = []byte("SETID")
	wordCreateConsumer = []byte("CREATECONSUMER")
	wordEntriesRead    = []byte("ENTRIESREAD")
	wordTime           = []byte("TIME")
	wordRetryCount     = []byte("RETRYCOUNT")
	wordForce          = []byte("FORCE")
	wordJustID         = []byte("JUSTID")
	wordLastID         = []byte("LASTID")
	wordZero           = []byte("0")
)

// propagateClaim tells that an entry is pending with a consumer: XCLAIM key group consumer 0 id TIME ms RETRYCOUNT n
// FORCE JUSTID LASTID id. On an entry that is no more it takes the entry out of what is pending.
func propagateClaim(c *command.Context, key, group, consumer []byte, id streams.ID, time int64, count uint64,
	last streams.ID) {
	e := &c.Effects
	c.Propagate(wordXClaim, key, group, consumer, wordZero, keepID(c, id), wordTime, e.Number(time), wordRetryCount,
		e.Number(int64(count)),
		wordForce, wordJustID, wordLastID, keepID(c, last))
}

// propagateGroup tells how far a group has read: XGROUP SETID key group id ENTRIESREAD n.
func propagateGroup(c *command.Context, key []byte, g *streams.Group, group []byte) {
	c.Propagate(wordXGroup, wordSetID, key, group, keepID(c, g.LastID()), wordEntriesRead,
		c.Effects.Number(g.EntriesRead()))
}

// propagateConsumer tells that there is a new consumer, where no claim of its would: XGROUP CREATECONSUMER key group
// consumer.
func propagateConsumer(c *command.Context, key, group, consumer []byte) {
	c.Propagate(wordXGroup, wordCreateConsumer, key, group, consumer)
}

// consumer is the consumer of this name, made if there is none, and notes that it has asked for something.
func consumer(
	c *command.Context, w *streams.Writer, g *streams.Group, key, name []byte,
) (who *streams.Consumer, created bool) {
	if who = w.Consumer(g, name); who == nil {
		who, created = w.CreateConsumer(g, name, c.Now), true
		c.Changed(1)
		c.Notify(command.EventStream, "xgroup-createconsumer", key)
	}
	w.See(who, c.Now)
	return who, created
}
