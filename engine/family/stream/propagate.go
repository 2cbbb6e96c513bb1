package stream

import (
	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
)

// Groups propagate the result of a delivery: which consumer has which entry, and since when. So no replica has to
// deliver again.

var (
	wordXClaim         = []byte("XCLAIM")
	wordXAck           = []byte("XACK")
	wordXDel           = []byte("XDEL")
	wordXTrim          = []byte("XTRIM")
	wordIDMP           = []byte("IDMP")
	wordXCfgSet        = []byte("XCFGSET")
	wordDuration       = []byte("IDMP-DURATION")
	wordMaxSize        = []byte("IDMP-MAXSIZE")
	wordXIDMPRecord    = []byte("XIDMPRECORD")
	wordMaxLen         = []byte("MAXLEN")
	wordMinID          = []byte("MINID")
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

// propagateClaim propagates that a consumer has a pending entry. If the entry was deleted, the command removes it from
// the pending entries. Form:
//
//	XCLAIM key group consumer 0 id TIME ms RETRYCOUNT n FORCE JUSTID LASTID id
func propagateClaim(c *command.Context, key, group, consumer []byte, id streams.ID, time int64, count uint64,
	last streams.ID) {
	e := &c.Effects
	c.Propagate(wordXClaim, key, group, consumer, wordZero, keepID(c, id), wordTime, e.Number(time), wordRetryCount,
		e.Number(int64(count)),
		wordForce, wordJustID, wordLastID, keepID(c, last))
}

// propagateGroup propagates how far a group has read: XGROUP SETID key group id ENTRIESREAD n.
func propagateGroup(c *command.Context, key []byte, g *streams.Group, group []byte) {
	c.Propagate(wordXGroup, wordSetID, key, group, keepID(c, g.LastID()), wordEntriesRead,
		c.Effects.Number(g.EntriesRead()))
}

// propagateConsumer propagates a new consumer that has claimed nothing: XGROUP CREATECONSUMER key group consumer.
func propagateConsumer(c *command.Context, key, group, consumer []byte) {
	c.Propagate(wordXGroup, wordCreateConsumer, key, group, consumer)
}

// consumer finds or makes the consumer of this name and records its activity.
func consumer(
	c *command.Context, w *streams.Writer, g *streams.Group, key, name []byte,
) (owner *streams.Consumer, created bool) {
	if owner = w.Consumer(g, name); owner == nil {
		owner, created = w.CreateConsumer(g, name, c.Now), true
		c.Changed(1)
		c.Notify(command.EventStream, "xgroup-createconsumer", key)
	}
	w.See(owner, c.Now)
	return owner, created
}
