package stream

// noName is the name of the consumer that stands for no owner. It has the entries that were given back (XNACK).
var noName = []byte{}

// GiveBack makes id pending without an owner, with this number of deliveries. id need not have been pending before. g
// must come from Writer.Group.
func (w *Writer) GiveBack(g *Group, id ID, count uint64) {
	w.Deliver(g, w.noOwner(g), id, 0, count)
}

// AssignGiven marks a pending entry that Expect added as given back. It returns false if the entry is not pending, or
// has a consumer.
func (w *Writer) AssignGiven(g *Group, id ID) bool {
	var p Pending
	if !w.Assign(g, w.noOwner(g), id) {
		return false
	}
	g.Lookup(id, &p)
	w.Redeliver(g, &p, 0, p.Count)
	return true
}

// noOwner returns the consumer that has the entries that were given back. It creates the consumer if needed.
func (w *Writer) noOwner(g *Group) *Consumer {
	if c := w.Consumer(g, noName); c != nil {
		return c
	}
	return w.CreateConsumer(g, noName, 0)
}

// Hidden reports whether c only holds entries that were given back. No client has ever read as this consumer.
func (c *Consumer) Hidden() bool { return c.seen == 0 && len(c.Name()) == 0 }

// Shown returns the number of consumers that are not hidden.
func (g *Group) Shown() uint64 {
	n := g.Consumers()
	if c := g.Consumer(noName); c != nil && c.Hidden() {
		n--
	}
	return n
}

// GivenBack returns the number of entries that were given back. O(1), unless a client has read as a consumer with an
// empty name.
func (g *Group) GivenBack() (n uint64) {
	c := g.Consumer(noName)
	if c == nil {
		return 0
	}
	if c.Hidden() {
		return c.Pending()
	}
	var cur PendingCursor
	var p Pending
	for g.FromOf(&cur, c, ID{}); cur.Next(&p); {
		if p.Given() {
			n++
		}
	}
	return n
}
