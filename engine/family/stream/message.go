package stream

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"spindle/engine/command"
	"spindle/engine/data/value"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

// A producer may send a message again, because it does not know whether the first one arrived. With IDMP each message
// has a name. A message whose name the stream remembers is not added again. The primary decides. Replicas and the log
// get the names of messages that were added, and no others.

// known reports whether the stream remembers the message, and if so replies the ID of the entry that the message
// became. For IDMPAUTO it computes the message's name first. A message from our primary always counts as new.
func (h *commands) known(c *command.Context, o *options, e *value.Edit, pairs [][]byte) bool {
	if o.message == nil {
		name := nameOf(pairs)
		o.message = c.Effects.Keep(name[:])
	}
	if o.given {
		return false
	}
	entry, ok := streams.Of(e.Value()).Sent(o.producer, o.message, c.Now)
	if !ok {
		return false
	}
	w := streams.Edit(e)
	w.Duplicate()
	replyID(c.Reply, entry)
	return true
}

// forgetAtOnce is the number of old messages that are forgotten for each new message.
const forgetAtOnce = 4

// remember records that a message became an entry.
func (h *commands) remember(c *command.Context, w *streams.Writer, producer, message []byte, entry streams.ID) {
	key := c.Args[1]
	w.ForgetSent(c.Now, forgetAtOnce)
	w.Remember(producer, message, entry, c.Now, h.recall(c))
	if c.DB.SentDeadline(key) == 0 {
		c.DB.SetSentDeadline(key, w.Forgets())
	}
}

// nameOf returns the name of an IDMPAUTO message. It is the same for the same fields and values in any order.
func nameOf(pairs [][]byte) (name [16]byte) {
	var sum xxh3.Uint128
	for i := 0; i < len(pairs); i += 2 {
		field, val := xxh3.Hash128(pairs[i]), xxh3.Hash128(pairs[i+1])
		var both [32]byte
		for j, n := range [...]uint64{field.Lo, field.Hi, val.Lo, val.Hi} {
			binary.LittleEndian.PutUint64(both[8*j:], n)
		}
		pair := xxh3.Hash128(both[:])
		sum.Lo += pair.Lo
		sum.Hi += pair.Hi
	}
	binary.LittleEndian.PutUint64(name[:], sum.Lo)
	binary.LittleEndian.PutUint64(name[8:], sum.Hi)
	return name
}

// setRecall is XCFGSET key [IDMP-DURATION seconds] [IDMP-MAXSIZE count]. It sets how long, and how many messages of
// each producer, the stream remembers. A change makes the stream forget all messages.
//
// Replies: OK. Errors: errNothingSet, ErrSyntax, ErrNotInteger, errSeconds, errMostRecall, ErrNoSuchKey, ErrWrongType.
// Propagates both limits.
func (h *commands) setRecall(c *command.Context) error {
	seconds, most := int64(0), int64(0) // 0 means no change
	for i := 2; i < len(c.Args); i += 2 {
		var err error
		switch more := i+1 < len(c.Args); {
		case more && command.Is(c.Args[i], "IDMP-DURATION"):
			if seconds, err = command.Int(c.Args[i+1]); err == nil && (seconds < 1 || seconds > streams.MaxRecallSeconds) {
				err = errSeconds
			}
		case more && command.Is(c.Args[i], "IDMP-MAXSIZE"):
			if most, err = command.Int(c.Args[i+1]); err == nil && (most < 1 || most > streams.MaxRecall) {
				err = errMostRecall
			}
		default:
			err = protocol.ErrSyntax
		}
		if err != nil {
			return err
		}
	}
	if len(c.Args) == 2 {
		return errNothingSet
	}
	e, err := edit(c, c.Args[1])
	if err != nil {
		return err
	}
	if e == nil {
		return protocol.ErrNoSuchKey
	}
	presets := h.recall(c)
	limits := presets
	if s := streams.Of(e.Value()); s.Recalls() {
		limits = s.Recalled().Recall
	}
	if seconds > 0 {
		limits.Seconds = uint32(seconds)
	}
	if most > 0 {
		limits.Most = uint32(most)
	}
	w := streams.Edit(e)
	told := !w.Recalls() && limits != usualRecall
	if w.SetRecall(limits, presets) || told {
		c.DB.SetSentDeadline(c.Args[1], 0)
		c.DB.Touched(c.Args[1])
		c.Changed(1)
		h.propagateRecall(c, limits)
	}
	c.Reply.OK()
	return nil
}

// propagateRecall propagates a stream's limits: XCFGSET key IDMP-DURATION seconds IDMP-MAXSIZE count.
func (h *commands) propagateRecall(c *command.Context, limits streams.Recall) {
	e := &c.Effects
	c.Propagate(wordXCfgSet, c.Args[1], wordDuration, e.Number(int64(limits.Seconds)), wordMaxSize,
		e.Number(int64(limits.Most)))
}

// record is XIDMPRECORD key producer message id. It records that an entry was a producer's message. Logs of Redis 8.8
// contain it.
//
// Replies: OK. Errors: errNoProducer, errNoMessage, errID, ErrNoSuchKey, ErrWrongType, errNoEntry, errOtherEntry. A
// command of our primary is obeyed, because the primary knows its data.
// Propagates as written.
func (h *commands) record(c *command.Context) error {
	key, producer, message := c.Args[1], c.Args[2], c.Args[3]
	switch {
	case len(producer) == 0:
		return errNoProducer
	case len(message) == 0:
		return errNoMessage
	}
	id, err := parseID(c.Args[4], 0)
	if err != nil {
		return err
	}
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		return protocol.ErrNoSuchKey
	}
	s := streams.Of(e.Value())
	if !c.Obeys() && !s.Has(id) {
		return errNoEntry
	}
	switch entry, ok := s.Sent(producer, message, c.Now); {
	case ok && entry == id:
		c.Reply.OK()
		return nil
	case ok && !c.Obeys():
		return errOtherEntry
	}
	w := streams.Edit(e)
	h.remember(c, &w, producer, message, id)
	c.DB.Touched(key)
	c.Changed(1)
	c.Reply.OK()
	return nil
}
