package stream

import (
	"bytes"

	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

// references says what a command does with the groups' references to the entries that it deletes.
type references int

const (
	keepRefs   references = iota // KEEPREF: pending entries stay
	deleteRefs                   // DELREF: they are removed from all groups
	ackedRefs                    // ACKED: only entries that every group has read and acknowledged are deleted
)

// parse reads one of the three words. It returns false if arg is another word.
func (r *references) parse(arg []byte) bool {
	switch {
	case command.Is(arg, "KEEPREF"):
		*r = keepRefs
	case command.Is(arg, "DELREF"):
		*r = deleteRefs
	case command.Is(arg, "ACKED"):
		*r = ackedRefs
	default:
		return false
	}
	return true
}

// parseBlock reads [KEEPREF|DELREF|ACKED] IDS count id [id …] in any order. It stores the IDs in h.ids.
//
// Errors: ErrSyntax, errIDCount, errIDsDiffer, errID.
func (h *commands) parseBlock(args [][]byte) (refs references, err error) {
	worded, listed := false, false
	for i := 0; i < len(args); i++ {
		switch {
		case !worded && refs.parse(args[i]):
			worded = true
		case !listed && command.Is(args[i], "IDS"):
			n, err := idBlock(args[i+1:])
			if err != nil {
				return refs, err
			}
			if _, err := h.parseIDs(args[i+2 : i+2+n]); err != nil {
				return refs, err
			}
			listed = true
			i += 1 + n
		default:
			return refs, protocol.ErrSyntax
		}
	}
	if !listed {
		return refs, protocol.ErrSyntax
	}
	return refs, nil
}

// idBlock reads the number of IDs from args[0]. The IDs must follow it.
func idBlock(args [][]byte) (int, error) {
	if len(args) == 0 {
		return 0, protocol.ErrSyntax
	}
	n, err := command.Int(args[0])
	switch {
	case err != nil || n < 1:
		return 0, errIDCount
	case n > int64(len(args)-1):
		return 0, errIDsDiffer
	}
	return int(n), nil
}

// These are the replies of XDELEX and XACKDEL for one ID.
const (
	replyMissing    = -1
	replyDeleted    = 1
	replyReferenced = 2
)

// delEx is XDELEX key [KEEPREF|DELREF|ACKED] IDS count id [id …].
//
// Replies: for each ID 1 if it was deleted, -1 if there is no such entry. With ACKED it replies 2 if a group has not
// acknowledged the entry. Without groups every entry counts as acknowledged, as redis-py's tests of Redis 8 show.
// Errors: those of parseBlock, ErrWrongType.
// Propagates: XDEL of the entries that were deleted. With DELREF it also propagates XACK of those that were pending.
func (h *commands) delEx(c *command.Context) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	refs, err := h.parseBlock(c.Args[2:])
	if err != nil {
		return err
	}
	c.PropagateNothing()
	c.Reply.Array(len(h.ids))
	if e == nil {
		for range h.ids {
			c.Reply.Int(replyMissing)
		}
		return nil
	}
	w := streams.Edit(e)
	for _, id := range h.ids {
		c.Reply.Int(h.deleteOne(&w, id, refs))
	}
	h.propagateChanges(c, key)
	return nil
}

// deleteOne deletes an entry under the option refs, and records the changes in h.deleted and h.acked.
func (h *commands) deleteOne(w *streams.Writer, id streams.ID, refs references) int64 {
	switch {
	case refs == deleteRefs:
		w.Forget(id, id, h.acked.add)
	case refs == ackedRefs && w.Referenced(id) && w.Has(id):
		return replyReferenced
	}
	if !w.Delete(id) {
		return replyMissing
	}
	h.deleted = append(h.deleted, id)
	return replyDeleted
}

// ackDel is XACKDEL key group [KEEPREF|DELREF|ACKED] IDS count id [id …].
//
// Replies: for each ID -1 if it is not pending in the group, 1 if it was acknowledged and is not in the stream now.
// With ACKED it replies 2 if it was acknowledged, but stays because another group has not acknowledged it.
// Errors: those of parseBlock, ErrWrongType.
// Propagates: XACK of the entries that were pending, XDEL of those that were deleted.
func (h *commands) ackDel(c *command.Context) error {
	key := c.Args[1]
	e, err := editCounted(c, key)
	if err != nil {
		return err
	}
	refs, err := h.parseBlock(c.Args[3:])
	if err != nil {
		return err
	}
	c.PropagateNothing()
	c.Reply.Array(len(h.ids))
	var w streams.Writer
	var g *streams.Group
	if e != nil {
		w = streams.Edit(e)
		g = w.Group(c.Args[2])
	}
	for _, id := range h.ids {
		if g == nil || !w.Acknowledge(g, id) {
			c.Reply.Int(replyMissing)
			continue
		}
		h.acked.add(c.Args[2], id)
		code := h.deleteOne(&w, id, refs)
		if code == replyMissing {
			code = replyDeleted // another command had deleted it
		}
		c.Reply.Int(code)
	}
	h.propagateChanges(c, key)
	return nil
}

