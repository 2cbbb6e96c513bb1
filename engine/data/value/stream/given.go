package stream

// noName is the name of the consumer that has the entries that were given back.
var noName = []byte{}

// GiveBack makes id pending without an owner, with this number of deliveries. It need not have been pending. g is
// from Writer.Group.
func (w *Writer) GiveBack(g *Group, id ID, count uint64) {
	w.Deliver(g, w.noOwner(g), id, 0, count)
}

// AssignGiven makes a pending entry of Expect one that was given back. It returns false if it is not pending, or has a
// consumer.
func (w *Writer) AssignGiven(g *Group, id ID) bool {
	var p Pending
	if !w.Assign(g, w.noOwner(g), id) {
		return false
	}
	g.Lookup(id, &p)
	w.Redeliver(g, &p, 0, p.Count)
	return true
}

// noOwner finds or makes the consumer that has the entries that were given back.
func (w *Writer) noOwner(g *Group) *Consumer {
	if c := w.Consumer(g, noName); c != nil {
		return c
	}
	return w.CreateConsumer(g, noName, 0)
}

// Hidden reports whether c only holds entries that were given back. No client has ever asked as this consumer.
func (c *Consumer) Hidden() bool { return c.seen == 0 && len(c.Name()) == 0 }

// Shown is the number of consumers that are not hidden.
func (g *Group) Shown() uint64 {
	n := g.Consumers()
	if c := g.Consumer(noName); c != nil && c.Hidden() {
		n--
	}
	return n
}

// GivenBack is the number of entries that were given back. O(1), unless a client has asked as a consumer with no name.
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
