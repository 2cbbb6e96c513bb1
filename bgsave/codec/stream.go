package codec

import (
	"encoding/binary"

	"spindle/bgsave/rdb"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/stream"
)

// streamCodec reads and writes streams: the nodes, the stream's other fields, then each group. Version 2 adds the first
// ID, the greatest deleted ID and the numbers of entries added and read. Version 3 adds when a consumer was last
// active. Version 4 adds the message names that the stream remembers of producers (XADD IDMP). Version 5 adds the
// pending entries that were given back and have no consumer. They are read as entries after XNACK. Version 5 is not
// written.
//
//	nodes: n, n × (key: 16 bytes in a string, listpack), length, last ID, [2: first ID, max deleted ID, added]
//	groups: n, n × (name, last ID, [2: read], pending: n, n × (16 bytes, u64 delivered at, count),
//	                consumers: n, n × (name, u64 seen, [3: u64 active], pending: n, n × 16 bytes),
//	                [5: given back: n, n × 16 bytes])
//	[4: seconds, most messages, producers: n, n × (name, n, n × (message's name, ID)), messages added, duplicates]
var streamCodec = Codec{
	Type:  value.Stream,
	Kinds: []rdb.Kind{rdb.KindStream, rdb.KindStream2, rdb.KindStream3, rdb.KindStream4, rdb.KindStream5},
	Kind:  streamKind,
	Write: writeStream,
	Read:  readStream,
	Start: startStream,
}

func streamKind(v value.Value, newest int) rdb.Kind {
	switch {
	case newest >= MemoryVersion && rdb.DialectOf(newest) == rdb.Redis && Remembers(v):
		return rdb.KindStream4
	case newest >= 11:
		return rdb.KindStream3
	}
	return rdb.KindStream2
}

// Remembers reports whether v is a stream that remembers message names of producers.
func Remembers(v value.Value) bool { return v.Type() == value.Stream && stream.Of(v).Recalls() }

func writeStream(w *rdb.Writer, kind rdb.Kind, v value.Value) {
	s := stream.Of(v)
	w.Length(uint64(s.Nodes()))
	s.Leaves(func(master stream.ID, lp []byte) bool {
		key := rawID(master)
		w.Text(key[:])
		w.Text(lp)
		return !w.Stopped()
	})
	w.Length(s.Len())
	writeID(w, s.LastID())
	writeID(w, s.FirstID())
	writeID(w, s.MaxDeleted())
	w.Length(s.Added())
	w.Length(s.GroupCount())
	for g := range s.Groups {
		if w.Stopped() {
			return
		}
		writeGroup(w, kind, g)
	}
	if kind == rdb.KindStream4 {
		writeMemory(w, s)
	}
}

// writeMemory writes the message names that s remembers of producers.
func writeMemory(w *rdb.Writer, s stream.Stream) {
	x := s.Recalled()
	w.Length(uint64(x.Seconds))
	w.Length(uint64(x.Most))
	w.Length(x.Producers)
	for name, n := range s.Producers {
		w.Text(name)
		w.Length(n)
		s.MessagesOf(name, func(message []byte, entry stream.ID) bool {
			w.Text(message)
			writeID(w, entry)
			return !w.Stopped()
		})
		if w.Stopped() {
			return
		}
	}
	w.Length(x.Added)
	w.Length(x.Duplicates)
}

func writeGroup(w *rdb.Writer, kind rdb.Kind, g *stream.Group) {
	w.Text(g.Name())
	writeID(w, g.LastID())
	w.Length(uint64(g.EntriesRead()))
	w.Length(g.Pending())
	var cur stream.PendingCursor
	var p stream.Pending
	for g.From(&cur, stream.ID{}); !w.Stopped() && cur.Next(&p); {
		id := rawID(p.ID)
		w.Raw(id[:])
		w.Uint64(uint64(p.Time))
		w.Length(p.Count)
	}
	w.Length(g.Consumers())
	for c := range g.All {
		w.Text(c.Name())
		w.Uint64(uint64(c.Seen()))
		if kind >= rdb.KindStream3 {
			w.Uint64(uint64(c.Active()))
		}
		w.Length(c.Pending())
		for id := range c.IDs {
			raw := rawID(id)
			w.Raw(raw[:])
		}
		if w.Stopped() {
			return
		}
	}
}

