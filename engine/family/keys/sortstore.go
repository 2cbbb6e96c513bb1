package keys

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// sortOutput is where sorted elements go: to the reply or, with STORE, to a list.
type sortOutput struct {
	c    *command.Context
	gets []pattern
	room finder

	storing bool
	limits  list.Limits
	n       int          // elements stored
	lp      []byte       // the list, as long as it is a listpack
	long    bool         // it is in built
	built   list.Builder // where it goes on when the listpack is full
}

// store begins a list.
func (o *sortOutput) store(l list.Limits) { o.storing, o.limits, o.lp = true, l, listpack.Begin(nil) }

// element puts out one element, or what the GET patterns make of it.
func (o *sortOutput) element(text []byte) {
	if len(o.gets) == 0 {
		o.put(text, true)
	}
	for i := range o.gets {
		o.put(o.room.find(o.c, &o.gets[i], text))
	}
}

func (o *sortOutput) put(text []byte, found bool) {
	switch {
	case o.storing:
		o.push(text) // what was not found is kept as an empty element
	case found:
		o.c.Reply.Bulk(text)
	default:
		o.c.Reply.Null()
	}
}

// push appends an element to the list.
func (o *sortOutput) push(text []byte) {
	el := listpack.Of(text)
	if !o.long && !o.limits.Takes(len(o.lp)+1, o.n, len(text)) {
		o.unpack()
	}
	if o.n++; o.long {
		o.built.Push(el)
	} else {
		o.lp = listpack.AppendEntry(o.lp, el)
	}
}

// unpack goes on with a quicklist.
func (o *sortOutput) unpack() {
	o.long, o.built = true, list.NewBuilder(o.c.Space.Store(), o.limits)
	lp := listpack.Close(o.lp, 0, o.n)
	for at := listpack.First(lp); at != 0; {
		var el listpack.Element
		el, at = listpack.GetNext(lp, at)
		o.built.Push(el)
	}
}

// keep makes key the list, or nothing if it has no element, and says how many it has.
func (o *sortOutput) keep(key []byte) (n int) {
	c, created := o.c, false
	switch {
	case o.n == 0:
		if c.DB.Delete(key) {
			c.Notify(command.EventGeneric, "del", key)
			c.Changed(1)
		}
		return 0
	case o.long:
		created = c.DB.PutRoot(key, value.List, value.Quicklist, o.built.Root(), 0)
	default:
		created = c.DB.PutPacked(key, value.List, value.Listpack, listpack.Close(o.lp, 0, o.n), 0)
	}
	if created {
		c.Notify(command.EventNew, "new", key)
	}
	c.Notify(command.EventList, "sortstore", key)
	c.Changed(o.n)
	return o.n
}
