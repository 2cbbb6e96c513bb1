package stream

import (
	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

var (
	wordEquals     = []byte("=")
	mostTrimmed    = int64(1_000_000)
	trimmedDefault = int64(10_000)
)

// options are the options of XADD and XTRIM.
type options struct {
	trim     bool
	trimming streams.Trimming
	boundAt  int // index of the length or ID
	refs     references
	newer    bool // there are words that Redis 7.4 does not know

	sent              bool   // IDMP or IDMPAUTO
	producer, message []byte // the names of both; of IDMPAUTO, message comes later
	unusual           bool   // the stream got limits that replicas do not assume

	noMkStream bool
	idAt       int // index of the entry's ID
	given      bool
	id         streams.ID
	autoSeq    bool
}

// parse reads the options after the key, for XADD up to the ID.
func (o *options) parse(c *command.Context, adding bool, nodeEntries int64) error {
	args := c.Args
	limit, limited := int64(0), false
	i := 2
	for ; i < len(args); i++ {
		arg, more := args[i], len(args)-1-i
		switch {
		case adding && is(arg, "*"):
		case more > 0 && (command.Is(arg, "MAXLEN") || command.Is(arg, "MINID")):
			if o.trim {
				return errBothBounds
			}
			o.trim, o.trimming = true, streams.Trimming{ByID: command.Is(arg, "MINID")}
			if next := args[i+1]; more > 1 && (is(next, "~") || is(next, "=")) {
				o.trimming.Whole = is(next, "~")
				i++
			}
			i++
			o.boundAt = i
			if err := o.bound(args[i]); err != nil {
				return err
			}
			continue
		case more > 0 && command.Is(arg, "LIMIT"):
			i++
			n, err := command.Int(args[i])
			if err != nil {
				return err
			}
			if n < 0 {
				return errLimit
			}
			limit, limited = n, true
			continue
		case adding && more > 1 && command.Is(arg, "IDMP"), adding && more > 0 && command.Is(arg, "IDMPAUTO"):
			n, err := o.parseMessage(args[i:])
			if err != nil {
				return err
			}
			i += n
			continue
		case adding && command.Is(arg, "NOMKSTREAM"):
			o.noMkStream = true
			continue
		case o.refs.parse(arg):
			if o.newer {
				return protocol.ErrSyntax
			}
			o.newer = true
			continue
		case adding:
			var err error
			if o.id, o.autoSeq, err = parseAddID(arg); err != nil {
				return err
			}
			if o.sent && !c.Obeys() {
				return errMessageID
			}
			o.given = true
		default:
			return protocol.ErrSyntax
		}
		break
	}
	o.idAt = i
	switch {
	case limit != 0 && !o.trim:
		return errLimitAlone
	case !adding && !o.trim:
		return errNoBound
	case c.Obeys(): // the limit was checked before
		return nil
	case limited && !o.trimming.Whole:
		return errLimitExact
	case !limited && o.trimming.Whole:
		if limit = nodeEntries * 100; nodeEntries <= 0 || limit/100 != nodeEntries || limit < 0 {
			limit = trimmedDefault
		}
		limit = min(limit, mostTrimmed)
	}
	o.trimming.Most = uint64(limit)
	return nil
}

// parseMessage reads IDMP producer message or IDMPAUTO producer. It returns the number of words after the first.
func (o *options) parseMessage(args [][]byte) (n int, err error) {
	auto := command.Is(args[0], "IDMPAUTO")
	switch {
	case o.sent:
		return 0, errTwoMessages
	case auto && len(args[1]) == 0:
		return 0, errNoAuto
	case len(args[1]) == 0:
		return 0, errNoProducer
	case !auto && len(args[2]) == 0:
		return 0, errNoMessage
	}
	o.sent, o.producer = true, args[1]
	if auto {
		return 1, nil
	}
	o.message = args[2]
	return 2, nil
}

func (o *options) bound(arg []byte) (err error) {
	if o.trimming.ByID {
		o.trimming.MinID, err = parseID(arg, 0)
		return err
	}
	n, err := command.Int(arg)
	if err == nil && n < 0 {
		err = errMaxLen
	}
	o.trimming.MaxLen = uint64(n)
	return err
}

// add is
//
//	XADD key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [IDMPAUTO producer | IDMP producer message]
//	  [MAXLEN|MINID [=|~] threshold [LIMIT count]] *|id field value [field value …]
//
// Replies: the entry's ID, or null if NOMKSTREAM prevented a new stream. If the producer has sent the message before,
// the reply is the ID of the entry that it became then. With IDMPAUTO the same fields and values are the same message.
// Errors: those of the options, ErrWrongType, errZeroID, errSmallID, errExhausted, errTooLarge. Then nothing has
// changed.
// Propagates with the entry's ID, and with "= threshold" for the entries that "~" removed. With DELREF or ACKED it
// propagates the trimming on its own (trimRefs). With IDMP it propagates IDMP producer message before the other
// options. A message that is not added is not propagated.
func (h *commands) add(c *command.Context) error {
	var o options
	if err := o.parse(c, true, h.settings.NodeEntries.Get()); err != nil {
		return err
	}
	first := o.idAt + 1
	if n := len(c.Args) - first; n < 2 || n%2 == 1 {
		return command.ErrArity(c.Spec)
	}
	if o.given && !o.autoSeq && o.id == (streams.ID{}) {
		return errZeroID
	}
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		if o.noMkStream {
			c.Reply.Null()
			return nil
		}
		if !streams.Fits(c.Args[first:]) {
			return errTooLarge
		}
		e = create(c, key)
	}
	if o.sent && h.known(c, &o, e, c.Args[first:]) {
		return nil
	}
	id, err := o.next(streams.Of(e.Value()).LastID(), uint64(c.Now))
	if err != nil {
		return err
	}
	w := streams.Edit(e)
	if !w.Append(id, c.Args[first:], h.settings.Limits()) {
		return errTooLarge
	}
	if o.sent {
		o.unusual = !w.Recalls() && h.recall(c) != usualRecall
		h.remember(c, &w, o.producer, o.message, id)
	}
	var room [streams.MaxIDLen]byte
	text := id.Append(room[:0])
	c.Reply.Bulk(text)
	c.Notify(command.EventStream, "xadd", key)
	c.Changed(1)
	h.rewrite(c, &o, &w, text)
	c.DB.Touched(key)
	c.DB.Signal(key)
	return nil
}

