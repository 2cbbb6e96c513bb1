package keys

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// sortOutput adds sorted elements to the reply or, with STORE, to a list.
type sortOutput struct {
	at   *place
	gets []pattern
	room finder

	storing bool
	list    list.Gatherer // with STORE
}

func (o *sortOutput) store(l list.Limits) { o.storing, o.list = true, list.Gather(l) }

// element outputs one element, or the values that the GET patterns lead to.
func (o *sortOutput) element(text []byte) {
	if len(o.gets) == 0 {
		o.put(text, true)
	}
	for i := range o.gets {
		o.put(o.room.find(o.at, &o.gets[i], text))
	}
}

func (o *sortOutput) put(text []byte, found bool) {
	switch {
	case o.storing:
		o.list.Push(o.at.Store(), text) // a missing value becomes an empty element
	case found:
		o.at.Reply.Bulk(text)
	default:
		o.at.Reply.Null()
	}
}

// keep stores the list at key and returns its length. If the list is empty, it deletes key.
func (o *sortOutput) keep(key []byte) (n int) {
	c, created := o.at.c, false
	if n = o.list.Len(); n == 0 {
		if c.DB.Delete(key) {
			c.Notify(command.EventGeneric, "del", key)
			c.Changed(1)
		}
		return 0
	}
	c.Overwrites(key, value.List)
	if lp := o.list.Packed(); lp != nil {
		created = c.DB.PutPacked(key, value.List, value.Listpack, lp, 0)
	} else {
		created = c.DB.PutRoot(key, value.List, value.Quicklist, o.list.Root(c.Space.Store()), 0)
	}
	if created {
		c.Notify(command.EventNew, "new", key)
	}
	c.Notify(command.EventList, "sortstore", key)
	c.Changed(n)
	return n
}
