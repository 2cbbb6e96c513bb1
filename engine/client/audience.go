package client

import (
	"slices"

	"spindle/protocol"
)

// An Audience is a set of clients that get the same messages. A message is encoded once for each protocol, and posted
// once to each loop.
//
//	groups   loop 0, RESP2   to:    conn  conn  conn      the mail of a message has this list
//	                         seats: seat  seat  seat      whose each is
//	         loop 0, RESP3   …
//
// client.A1. A list that was sent is shared with its loop, so its elements must not change. New elements are appended.
// client.A2. seats[i] is the seat of to[i]; its at is i. No group is empty.
//
// client.A3. A group's loop is the loop of its clients. So a client with a seat stays on its loop (Client.IsSeated).
//
// Turn only (client.H1). The zero Audience is empty.
type Audience struct {
	groups []*group
	n      int
}

type group struct {
	loop   protocol.Loop // nil for connections that share no loop
	resp3  bool
	to     []protocol.Conn
	seats  []*Seat
	shared bool // a mail may have to (client.A1)
}

// A Seat is a client's place in an Audience.
type Seat struct {
	Client *Client
	group  *group
	at     int
}

// Len returns the number of clients.
func (a *Audience) Len() int { return a.n }

// Add gives c, which has a connection, a seat in the group of its loop and its present protocol.
func (a *Audience) Add(c *Client) *Seat {
	c.assertHeld()
	s := &Seat{Client: c}
	a.seat(s)
	return s
}

// Move moves the seat of a client that has chosen another protocol to the right group.
func (a *Audience) Move(s *Seat) {
	a.Remove(s)
	a.seat(s)
}

func (a *Audience) seat(s *Seat) {
	s.Client.seats++
	g := a.group(s.Client.Conn.Loop(), s.Client.Protocol == 3)
	s.group, s.at = g, len(g.to)
	g.to, g.seats = append(g.to, s.Client.Conn), append(g.seats, s)
	a.n++
}

// group finds the group of a loop and a protocol, or makes it. Each loop has at most two groups.
func (a *Audience) group(loop protocol.Loop, resp3 bool) *group {
	for _, g := range a.groups {
		if g.loop == loop && g.resp3 == resp3 {
			return g
		}
	}
	g := &group{loop: loop, resp3: resp3}
	a.groups = append(a.groups, g)
	return g
}

// Remove removes a seat. The last seat of its group takes its place.
// Cost: a copy of the group's list if a message was sent since the last change.
func (a *Audience) Remove(s *Seat) {
	s.Client.assertHeld()
	g, last := s.group, len(s.group.to)-1
	a.n--
	s.Client.seats--
	if last == 0 {
		at := slices.Index(a.groups, g)
		a.groups = slices.Delete(a.groups, at, at+1)
		return
	}
	if g.shared {
		g.to, g.shared = slices.Clone(g.to), false
	}
	g.to[s.at], g.seats[s.at] = g.to[last], g.seats[last]
	g.seats[s.at].at = s.at
	g.to[last], g.seats[last] = nil, nil
	g.to, g.seats = g.to[:last], g.seats[:last]
}

// Speaks reports in which protocols a message is needed.
func (a *Audience) Speaks() (resp2, resp3 bool) {
	for _, g := range a.groups {
		g.seats[0].Client.assertHeld()
		resp2, resp3 = resp2 || !g.resp3, resp3 || g.resp3
	}
	return resp2, resp3
}

// Lens returns the number of clients that speak each protocol.
func (a *Audience) Lens() (resp2, resp3 int) {
	for _, g := range a.groups {
		if g.resp3 {
			resp3 += len(g.to)
		} else {
			resp2 += len(g.to)
		}
	}
	return resp2, resp3
}

// Send posts a message of the given turn to all clients but except, which may be nil. Each client gets it in its own
// protocol.
//
// Lifetime: the bytes must not change after the call. The bytes for a protocol that no client speaks may be nil.
func (a *Audience) Send(turn uint64, except *Client, resp2, resp3 []byte) {
	var not protocol.Conn
	if except != nil {
		not = except.Conn
	}
	for _, g := range a.groups {
		g.seats[0].Client.assertHeld()
		p := resp2
		if g.resp3 {
			p = resp3
		}
		if g.loop != nil {
			g.shared = true
			g.loop.PostAll(turn, g.to, not, p)
			continue
		}
		for _, c := range g.to {
			if c != not {
				c.Post(turn, p)
			}
		}
	}
}