// next returns the ID of the new entry.
func (o *options) next(last streams.ID, nowMs uint64) (id streams.ID, err error) {
	if last == streams.MaxID {
		return id, errExhausted
	}
	switch {
	case !o.given && nowMs > last.Ms:
		return streams.ID{Ms: nowMs}, nil
	case !o.given:
		id, _ = last.Next()
		return id, nil
	case !o.autoSeq || o.id.Ms != last.Ms:
		id = o.id
	case last.Seq == lastSeq:
		return id, errSmallID
	default:
		id, _ = last.Next()
	}
	if !last.Less(id) {
		return id, errSmallID
	}
	return id, nil
}

// rewrite trims the stream and propagates the request with its real effects.
func (h *commands) rewrite(c *command.Context, o *options, w *streams.Writer, id []byte) {
	if o.newer {
		h.addOnly(c, o, nil, id)
	}
	if o.trim && h.cut(c, o, w) > 0 {
		c.Notify(command.EventStream, "xtrim", c.Args[1])
	}
	if o.newer || o.given && !o.autoSeq && !o.trimming.Whole {
		return
	}
	if o.sent {
		h.addOnly(c, o, w, id)
		return
	}
	h.args = append(h.args[:0], c.Args...)
	if o.trimming.Whole {
		o.exact(c, h.args, o.boundAt, w.Stream)
	}
	if !o.given || o.autoSeq {
		h.args[o.idAt] = c.Effects.Keep(id)
	}
	c.Propagate(h.args...)
}

// addOnly propagates the new entry, with options that newer servers need. If w is not nil, it adds the request's
// trimming in an exact form. The form is XADD key [IDMP producer message] [MAXLEN|MINID = threshold] id field value
// [field value …]. If the stream got limits that replicas do not assume, XCFGSET comes between the entry and its
// message.
func (h *commands) addOnly(c *command.Context, o *options, w *streams.Writer, id []byte) {
	h.args = append(h.args[:0], c.Args[0], c.Args[1])
	if o.sent && !o.unusual {
		h.args = append(h.args, wordIDMP, o.producer, o.message)
	}
	if o.trim && w != nil {
		h.args = append(h.args, nil, wordEquals, c.Args[o.boundAt])
		if o.trimming.Whole {
			o.exact(c, h.args, len(h.args)-1, w.Stream)
		}
		if h.args[len(h.args)-3] = wordMaxLen; o.trimming.ByID {
			h.args[len(h.args)-3] = wordMinID
		}
	}
	h.args = append(h.args, c.Effects.Keep(id))
	h.args = append(h.args, c.Args[o.idAt+1:]...)
	c.Propagate(h.args...)
	if o.unusual {
		h.propagateRecall(c, h.recall(c))
		c.Propagate(wordXIDMPRecord, c.Args[1], o.producer, o.message, c.Effects.Keep(id))
	}
}