// propagateChanges propagates h.deleted and h.acked. If entries were deleted, it publishes an event.
func (h *commands) propagateChanges(c *command.Context, key []byte) {
	h.propagateAcked(c, key)
	if len(h.deleted) > 0 {
		h.propagateDeleted(c, key)
		c.DB.Touched(key)
		c.Notify(command.EventStream, "xdel", key)
	}
}

func (h *commands) propagateDeleted(c *command.Context, key []byte) {
	h.args = append(h.args[:0], wordXDel, key)
	for _, id := range h.deleted {
		h.args = append(h.args, keepID(c, id))
	}
	c.Propagate(h.args...)
	c.Changed(len(h.deleted))
}

// ackList lists entries that stopped being pending.
type ackList []ackedEntry

type ackedEntry struct {
	group []byte // lent by the stream or by the request
	id    streams.ID
}

func (l *ackList) add(group []byte, id streams.ID) { *l = append(*l, ackedEntry{group, id}) }

// propagateAcked propagates h.acked: an XACK for each run of entries of one group.
func (h *commands) propagateAcked(c *command.Context, key []byte) {
	for i := 0; i < len(h.acked); {
		group := h.acked[i].group
		h.args = append(h.args[:0], wordXAck, key, c.Effects.Keep(group))
		for ; i < len(h.acked) && bytes.Equal(h.acked[i].group, group); i++ {
			h.args = append(h.args, keepID(c, h.acked[i].id))
		}
		c.Propagate(h.args...)
	}
	c.Changed(len(h.acked))
}

// forget removes the IDs up to last from the pending entries of all groups, and propagates that. It also removes IDs of
// entries that were deleted earlier.
func (h *commands) forget(c *command.Context, w *streams.Writer, last streams.ID) {
	h.acked = h.acked[:0]
	w.Forget(streams.ID{}, last, h.acked.add)
	h.propagateAcked(c, c.Args[1])
}

// propagateTrim propagates that all entries before the present first entry were removed.
func propagateTrim(c *command.Context, s streams.Stream) {
	if s.Len() == 0 {
		c.Propagate(wordXTrim, c.Args[1], wordMaxLen, wordZero)
	} else {
		c.Propagate(wordXTrim, c.Args[1], wordMinID, keepID(c, s.FirstID()))
	}
}

// trimAcked trims, but removes only entries that every group has read and acknowledged. With LIMIT it examines at most
// that number of entries.
//
// The entries before the first reference are trimmed at once. The entries after it are deleted one by one, so their IDs
// count as deleted (MaxDeleted).
func (h *commands) trimAcked(c *command.Context, o *options, w *streams.Writer) (removed uint64) {
	t := o.trimming
	t.Whole = false
	bulk := streams.Trimming{ByID: true, MinID: w.Unreferenced(), Most: t.Most}
	excess := w.Len() // number of entries that may be removed
	if t.ByID {
		bulk.MinID = least(bulk.MinID, t.MinID)
	} else {
		excess -= min(excess, t.MaxLen)
		if excess == 0 {
			return 0
		}
		if bulk.Most == 0 || excess < bulk.Most {
			bulk.Most = excess
		}
	}
	if removed = w.Trim(bulk); removed > 0 {
		propagateTrim(c, w.Stream)
	}
	var it streams.Iterator
	h.deleted = h.deleted[:0]
	examined := removed
	for w.Range(&it, streams.ID{}, w.AllRead(), false); removed < excess && it.Next(); examined++ {
		if t.ByID && !it.ID.Less(t.MinID) || t.Most > 0 && examined >= t.Most {
			break
		}
		if !w.Referenced(it.ID) {
			h.deleted = append(h.deleted, it.ID)
			removed++
		}
	}
	for _, id := range h.deleted {
		w.Delete(id)
	}
	if len(h.deleted) > 0 {
		h.propagateDeleted(c, c.Args[1])
	}
	return removed
}

func least(a, b streams.ID) streams.ID {
	if a.Less(b) {
		return a
	}
	return b
}