func writeID(w *rdb.Writer, id stream.ID) {
	w.Length(id.Ms)
	w.Length(id.Seq)
}

// rawID returns an ID as 16 bytes that sort like IDs.
func rawID(id stream.ID) (raw [16]byte) {
	binary.BigEndian.PutUint64(raw[:], id.Ms)
	binary.BigEndian.PutUint64(raw[8:], id.Seq)
	return raw
}

func idOf(raw []byte) stream.ID {
	return stream.ID{Ms: binary.BigEndian.Uint64(raw), Seq: binary.BigEndian.Uint64(raw[8:])}
}

// readStream checks the nodes, outside the turn. Packed gets some facts about each node (factBytes), so that the
// builder need not walk the nodes. The builder reads everything else. A stream is never packed, and may be empty.
func readStream(x *Expander, _ rdb.Kind, r *rdb.Reader) (Ready, error) {
	n, err := r.Count(2)
	if err != nil {
		return Ready{}, err
	}
	facts := x.Begin()
	for range n {
		key, err := x.Text(r)
		if err != nil {
			return Ready{}, err
		}
		if len(key) != 16 {
			return Ready{}, errNodeKey
		}
		master := idOf(key)
		lp, err := x.Text(r)
		if err != nil {
			return Ready{}, err
		}
		last, live, _, err := stream.ValidateNode(lp, master)
		if err != nil {
			return Ready{}, err
		}
		raw := rawID(last)
		facts = binary.LittleEndian.AppendUint64(append(facts, raw[:]...), live)
	}
	_, err = r.Take(r.Len())
	return Ready{Encoding: value.StreamTree, Packed: x.Keep(facts)}, err
}

// factBytes is the size of a node's facts in Ready.Packed: the ID of its last entry, and its number of live entries.
const factBytes = 16 + 8

const errNodeKey = rdb.Corrupt("the key of a stream's node is not 16 bytes long")

// A streamBuilder reads a stream part by part. Each step looks up the group and the consumer again, because a view may
// have forced a copy of them.
type streamBuilder struct {
	source  Source
	r       rdb.Reader
	facts   rdb.Reader // facts of the nodes that are left
	root    memory.Ref
	scratch []byte
	part    func(b *streamBuilder, w *stream.Writer) error // reads the next part
	spent   int                                            // elements done in that part
	done    bool

	nodes, groups, pending, consumers, own, producers int // how many are left

	givenBack       bool // the own entries are those without a consumer
	recall          stream.Recall
	length          uint64
	last            stream.ID // last ID of the previous node
	group, consumer []byte    // names of the current ones
}

func startStream(s Source) Builder {
	return &streamBuilder{source: s, r: rdb.NewReader(s.Raw), facts: rdb.NewReader(s.Packed), part: (*streamBuilder).begin}
}

func (b *streamBuilder) Root() memory.Ref { return b.root }

func (b *streamBuilder) Step(n int) (done bool, err error) {
	if b.root == 0 {
		b.root = stream.New(b.source.Store)
	}
	w := stream.Build(b.source.Store, b.root)
	for ; n > 0 && !b.done && err == nil; n -= b.spent {
		b.spent = 1
		err = b.part(b, &w)
	}
	if err == nil && b.done && b.r.Len() != 0 {
		err = rdb.Corrupt("bytes after the value")
	}
	return b.done, err
}

func (b *streamBuilder) begin(*stream.Writer) (err error) {
	b.nodes, err = b.r.Count(2)
	b.part = (*streamBuilder).node
	return err
}