// cut trims the stream as o asks, and returns the number of entries removed. If the request has words that are newer
// than Redis 7.4, it also propagates the removal.
func (h *commands) cut(c *command.Context, o *options, w *streams.Writer) (removed uint64) {
	switch {
	case !o.newer:
		return w.Trim(o.trimming)
	case o.refs == ackedRefs && w.GroupCount() > 0:
		return h.trimAcked(c, o, w)
	}
	if removed = w.Trim(o.trimming); removed == 0 {
		return 0
	}
	propagateTrim(c, w.Stream)
	if o.refs == deleteRefs {
		last := w.LastID()
		if w.Len() > 0 {
			last, _ = w.FirstID().Prev()
		}
		h.forget(c, w, last)
	}
	return removed
}

// exact replaces the trimming of whole nodes by an exact one. The bound is args[at]. So replicas trim the same entries,
// whatever their nodes are.
func (o *options) exact(c *command.Context, args [][]byte, at int, s streams.Stream) {
	args[at-1] = wordEquals
	if o.trimming.ByID {
		args[at] = keepID(c, s.Edge())
	} else {
		args[at] = c.Effects.Number(int64(s.Len()))
	}
}

// keepID returns the text of id. Lifetime: until the call is propagated.
func keepID(c *command.Context, id streams.ID) []byte {
	var text [streams.MaxIDLen]byte
	return c.Effects.Keep(id.Append(text[:0]))
}

// trim is XTRIM key MAXLEN|MINID [=|~] threshold [LIMIT count] [KEEPREF|DELREF|ACKED].
//
// Replies: the number of removed entries. Errors: those of the options, ErrWrongType.
// Propagates as written, with an exact bound in place of "~". With KEEPREF and its kin it propagates the entries that
// were removed (cut).
func (h *commands) trim(c *command.Context) error {
	var o options
	if err := o.parse(c, false, h.settings.NodeEntries.Get()); err != nil {
		return err
	}
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	removed := uint64(0)
	if e != nil {
		w := streams.Edit(e)
		if removed = h.cut(c, &o, &w); removed > 0 {
			c.Notify(command.EventStream, "xtrim", key)
			if o.trimming.Whole && !o.newer {
				h.args = append(h.args[:0], c.Args...)
				o.exact(c, h.args, o.boundAt, w.Stream)
				c.Propagate(h.args...)
			}
			c.DB.Touched(key)
			c.Changed(int(removed))
		}
	}
	c.Reply.Int(int64(removed))
	return nil
}

// del is XDEL key id [id …]. Replies: the number of removed entries. Errors: errID, ErrWrongType. Propagates as
// written.
func (h *commands) del(c *command.Context) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		c.Reply.Int(0)
		return nil
	}
	ids, err := h.parseIDs(c.Args[2:])
	if err != nil {
		return err
	}
	w := streams.Edit(e)
	deleted := 0
	for _, id := range ids {
		if w.Delete(id) {
			deleted++
		}
	}
	if deleted > 0 {
		c.DB.Touched(key)
		c.Notify(command.EventStream, "xdel", key)
		c.Changed(deleted)
	}
	c.Reply.Int(int64(deleted))
	return nil
}

// setID is XSETID key last-id [ENTRIESADDED count] [MAXDELETEDID id].
//
// Replies: OK. Errors: errID and its neighbours in errors.go, ErrNoSuchKey, ErrWrongType. Propagates as written.
func setID(c *command.Context) error {
	last, err := parseID(c.Args[2], 0)
	if err != nil {
		return err
	}
	added, maxDeleted := int64(-1), streams.ID{}
	for i := 3; i < len(c.Args); i += 2 {
		switch more := i+1 < len(c.Args); {
		case more && command.Is(c.Args[i], "ENTRIESADDED"):
			if added, err = command.Int(c.Args[i+1]); err == nil && added < 0 {
				err = errAddedSign
			}
		case more && command.Is(c.Args[i], "MAXDELETEDID"):
			if maxDeleted, err = parseID(c.Args[i+1], 0); err == nil && last.Less(maxDeleted) {
				err = errBelowGiven
			}
		default:
			err = protocol.ErrSyntax
		}
		if err != nil {
			return err
		}
	}
	e, err := edit(c, c.Args[1])
	if err != nil {
		return err
	}
	if e == nil {
		return protocol.ErrNoSuchKey
	}
	if err := maySetID(streams.Of(e.Value()), last, added); err != nil {
		return err
	}
	w := streams.Edit(e)
	w.SetID(last, added, maxDeleted)
	c.Reply.OK()
	c.Changed(1)
	c.Notify(command.EventStream, "xsetid", c.Args[1])
	return nil
}

func maySetID(s streams.Stream, last streams.ID, added int64) error {
	switch {
	case last.Less(s.MaxDeleted()):
		return errBelowDeleted
	case s.Len() == 0:
		return nil
	case last.Less(s.LastValid()):
		return errBelowTop
	case added >= 0 && s.Len() > uint64(added):
		return errBelowLength
	}
	return nil
}
