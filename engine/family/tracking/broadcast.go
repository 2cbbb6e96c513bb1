package tracking

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"spindle/engine/client"
)

// A prefix is a prefix of keys in BCAST mode. Its clients are notified of changes of all keys that begin with text.
type prefix struct {
	text    string
	clients []*client.Client
	at      map[*client.Client]int // index in clients
	changed []int                  // indices in changes.list, while they are sent
}

// A length is the number of prefixes of this length.
type length struct{ bytes, prefixes int }

// prefixBytes is the cost of one prefix of a client, without its text: its share of the maps and lists.
const prefixBytes = 160

// changes are the changed keys with prefixes whose messages have not been sent yet.
type changes struct {
	names []byte // the keys, concatenated
	list  []change
	due   bool // they will be sent at the end of the turn
}

// A change is a change of the key names[from:to]. by is the client that made it, or nil if no command did.
type change struct {
	from, to int
	by       *client.Client
}

// mostChanges is the number of bytes of keys after which changes are sent within the turn.
const mostChanges = 4 << 20

// join adds text to cl's prefixes, unless cl has it already.
func (t *Tracker) join(cl *client.Client, text string) {
	mine := t.clients[cl]
	at, is := slices.BinarySearch(mine.prefixes, text)
	if is {
		return
	}
	mine.prefixes = slices.Insert(mine.prefixes, at, text)
	p := t.prefixes[text]
	if p == nil {
		p = &prefix{text: text, at: map[*client.Client]int{}}
		t.prefixes[text] = p
		t.count(len(text), 1)
	}
	p.at[cl] = len(p.clients)
	p.clients = append(p.clients, cl)
	cl.FamilyBytes += prefixBytes + len(text)
}

// leave removes cl from the prefix text. It does not change cl's own list.
func (t *Tracker) leave(cl *client.Client, text string) {
	p := t.prefixes[text]
	at, last := p.at[cl], len(p.clients)-1
	moved := p.clients[last]
	p.clients[at], p.at[moved] = moved, at
	p.clients[last] = nil
	p.clients = p.clients[:last]
	delete(p.at, cl)
	if last == 0 {
		delete(t.prefixes, text)
		t.count(len(text), -1)
	}
	cl.FamilyBytes -= prefixBytes + len(text)
}

// count adds more to the number of prefixes of this length.
func (t *Tracker) count(bytes, more int) {
	at, is := slices.BinarySearchFunc(t.lengths, bytes, func(l length, n int) int { return cmp.Compare(l.bytes, n) })
	if !is {
		t.lengths = slices.Insert(t.lengths, at, length{bytes: bytes})
	}
	if t.lengths[at].prefixes += more; t.lengths[at].prefixes == 0 {
		t.lengths = slices.Delete(t.lengths, at, at+1)
	}
}

// overlap returns the first of prefixes that is a prefix of text, or that text is a prefix of. prefixes must be sorted.
//
// In the list only the empty prefix may overlap with others. So it is enough to compare text with its neighbours.
func overlap(prefixes []string, text string) (other string, is bool) {
	if len(prefixes) == 0 {
		return "", false
	}
	if prefixes[0] == "" {
		return "", true
	}
	at, _ := slices.BinarySearch(prefixes, text)
	for _, i := range [2]int{at - 1, at} {
		if i >= 0 && i < len(prefixes) && (strings.HasPrefix(text, prefixes[i]) || strings.HasPrefix(prefixes[i], text)) {
			return prefixes[i], true
		}
	}
	return "", false
}

// collect records a change of key if a client has a prefix of key.
func (t *Tracker) collect(key []byte, by *client.Client) {
	heard := false
	for range t.matching(key) {
		heard = true
		break
	}
	if !heard {
		return
	}
	c := &t.changes
	if len(c.names)+len(key) > mostChanges {
		t.broadcast()
	}
	from := len(c.names)
	c.names = append(c.names, key...)
	c.list = append(c.list, change{from, len(c.names), by})
	if !c.due {
		c.due = true
		t.core.AtUnitEnd(func() {
			c.due = false
			t.broadcast()
		})
	}
}

// matching yields the prefixes of key, from the shortest.
func (t *Tracker) matching(key []byte) func(yield func(*prefix) bool) {
	return func(yield func(*prefix) bool) {
		for _, l := range t.lengths {
			if l.bytes > len(key) {
				return
			}
			if p := t.prefixes[string(key[:l.bytes])]; p != nil && !yield(p) {
				return
			}
		}
	}
}

// broadcast sends the collected changes: for each prefix one message with all keys, sorted. A NOLOOP client gets only
// the keys whose last change was made by another client.
func (t *Tracker) broadcast() {
	c := &t.changes
	name := func(i int) []byte { return c.names[c.list[i].from:c.list[i].to] }
	slices.SortStableFunc(c.list, func(a, b change) int {
		return bytes.Compare(c.names[a.from:a.to], c.names[b.from:b.to])
	})
	var heard []*prefix
	for i := range c.list {
		if i+1 < len(c.list) && bytes.Equal(name(i), name(i+1)) {
			continue // the last change counts
		}
		for p := range t.matching(name(i)) {
			if len(p.changed) == 0 {
				heard = append(heard, p)
			}
			p.changed = append(p.changed, i)
		}
	}
	slices.SortFunc(heard, func(a, b *prefix) int { return strings.Compare(a.text, b.text) })
	for _, p := range heard {
		t.sendChanged(p, name)
		p.changed = nil
	}
	clear(c.list)
	c.list, c.names = c.list[:0], c.names[:0]
	if cap(c.list) > keptKeys || cap(c.names) > 16*keptKeys {
		c.list, c.names, t.names = nil, nil, nil
	}
}

// sendChanged sends one prefix's message. NOLOOP clients each get their own message.
func (t *Tracker) sendChanged(p *prefix, name func(int) []byte) {
	to := t.to[:0]
	t.names = t.names[:0]
	for _, i := range p.changed {
		t.names = append(t.names, name(i))
	}
	for _, cl := range p.clients {
		if !cl.Is(client.TrackingNoLoop) {
			to = append(to, cl)
		}
	}
	if len(to) > 0 {
		t.deliver(to, t.names)
	}
	for _, cl := range p.clients {
		if !cl.Is(client.TrackingNoLoop) {
			continue
		}
		t.names = t.names[:0]
		for _, i := range p.changed {
			if t.changes.list[i].by != cl {
				t.names = append(t.names, name(i))
			}
		}
		if len(t.names) > 0 {
			t.deliver(append(t.to[:0], cl), t.names)
		}
	}
}
