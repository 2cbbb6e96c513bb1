package pubsub

import (
	"slices"

	"spindle/engine/client"
	"spindle/internal/slots"
	"spindle/protocol"
)

// A Kind is what a subscription is to. Each kind has names of its own: a channel and a shard channel may share one.
type Kind uint8

const (
	Channel Kind = iota
	Pattern
	Shard
	kinds
)

// Core is what the Hub asks of the core. engine.Core implements it.
type Core interface {
	// Here is the client whose batch is run, or nil.
	Here() *client.Client
	// Push sends p to cl in the order in which it was decided.
	Push(cl *client.Client, p []byte)
	// PushAll sends to each client of an audience what its protocol has. mine says that Here is one of them.
	PushAll(to *client.Audience, mine bool, resp2, resp3 []byte)
}

// A Hub knows who is subscribed to what.
//
//	topics[kind][name] ─▶ topic ─▶ Audience ─▶ seats ─▶ clients
//	subscribers[client].of[kind][name] ─▶ subscription: topic, seat
//
// pubsub.H1. A client is in subscribers, and has client.PubSub, exactly while it has a subscription.
// pubsub.H2. A topic is there exactly while somebody is subscribed to it; those of Pattern are in patterns, too.
// pubsub.H3. A client's seats stand in the groups of the protocol that it speaks.
//
// Turn only.
type Hub struct {
	Bus slots.Bus // of the cluster, whose other nodes hear of messages; nil outside cluster mode

	core        Core
	topics      [kinds]map[string]*topic
	patterns    []*topic // in no order that anybody may count on
	subscribers map[*client.Client]*subscriber
	numbers     uint64 // of subscriptions so far
}

// A topic is a name that somebody is subscribed to.
type topic struct {
	name     string
	at       int // in patterns
	audience client.Audience
}

// A subscriber is what one client is subscribed to.
type subscriber struct {
	of [kinds]map[string]subscription
}

type subscription struct {
	topic  *topic
	seat   *client.Seat
	number uint64 // in the order in which they were made
}

// subscriptionBytes is what a subscription costs beside its name: its share of the maps, the seat, and the topic
// of a single subscriber.
const subscriptionBytes = 320

// NewHub makes a Hub without subscribers.
func NewHub(core Core) *Hub {
	h := &Hub{core: core, subscribers: map[*client.Client]*subscriber{}}
	for k := range h.topics {
		h.topics[k] = map[string]*topic{}
	}
	return h
}

// Heard says whether anybody is subscribed to a channel or a pattern.
func (h *Hub) Heard() bool { return len(h.topics[Channel]) > 0 || len(h.patterns) > 0 }

// Len counts the names of a kind that somebody is subscribed to.
func (h *Hub) Len(k Kind) int { return len(h.topics[k]) }

// Count is how many subscriptions cl has.
func (h *Hub) Count(cl *client.Client) (channels, patterns, shards int) {
	if s := h.subscribers[cl]; s != nil {
		channels, patterns, shards = len(s.of[Channel]), len(s.of[Pattern]), len(s.of[Shard])
	}
	return channels, patterns, shards
}

// Names yields what cl is subscribed to, in no order: for who asks whether it may stay so.
//
// Proof: TestHubAgainstAModel compares it with its model.
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

// Forget ends all subscriptions of cl without a word: it has left, or was reset.
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

// Speaks is for a client that speaks another protocol from now on (pubsub.H3).
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

// join subscribes cl, unless it is.
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
	cl.Kept += subscriptionBytes + len(name)
}

// leave ends a subscription of cl's, if it has it.
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
	cl.Kept -= subscriptionBytes + len(name)
	if len(s.of[Channel])+len(s.of[Pattern])+len(s.of[Shard]) == 0 {
		delete(h.subscribers, cl)
		cl.Flags &^= client.PubSub
		h.classify(cl, protocol.ClassNormal)
	}
}

// classify chooses cl's output limit. A replica keeps its own.
func (h *Hub) classify(cl *client.Client, class protocol.Class) {
	if !cl.Is(client.Replica) {
		cl.Conn.SetClass(class)
	}
}

// names are a subscriber's of a kind, in the order in which it subscribed.
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
