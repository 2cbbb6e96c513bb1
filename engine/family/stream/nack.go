package stream

import (
	"math"

	"spindle/engine/command"
	streams "spindle/engine/data/value/stream"
	"spindle/protocol"
)

// nackOptions are the arguments of XNACK after the group.
type nackOptions struct {
	mode  byte // 's': one delivery less, 'f': as many, 'x': so many that no consumer wants it
	count int64
	given bool // count was given
	force bool
}

func (o *nackOptions) parse(h *commands, args [][]byte) error {
	switch {
	case command.Is(args[0], "SILENT"):
		o.mode = 's'
	case command.Is(args[0], "FAIL"):
		o.mode = 'f'
	case command.Is(args[0], "FATAL"):
		o.mode = 'x'
	default:
		return protocol.ErrSyntax
	}
	listed := false
	for i := 1; i < len(args); i++ {
		switch {
		case !listed && command.Is(args[i], "IDS"):
			n, err := idBlock(args[i+1:])
			if err != nil {
				return err
			}
			if _, err := h.parseIDs(args[i+2 : i+2+n]); err != nil {
				return err
			}
			listed = true
			i += 1 + n
		case i+1 < len(args) && command.Is(args[i], "RETRYCOUNT"):
			i++
			n, err := command.Int(args[i])
			if err != nil || n < 0 {
				return errNackCount
			}
			o.count, o.given = n, true
		case command.Is(args[i], "FORCE"):
			o.force = true
		default:
			return protocol.ErrSyntax
		}
	}
	if !listed {
		return protocol.ErrSyntax
	}
	return nil
}

// counted returns the number of deliveries of an entry after XNACK, if it was count before.
func (o *nackOptions) counted(count uint64) uint64 {
	switch {
	case o.given:
		return uint64(o.count)
	case o.mode == 'x':
		return math.MaxInt64
	case o.mode == 's' && count > 0:
		return count - 1
	}
	return count
}

// nack is XNACK key group SILENT|FAIL|FATAL IDS count id [id …] [RETRYCOUNT count] [FORCE].
//
// Replies: the number of entries given back. Errors: those of the options, ErrWrongType, NOGROUP. A pending entry whose
// entry was deleted from the stream stops being pending, because no consumer can get it.
// Propagates: XCLAIM of each entry for the consumer with an empty name and the time 0. In that form Redis 7.0 can store
// it.
func (h *commands) nack(c *command.Context) error {
	key := c.Args[1]
	var o nackOptions
	if err := o.parse(h, c.Args[3:]); err != nil {
		return err
	}
	e, err := editCounted(c, key)
	if err != nil {
		return err
	}
	var w streams.Writer
	var g *streams.Group
	if e != nil {
		w = streams.Edit(e)
		g = w.Group(c.Args[2])
	}
	if g == nil {
		return errNoKeyOrGroup(key, c.Args[2])
	}
	c.PropagateNothing()
	n := 0
	for _, id := range h.ids {
		var p streams.Pending // of a new entry
		if !g.Lookup(id, &p) && (!o.force || !w.Has(id)) {
			continue
		}
		n++
		if !w.Has(id) {
			propagateClaim(c, key, c.Args[2], p.Consumer(), id, p.Time, p.Count, g.LastID())
			w.Acknowledge(g, id)
			continue
		}
		count := o.counted(p.Count)
		w.GiveBack(g, id, count)
		propagateClaim(c, key, c.Args[2], nil, id, 0, count, g.LastID())
	}
	if n > 0 {
		c.Changed(n)
		c.Notify(command.EventStream, "xnack", key)
		c.DB.Signal(key) // for clients that wait with CLAIM
	}
	c.Reply.Int(int64(n))
	return nil
}
