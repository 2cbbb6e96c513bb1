package engine

import (
	"strings"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
)

// admitWhole refuses a guest's call that may read more than guestMost elements. A guest's command cannot lend the turn,
// so all clients would wait for it.
func (c *Core) admitWhole(cl *client.Client, call part.Call) error {
	reads := call.Spec.Reads
	if reads.Most == nil {
		return nil
	}
	db, n := c.space.DB(cl.DB), int64(0)
	if !call.Spec.HasKeys(command.IncludeNotKeys) {
		n = reads.Most(call.Args, int64(db.Len()))
	}
	keys, err := call.Spec.AppendKeys(nil, call.Args, 0)
	if err != nil {
		return nil // the handler says what is wrong
	}
	for _, k := range keys {
		n += reads.Most(call.Args, db.Elements(call.Args[k.Index]))
	}
	if n <= guestMost {
		return nil
	}
	return errGuestReadsMuch(strings.ToUpper(call.Spec.Name), n, guestMost, reads.Use)
}

// guestMost is the number of elements that a guest's call may read: about a millisecond's work.
const guestMost = 10_000

// forGuests reports whether a guest may run commands with these flags. A guest may run no command that changes data,
// waits or subscribes.
func forGuests(flags command.Flags) bool {
	listens := flags&command.PubSub != 0 && flags&command.NoScript != 0
	// A command that reads and cannot wait replies at once.
	waits := flags&command.Blocking != 0 && flags&command.ReadOnly == 0
	return flags&(command.Write|command.MayReplicate) == 0 && !listens && !waits
}