func (b *streamBuilder) node(w *stream.Writer) error {
	if b.nodes == 0 {
		return b.rest(w)
	}
	b.nodes--
	key, err := b.text()
	if err != nil {
		return err
	}
	master := idOf(key)
	lp, err := b.text()
	if err != nil {
		return err
	}
	fact, err := b.facts.Take(factBytes)
	if err != nil {
		return err
	}
	last, live := idOf(fact), binary.LittleEndian.Uint64(fact[16:])
	switch {
	case b.last != (stream.ID{}) && !b.last.Less(master):
		return rdb.Corrupt("the nodes of a stream do not ascend")
	case live == 0:
		return nil // trimming by ID may leave an empty node, which is dropped
	}
	w.AddNode(master, lp, live)
	b.spent = int(live)
	b.last = last
	b.length += live
	return nil
}

// rest reads the fields between the nodes and the groups.
func (b *streamBuilder) rest(w *stream.Writer) error {
	length, err := b.r.Length()
	last, maxDeleted, added := stream.ID{}, stream.ID{}, length
	if err == nil {
		last, err = b.id()
	}
	if err == nil && b.source.Kind != rdb.KindStream {
		_, err = b.id() // the first ID is known from the nodes
		if err == nil {
			maxDeleted, err = b.id()
		}
		if err == nil {
			added, err = b.r.Length()
		}
	}
	switch {
	case err != nil:
		return err
	case length != b.length:
		return rdb.Corrupt("a stream's length is not that of its nodes")
	case last.Less(b.last):
		return rdb.Corrupt("a stream's last ID is before that of its last entry")
	}
	w.Complete(last, maxDeleted, added)
	per := 6
	if b.source.Kind == rdb.KindStream {
		per = 5 // without the entries read
	}
	b.groups, err = b.r.Count(per)
	b.part = (*streamBuilder).groupHead
	return err
}

func (b *streamBuilder) groupHead(w *stream.Writer) error {
	if b.groups == 0 {
		if b.source.Kind >= rdb.KindStream4 {
			b.part = (*streamBuilder).producersHead
		} else {
			b.done = true
		}
		return nil
	}
	b.groups--
	name, err := b.text()
	if err != nil {
		return err
	}
	b.group = append(b.group[:0], name...)
	last, err := b.id()
	if err != nil {
		return err
	}
	read := w.Distance(last)
	if b.source.Kind != rdb.KindStream {
		n, err := b.r.Length()
		if err != nil {
			return err
		}
		read = max(int64(n), stream.ReadUnknown)
	}
	if w.CreateGroup(b.group, last, read) == nil {
		return errDuplicate
	}
	b.pending, err = b.r.Count(25)
	b.part = (*streamBuilder).pendingEntry
	return err
}

func (b *streamBuilder) pendingEntry(w *stream.Writer) error {
	if b.pending == 0 {
		var err error
		b.consumers, err = b.r.Count(10)
		b.part = (*streamBuilder).consumerHead
		return err
	}
	b.pending--
	raw, err := b.r.Take(16)
	if err != nil {
		return err
	}
	at, err := b.r.Uint64()
	if err != nil {
		return err
	}
	count, err := b.r.Length()
	if err != nil {
		return err
	}
	if !w.Expect(w.Group(b.group), idOf(raw), int64(at), count) {
		return errDuplicate
	}
	return nil
}

func (b *streamBuilder) consumerHead(w *stream.Writer) error {
	g := w.Group(b.group)
	if b.consumers == 0 {
		if b.source.Kind >= rdb.KindStream5 && !b.givenBack {
			return b.givenBackHead(w)
		}
		b.givenBack = false
		if !g.Assigned() {
			return rdb.Corrupt("an entry is pending without a consumer")
		}
		b.part = (*streamBuilder).groupHead
		return nil
	}
	b.consumers--
	name, err := b.text()
	if err != nil {
		return err
	}
	b.consumer = append(b.consumer[:0], name...)
	seen, err := b.r.Uint64()
	if err != nil {
		return err
	}
	active := seen
	if b.source.Kind >= rdb.KindStream3 {
		if active, err = b.r.Uint64(); err != nil {
			return err
		}
	}
	if g.Consumer(b.consumer) != nil {
		return rdb.Corrupt("Duplicate stream consumer detected") // the text that tools know
	}
	w.SetTimes(w.CreateConsumer(g, b.consumer, 0), int64(seen), int64(active))
	b.own, err = b.r.Count(16)
	b.part = (*streamBuilder).ownEntry
	return err
}

