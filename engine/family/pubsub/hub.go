package pubsub

import (
	"iter"
	"slices"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/internal/slots"
	"spindle/protocol"
)

// A Kind says what a subscription is to: a channel, a pattern or a shard channel. Each kind has its own namespace.
type Kind uint8

const (
	Channel Kind = iota
	Pattern
	Shard
	kinds
)

// Core is what the Hub needs of the core. engine.Core implements it.
type Core interface {
	// Here returns the client whose batch runs, or nil.
	Here() *client.Client
	// Push sends p to cl, in the order of the calls.
	Push(cl *client.Client, p []byte)
	// PushAll sends to each client of an audience the message in its protocol. mine means that Here is one of them.
	PushAll(to *client.Audience, mine bool, resp2, resp3 []byte)
}

// A Hub holds all subscriptions.
//
//	topics[kind][name] ─▶ topic ─▶ Audience ─▶ seats ─▶ clients
//	subscribers[client].of[kind][name] ─▶ subscription: topic, seat
//
// pubsub.H1. A client is in subscribers, and has client.PubSub, exactly while it has a subscription.
// pubsub.H2. A topic exists exactly while it has a subscriber; topics of kind Pattern are in patterns, too.
// pubsub.H3. A client's seats are in the groups of its protocol.
//
// Turn only.
type Hub struct {
	Bus slots.Bus // sends messages to the cluster's other nodes; nil outside cluster mode

	// Sent is called with the number of bytes that the subscribers of a shard channel get. It is nil outside cluster
	// mode.
	Sent func(channel []byte, bytes int)

	core        Core
	topics      [kinds]map[string]*topic
	patterns    []*topic // in no defined order
	subscribers map[*client.Client]*subscriber
	numbers     uint64 // the number of subscriptions ever made
}

// A topic is a name with at least one subscriber.
type topic struct {
	name     string
	at       int // index in patterns
	audience client.Audience
}

// A subscriber holds the subscriptions of one client.
type subscriber struct {
	of [kinds]map[string]subscription
}

type subscription struct {
	topic  *topic
	seat   *client.Seat
	number uint64 // grows in the order of subscription
}

// subscriptionBytes is the cost of a subscription without its name. It covers its share of the maps, the seat, and a
// topic with one subscriber.
const subscriptionBytes = 320

func NewHub(core Core) *Hub {
	h := &Hub{core: core, subscribers: map[*client.Client]*subscriber{}}
	for k := range h.topics {
		h.topics[k] = map[string]*topic{}
	}
	return h
}

// Heard reports whether a channel or pattern has a subscriber.
func (h *Hub) Heard() bool { return len(h.topics[Channel]) > 0 || len(h.patterns) > 0 }

// Len returns the number of names of a kind that have subscribers.
func (h *Hub) Len(k Kind) int { return len(h.topics[k]) }

// Count returns the number of cl's subscriptions, by kind.
func (h *Hub) Count(cl *client.Client) (channels, patterns, shards int) {
	if s := h.subscribers[cl]; s != nil {
		channels, patterns, shards = len(s.of[Channel]), len(s.of[Pattern]), len(s.of[Shard])
	}
	return channels, patterns, shards
}

// Names yields the names that cl is subscribed to, in no order. ACL changes check them.
//
// Proof: TestHubAgainstAModel compares the names with those of its model.
func (h *Hub) Names(cl *client.Client) func(yield func(k Kind, name string) bool) {
	return func(yield func(Kind, string) bool) {
		s := h.subscribers[cl]
		if s == nil {
			return
		}
		for k := range s.of {
			for name := range s.of[k] {
				if !yield(Kind(k), name) {
					return
				}
			}
		}
	}
}

// Forget ends all subscriptions of cl without a reply, when it leaves or is reset.
func (h *Hub) Forget(cl *client.Client) {
	s := h.subscribers[cl]
	if s == nil {
		return
	}
	for k := range s.of {
		for _, name := range s.names(Kind(k)) {
			h.leave(cl, Kind(k), name)
		}
	}
}

// Speaks moves cl's seats after it has changed its protocol (pubsub.H3).
func (h *Hub) Speaks(cl *client.Client) {
	s := h.subscribers[cl]
	if s == nil {
		return
	}
	for k := range s.of {
		for _, sub := range s.of[k] {
			sub.topic.audience.Move(sub.seat)
		}
	}
}

// join subscribes cl, unless it is already subscribed.
func (h *Hub) join(cl *client.Client, k Kind, name []byte) {
	s := h.subscribers[cl]
	if s == nil {
		s = &subscriber{}
		h.subscribers[cl] = s
		cl.Flags |= client.PubSub
		h.classify(cl, protocol.ClassPubSub)
	}
	if _, is := s.of[k][string(name)]; is {
		return
	}
	t := h.topics[k][string(name)]
	if t == nil {
		t = &topic{name: string(name), at: len(h.patterns)}
		h.topics[k][t.name] = t
		if k == Pattern {
			h.patterns = append(h.patterns, t)
		}
	}
	if s.of[k] == nil {
		s.of[k] = map[string]subscription{}
	}
	h.numbers++
	s.of[k][t.name] = subscription{t, t.audience.Add(cl), h.numbers}
	cl.FamilyBytes += subscriptionBytes + len(name)
}

// leave ends a subscription of cl, if it exists.
func (h *Hub) leave(cl *client.Client, k Kind, name string) {
	s := h.subscribers[cl]
	if s == nil {
		return
	}
	sub, is := s.of[k][name]
	if !is {
		return
	}
	t := sub.topic
	if t.audience.Remove(sub.seat); t.audience.Len() == 0 {
		delete(h.topics[k], t.name)
		if k == Pattern {
			last := h.patterns[len(h.patterns)-1]
			h.patterns[t.at], last.at = last, t.at
			h.patterns[len(h.patterns)-1] = nil
			h.patterns = h.patterns[:len(h.patterns)-1]
		}
	}
	delete(s.of[k], name)
	cl.FamilyBytes -= subscriptionBytes + len(name)
	if len(s.of[Channel])+len(s.of[Pattern])+len(s.of[Shard]) == 0 {
		delete(h.subscribers, cl)
		cl.Flags &^= client.PubSub
		h.classify(cl, protocol.ClassNormal)
	}
}

// classify sets cl's output limit. A replica keeps its own.
func (h *Hub) classify(cl *client.Client, class protocol.Class) {
	if !cl.Is(client.Replica) {
		cl.Conn.SetClass(class)
	}
}

// names returns the subscriber's names of a kind, in the order of subscription.
func (s *subscriber) names(k Kind) []string {
	list := make([]subscription, 0, len(s.of[k]))
	for _, sub := range s.of[k] {
		list = append(list, sub)
	}
	slices.SortFunc(list, func(a, b subscription) int { return int(int64(a.number - b.number)) })
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].topic.name
	}
	return names
}

// Forbidden returns the clients in all that belong to user and have a subscription which rights no longer allow.
func (h *Hub) Forbidden(all iter.Seq[*client.Client], user client.User, rights *acl.Rights) (list []*client.Client) {
	for cl := range all {
		if cl.User != user {
			continue
		}
		for kind, name := range h.Names(cl) {
			if !rights.CheckChannel([]byte(name), kind == Pattern) {
				list = append(list, cl)
				break
			}
		}
	}
	return list
}
