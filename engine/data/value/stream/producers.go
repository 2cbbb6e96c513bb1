package stream

import (
	"bytes"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// A producer names its messages, so that a message that it sends again is not added twice (XADD IDMP). A stream
// remembers the last names of each producer, for some time. With each name it remembers the ID of the entry that the
// message became.
//
//	root ─▶ memory: settings, counts
//	         ├▶ producers: tree of (name's first 8 bytes, Ref) in order of names
//	         │               │
//	         │               ▼
//	         │             Producer ─▶ name, which messages point to
//	         │                      ├▶ messages: tree of (first 8 bytes of the message's name, Ref) in order of names
//	         │                      └▶ order: tree of (number, Ref), as they came
//	         └▶ ages: tree of (time, Ref), of all producers' messages
//
// stream.S7. A message is in ages, and in both trees of the one producer that it points to. Each producer has at least
// one message.
// stream.S8. Blocks of messages never change. Other blocks here begin with their epoch, as in stream.S6.
type memo struct {
	epoch      uint64
	limits     Recall
	added      uint64 // messages ever added with a name
	duplicates uint64 // messages ever refused because their names were known
	bytes      uint64 // of messages and producers
	producers  tree.State
	ages       tree.State
	destroyed  uint64 // producers that destroy has freed
}

// Recall is how long message names are remembered, and how many for each producer.
type Recall struct {
	Seconds uint32
	Most    uint32
}

// The greatest values of Recall that a client may set.
const (
	MaxRecallSeconds = 86_400
	MaxRecall        = 10_000
)

// A producer begins as a Group does: with its epoch and name.
type producer struct {
	epoch     uint64
	name      memory.Ref
	order     tree.State
	messages  tree.State
	next      uint64 // number of the next message
	destroyed uint64 // messages that destroy has freed
}

type message struct {
	epoch    uint64
	producer memory.Ref // its name
	entry    ID
	time     uint64 // Unix ms
	number   uint64 // in the producer's order
	length   uint64 // of the message's name, which follows
}

const (
	memoBytes     = int(unsafe.Sizeof(memo{}))
	producerBytes = int(unsafe.Sizeof(producer{}))
	messageBytes  = int(unsafe.Sizeof(message{}))
)

func memoAt(ref memory.Ref) *memo         { return (*memo)(memory.Pointer(ref)) }
func producerAt(ref memory.Ref) *producer { return (*producer)(memory.Pointer(ref)) }
func messageAt(ref memory.Ref) *message   { return (*message)(memory.Pointer(ref)) }

// sentName returns the name of the message at ref.
func sentName(ref memory.Ref) []byte {
	n := messageBytes + int(messageAt(ref).length)
	return memory.Bytes(ref, n)[messageBytes:]
}

// Recalls reports whether the stream has a memory of message names. It has one after the first producer, or after
// settings for them.
func (s Stream) Recalls() bool { return s.r.memo != 0 }

// Recalled is the state of a stream's memory of message names.
type Recalled struct {
	Recall
	Producers, Messages uint64 // that are remembered
	Added, Duplicates   uint64 // in the stream's life
}

// Recalled returns the state of the stream's memory of message names. It returns zeros if the stream has no such
// memory.
func (s Stream) Recalled() (r Recalled) {
	if s.r.memo != 0 {
		m := memoAt(s.r.memo)
		r = Recalled{m.limits, m.producers.Len(), m.ages.Len(), m.added, m.duplicates}
	}
	return r
}

// Producers yields the name of each producer, in order, and the number of its messages that are remembered.
func (s Stream) Producers(yield func(name []byte, messages uint64) bool) {
	if s.r.memo == 0 {
		return
	}
	var c tree.Cursor
	for ok := memoAt(s.r.memo).producers.First(&c); ok; ok = c.Next() {
		if p := producerAt(memory.Ref(c.Record()[1])); !yield(table.MemberKey(p.name), p.order.Len()) {
			return
		}
	}
}

// MessagesOf yields the remembered messages of a producer, in order of arrival.
func (s Stream) MessagesOf(producer []byte, yield func(name []byte, entry ID) bool) {
	p := s.producer(producer)
	if p == nil {
		return
	}
	var c tree.Cursor
	for ok := p.order.First(&c); ok; ok = c.Next() {
		ref := memory.Ref(c.Record()[1])
		if !yield(sentName(ref), messageAt(ref).entry) {
			return
		}
	}
}

// Sent returns the entry that a producer's message became. ok is false if the message is not known, or was too old at
// the time now (Unix ms).
func (s Stream) Sent(producer, name []byte, now int64) (entry ID, ok bool) {
	p := s.producer(producer)
	if p == nil {
		return ID{}, false
	}
	var c tree.Cursor
	ref := p.find(&c, name)
	if ref == 0 || memoAt(s.r.memo).forgets(messageAt(ref), now) {
		return ID{}, false
	}
	return messageAt(ref).entry, true
}

// forgets reports whether m is too old at the time now.
func (o *memo) forgets(m *message, now int64) bool { return o.due(m) <= now }

// due returns when m is forgotten, in Unix ms.
func (o *memo) due(m *message) int64 { return int64(m.time) + int64(o.limits.Seconds)*1000 }

// Forgets returns when the stream forgets the oldest message name that it remembers for XADD IDMP, in Unix ms. It
// returns 0 if the stream remembers none.
func (s Stream) Forgets() int64 {
	if s.r.memo == 0 {
		return 0
	}
	m := memoAt(s.r.memo)
	var c tree.Cursor
	if !m.ages.First(&c) {
		return 0
	}
	return m.due(messageAt(memory.Ref(c.Record()[1])))
}

// producer returns the producer with this name, or nil if there is none.
func (s Stream) producer(name []byte) *producer {
	if s.r.memo == 0 {
		return nil
	}
	var c tree.Cursor
	ref := lookUp(&memoAt(s.r.memo).producers, &c, name)
	if ref == 0 {
		return nil
	}
	return producerAt(ref)
}

// find puts c at the record of the message with this name, and returns the message's block, or 0 if there is none.
func (p *producer) find(c *tree.Cursor, name []byte) memory.Ref {
	if !p.messages.Find(c, tree.Probe{Word0: prefixOf(name),
		Tie: func(word1 uint64) int { return bytes.Compare(name, sentName(memory.Ref(word1))) }}) {
		return 0
	}
	return memory.Ref(c.Record()[1])
}

// recall returns the memory of message names, writable. If there is none, it makes one with these limits.
func (w *Writer) recall(limits Recall) *memo {
	old := w.r.memo
	if old != 0 && *memory.Word(old) > w.heap.Frozen() {
		return memoAt(old)
	}
	ref := w.heap.Alloc(memoBytes, memory.Values)
	if old == 0 {
		*memoAt(ref) = memo{limits: limits}
		w.store.Used.Note(value.Stream, value.StreamProducers)
	} else {
		*memoAt(ref) = *memoAt(old)
		w.release(old, *memory.Word(old))
	}
	memoAt(ref).epoch = w.heap.Epoch()
	w.r.memo = ref
	return memoAt(ref)
}

// SetRecall sets the limits. If that changes them, it forgets all messages and returns true. presets are the limits of
// a stream that has no memory of message names yet.
func (w *Writer) SetRecall(limits, presets Recall) (changed bool) {
	m := w.recall(presets)
	if m.limits == limits {
		return false
	}
	for m.ages.Len() > 0 {
		w.forgetOldest(m)
	}
	m.limits = limits
	return true
}

// Duplicate counts a message that was not added, because the stream still remembers its name.
func (w *Writer) Duplicate() { w.recall(Recall{}).duplicates++ }

// Remember records that a producer's message became an entry, at the time now (Unix ms). limits are for a stream that
// has no memory of message names yet. If the producer has too many messages, its oldest one is forgotten.
func (w *Writer) Remember(producer, name []byte, entry ID, now int64, limits Recall) {
	m := w.recall(limits)
	w.remember(m, producer, name, entry, timeOf(entry, now))
	m.added++
}

// timeOf returns when a message was sent, by the ID of its entry. If the ID is ahead of the clock, it returns now.
func timeOf(entry ID, now int64) uint64 { return min(entry.Ms, uint64(max(now, 0))) }

func (w *Writer) remember(m *memo, name, sent []byte, entry ID, time uint64) {
	var c tree.Cursor
	var p *producer
	if lookUp(&m.producers, &c, name) != 0 {
		p = producerAt(w.own(&m.producers, &c, producerBytes))
	} else {
		ref := w.heap.Alloc(producerBytes, memory.Values)
		*producerAt(ref) = producer{epoch: w.heap.Epoch(), name: table.NewMember(w.heap, name)}
		p = producerAt(ref)
		m.bytes += uint64(memory.UsableSize(ref) + memory.UsableSize(p.name))
		w.enter(&m.producers, ref)
	}
	if ref := p.find(&c, sent); ref != 0 {
		w.forget(m, p, ref)
	}
	for p.order.Len() > 0 && p.order.Len() >= uint64(m.limits.Most) {
		p.order.First(&c)
		w.forget(m, p, memory.Ref(c.Record()[1]))
	}
	ref := w.heap.Alloc(messageBytes+len(sent), memory.Values)
	*messageAt(ref) = message{epoch: w.heap.Epoch(), producer: p.name, entry: entry, time: time, number: p.next,
		length: uint64(len(sent))}
	copy(sentName(ref), sent)
	m.bytes += uint64(memory.UsableSize(ref))
	p.next++
	w.insert(&m.ages, time, ref, nil)
	w.insert(&p.order, messageAt(ref).number, ref, nil)
	w.insert(&p.messages, prefixOf(sent), ref,
		func(word1 uint64) int { return bytes.Compare(sent, sentName(memory.Ref(word1))) })
}

func (w *Writer) insert(s *tree.State, word0 uint64, ref memory.Ref, tie func(word1 uint64) int) {
	t := w.directory(*s)
	t.Insert([]uint64{word0, uint64(ref)}, tie)
	*s = t.State
}

// forget removes the message at ref of p. m and p must be writable. p may be left without a message.
func (w *Writer) forget(m *memo, p *producer, ref memory.Ref) {
	x := messageAt(ref)
	var c tree.Cursor
	if p.find(&c, sentName(ref)) == ref {
		w.strike(&p.messages, &c)
	}
	if p.order.Find(&c, tree.Probe{Word0: x.number, Word1: uint64(ref)}) {
		w.strike(&p.order, &c)
	}
	if m.ages.Find(&c, tree.Probe{Word0: x.time, Word1: uint64(ref)}) {
		w.strike(&m.ages, &c)
	}
	m.bytes -= uint64(memory.UsableSize(ref))
	w.release(ref, x.epoch)
}

// forgetOldest removes the oldest message. It also removes the message's producer if the producer has no other message.
func (w *Writer) forgetOldest(m *memo) {
	var c tree.Cursor
	m.ages.First(&c)
	ref := memory.Ref(c.Record()[1])
	name := table.MemberKey(messageAt(ref).producer)
	lookUp(&m.producers, &c, name)
	p := producerAt(w.own(&m.producers, &c, producerBytes))
	w.forget(m, p, ref)
	if p.order.Len() == 0 {
		at := memory.Ref(c.Record()[1])
		w.strike(&m.producers, &c)
		m.bytes -= uint64(memory.UsableSize(at) + memory.UsableSize(p.name))
		w.release(p.name, 0)
		w.release(at, p.epoch)
	}
}

// Forget is ForgetSent for e's stream. It opens the stream only if a message is too old.
func Forget(e *value.Edit, now int64, budget int) (next int64, n int) {
	if at := Of(e.Value()).Forgets(); at == 0 || at > now {
		return at, 0
	}
	w := Edit(e)
	return w.ForgetSent(now, budget)
}

// ForgetSent removes up to budget messages that are too old at the time now (Unix ms). It returns when the next one
// will be too old (0 if none is left) and the number removed.
func (w *Writer) ForgetSent(now int64, budget int) (next int64, n int) {
	for ; n < budget; n++ {
		if next = w.Forgets(); next == 0 || next > now {
			return next, n
		}
		w.forgetOldest(w.recall(Recall{}))
	}
	return w.Forgets(), n
}

// Restore sets the limits of a memory of message names, for loaders.
func (w *Writer) Restore(limits Recall) { w.recall(limits).limits = limits }

// RestoreMessage adds a message as Remember does, without counting it. It returns false if the producer already has a
// message with this name.
func (w *Writer) RestoreMessage(producer, name []byte, entry ID, now int64) bool {
	m := w.recall(Recall{})
	var c tree.Cursor
	if p := w.producer(producer); p != nil && p.find(&c, name) != 0 {
		return false
	}
	w.remember(m, producer, name, entry, timeOf(entry, now))
	return true
}

// RestoreCounts sets the counts of a memory of message names, for loaders.
func (w *Writer) RestoreCounts(added, duplicates uint64) {
	m := w.recall(Recall{})
	m.added, m.duplicates = added, duplicates
}

// copyMemo gives a new stream a copy of the memory of message names of from.
func (w *Writer) copyMemo(from Stream) {
	if from.r.memo == 0 {
		return
	}
	old := memoAt(from.r.memo)
	m := w.recall(old.limits)
	var c, each tree.Cursor
	for ok := old.producers.First(&c); ok; ok = c.Next() {
		p := producerAt(memory.Ref(c.Record()[1]))
		for more := p.order.First(&each); more; more = each.Next() {
			ref := memory.Ref(each.Record()[1])
			w.remember(m, table.MemberKey(p.name), sentName(ref), messageAt(ref).entry, messageAt(ref).time)
		}
	}
	m.added, m.duplicates = old.added, old.duplicates
}

// destroyMemo frees a memory of message names, budget blocks at a time.
func destroyMemo(r *memory.Returner, ref memory.Ref, budget int) (done bool, spent int) {
	if budget <= 0 {
		return false, 0
	}
	m := memoAt(ref)
	done, spent = m.ages.Destroy(r, budget)
	if done {
		var n int
		done, n = destroyEach(r, &m.producers, &m.destroyed, destroyProducer, budget-spent)
		spent += n
	}
	if done {
		r.Free(ref, memory.Values)
		spent++
	}
	return done, spent
}

func destroyProducer(r *memory.Returner, ref memory.Ref, budget int) (done bool, spent int) {
	p := producerAt(ref)
	var c tree.Cursor
	for ; p.destroyed < p.order.Len(); p.destroyed++ {
		if spent >= budget {
			return false, spent
		}
		p.order.At(&c, p.destroyed)
		r.Free(memory.Ref(c.Record()[1]), memory.Values)
		spent++
	}
	done, n := p.order.Destroy(r, budget-spent)
	spent += n
	if done {
		done, n = p.messages.Destroy(r, budget-spent)
		spent += n
	}
	if done {
		r.Free(p.name, memory.Values)
		r.Free(ref, memory.Values)
		spent += 2
	}
	return done, spent
}

// perRecord is about how many bytes a record of 16 bytes costs, with its share of the nodes above and of unused room.
const perRecord = 20

// memoCost estimates the bytes of the memory of message names. O(1).
func (s Stream) memoCost() int {
	if s.r.memo == 0 {
		return 0
	}
	m := memoAt(s.r.memo)
	return memory.UsableSize(s.r.memo) + int(m.bytes) + perRecord*int(3*m.ages.Len()+m.producers.Len())
}