// givenBackHead begins to read the pending entries without a consumer.
func (b *streamBuilder) givenBackHead(*stream.Writer) (err error) {
	b.givenBack = true
	b.own, err = b.r.Count(16)
	b.part = (*streamBuilder).ownEntry
	return err
}

// producersHead reads the fields before the producers: the limits of their messages. Limits above the greatest that a
// client may set become the greatest.
func (b *streamBuilder) producersHead(w *stream.Writer) error {
	seconds, err := b.r.Length()
	if err != nil {
		return err
	}
	most, err := b.r.Length()
	if err != nil {
		return err
	}
	b.recall = stream.Recall{Seconds: uint32(min(max(seconds, 1), stream.MaxRecallSeconds)),
		Most: uint32(min(max(most, 1), stream.MaxRecall))}
	b.producers, err = b.r.Count(2)
	b.part = (*streamBuilder).producerHead
	return err
}

// presets are Redis's default limits. Redis writes limits for each stream. A stream that has had no producer needs no
// memory of messages.
var presets = stream.Recall{Seconds: 100, Most: 100}

// producerHead reads the head of a producer, or the fields after all producers.
func (b *streamBuilder) producerHead(w *stream.Writer) error {
	if b.producers == 0 {
		added, err := b.r.Length()
		if err != nil {
			return err
		}
		duplicates, err := b.r.Length()
		if err == nil && (w.Recalls() || added > 0 || duplicates > 0 || b.recall != presets) {
			w.Restore(b.recall)
			w.RestoreCounts(added, duplicates)
		}
		b.done = true
		return err
	}
	b.producers--
	name, err := b.text()
	if err != nil {
		return err
	}
	b.group = append(b.group[:0], name...)
	b.own, err = b.r.Count(3)
	b.part = (*streamBuilder).message
	return err
}

// message reads a message of the producer whose name is b.group.
func (b *streamBuilder) message(w *stream.Writer) error {
	if b.own == 0 {
		b.part = (*streamBuilder).producerHead
		return nil
	}
	b.own--
	name, err := b.text()
	if err != nil {
		return err
	}
	entry, err := b.id()
	if err != nil {
		return err
	}
	w.Restore(b.recall)
	if !w.RestoreMessage(b.group, name, entry, b.source.Env.Now) {
		return errDuplicate
	}
	return nil
}

// PartsDeadline returns when the first message name is forgotten.
func (b *streamBuilder) PartsDeadline() int64 { return stream.At(b.root).Forgets() }

func (b *streamBuilder) ownEntry(w *stream.Writer) error {
	if b.own == 0 {
		b.part = (*streamBuilder).consumerHead
		return nil
	}
	b.own--
	raw, err := b.r.Take(16)
	if err != nil {
		return err
	}
	g, ok := w.Group(b.group), false
	if b.givenBack {
		ok = w.AssignGiven(g, idOf(raw))
	} else {
		ok = w.Assign(g, w.Consumer(g, b.consumer), idOf(raw))
	}
	if !ok {
		return rdb.Corrupt("an entry is pending with a consumer and not in its group, or with two consumers")
	}
	return nil
}

// text returns the next string. It is valid until the next call.
func (b *streamBuilder) text() (text []byte, err error) {
	text, b.scratch, err = b.r.Bytes(b.scratch)
	return text, err
}

func (b *streamBuilder) id() (id stream.ID, err error) {
	if id.Ms, err = b.r.Length(); err == nil {
		id.Seq, err = b.r.Length()
	}
	return id, err
}
