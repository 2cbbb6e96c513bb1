package codec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/stream"
)

// streamText returns all data of a stream as text.
func streamText(v value.Value) string {
	s := stream.Of(v)
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v first %v last %v deleted %v added %d", s.Len(), v.Encoding(), s.FirstID(), s.LastID(),
		s.MaxDeleted(), s.Added())
	var it stream.Iterator
	for s.All(&it); it.Next(); {
		fmt.Fprintf(&b, " | %v", it.ID)
		for range it.Pairs {
			field, val := it.Pair()
			fmt.Fprintf(&b, " %s=%s", field.Append(nil), val.Append(nil))
		}
	}
	for g := range s.Groups {
		fmt.Fprintf(&b, " | group %s at %v read %d:", g.Name(), g.LastID(), g.EntriesRead())
		var cur stream.PendingCursor
		var p stream.Pending
		for g.From(&cur, stream.ID{}); cur.Next(&p); {
			fmt.Fprintf(&b, " %v %s %d %d", p.ID, p.Consumer(), p.Time, p.Count)
		}
		for c := range g.All {
			fmt.Fprintf(&b, ", %s seen %d has %d", c.Name(), c.Seen(), c.Pending())
		}
	}
	return b.String()
}

// streamTextActive is streamText with the data that only the newest version has.
func streamTextActive(v value.Value) string {
	text := streamText(v)
	for g := range stream.Of(v).Groups {
		for c := range g.All {
			text += fmt.Sprint(" active ", c.Active())
		}
	}
	return text
}

// makeStream makes key a stream of n entries, every seventh deleted, with groups that have pending entries.
func makeStream(k *keyspace.Keyspace, key string, n, groups int) {
	e := k.DB(0).CreateRoot([]byte(key), value.Stream, value.StreamTree, stream.New(k.Store()))
	w := stream.Edit(e)
	limits := stream.Limits{NodeBytes: 4096, NodeEntries: 20}
	for i := range n {
		pairs := [][]byte{[]byte("field"), fmt.Appendf(nil, "%d", i*i), []byte("text"), fmt.Appendf(nil, "value %d", i)}
		if i%9 == 0 {
			pairs = pairs[:2]
		}
		w.Append(stream.ID{Ms: uint64(1000 + i/3), Seq: uint64(i % 3)}, pairs, limits)
	}
	for i := 0; i < n; i += 7 {
		w.Delete(stream.ID{Ms: uint64(1000 + i/3), Seq: uint64(i % 3)})
	}
	for i := range groups {
		g := w.CreateGroup(fmt.Appendf(nil, "group %d", i), w.FirstID(), int64(i-1))
		for j := range 5 {
			c := w.CreateConsumer(g, fmt.Appendf(nil, "consumer %d", j), 1_700_000_000_000+int64(j))
			for id := j; j < 4 && id < n; id += 4 {
				w.Deliver(g, c, stream.ID{Ms: uint64(1000 + id/3), Seq: uint64(id % 3)}, 1_600_000_000_000+int64(id), uint64(1+id))
			}
			w.SetTimes(c, c.Seen(), c.Seen())
		}
	}
}

// TestStreamRoundTrip: streams survive writing for every version and reading.
func TestStreamRoundTrip(t *testing.T) {
	k := newSpace(t)
	for key, size := range map[string][2]int{"empty": {}, "empty with groups": {0, 2}, "deleted": {1, 1}, "some": {20, 0},
		"groups": {50, 3}, "many": {5000, 2}} {
		makeStream(k, key, size[0], size[1])
		roundTrip(t, k, key, DefaultLimits, streamTextActive)
	}
	e := k.DB(0).CreateRoot([]byte("edges"), value.Stream, value.StreamTree, stream.New(k.Store()))
	w := stream.Edit(e)
	w.Append(stream.ID{Seq: 1}, [][]byte{{}, {}}, stream.Limits{})
	w.Append(stream.MaxID, [][]byte{[]byte(strings.Repeat("f", 1000)), []byte(strings.Repeat("long ", 50_000)),
		[]byte("-9223372036854775808"), []byte("007")}, stream.Limits{})
	w.CreateGroup(nil, stream.MaxID, stream.ReadUnknown)
	w.SetID(stream.MaxID, 1<<62, stream.MaxID)
	roundTrip(t, k, "edges", DefaultLimits, streamTextActive)
}

// streamNodes are the nodes that redis-server 7.4.1 writes for the entries 1-1, 5-0 and 6-0, with 1-2 deleted. A node
// has three entries. streamHead are the fields between nodes and groups.
const (
	streamNodes = "\x02\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01@II\x00\x00\x00\x19\x00" +
		"\x02\x01\x01\x01\x02\x01\x81a\x02\x81b\x02\x00\x01\x02\x01\x00\x01\x00\x01\x01\x01\x83two\x04\x05\x01\x03" +
		"\x01\x00\x01\x01\x01\xf2\xe0\x93\x04\x04\x81x\x02\x05\x01\x00\x01\x04\x01\xdf\xff\x02\x01\x01\x85other\x06" +
		"\x81y\x02\x06\x01\xff" +
		"\x10\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x1d\x1d\x00\x00\x00\x0a\x00\x01\x01\x00" +
		"\x01\x01\x01\x81q\x02\x00\x01\x02\x01\x00\x01\x00\x01\x81r\x02\x04\x01\xff"
	streamHead = "\x03\x06\x00\x01\x01\x01\x02\x04"
	id11       = "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"
	id50       = "\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00"
	id60       = "\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00"
	at622      = "\x7e\x46\xe6\xfe\xa1\x01\x00\x00" // 1795277866622
	pending3   = "\x03" + id11 + at622 + "\x01" + id50 + at622 + "\x01" + id60 + "\x00\x68\xe5\xcf\x8b\x01\x00\x00\x03"
	never      = "\xff\xff\xff\xff\xff\xff\xff\xff"
	unread     = "\x81" + never

	streamBytes = streamNodes + streamHead + "\x02\x01g\x05\x00" + unread + pending3 + "\x02\x03ann" + at622 + at622 +
		"\x02" + id11 + id50 +
		"\x03bob\x84F\xe6\xfe\xa1\x01\x00\x00\x84F\xe6\xfe\xa1\x01\x00\x00\x01" + id60 + "\x01h\x05\x00" + unread +
		"\x00\x01\x04idle\x88F\xe6\xfe\xa1\x01\x00\x00" + never + "\x00"
	streamEntries = "3 stream first 1-1 last 6-0 deleted 1-2 added 4 | 1-1 a=1 b=two | 5-0 other=y | 6-0 q=r"
)

// TestStreamReferenceBytes: payloads of redis-server in its three versions are read. The newest is written with the
// same bytes.
func TestStreamReferenceBytes(t *testing.T) {
	k := newSpace(t)
	groups := " | group g at 5-0 read -1: 1-1 ann 1795277866622 1 5-0 ann 1795277866622 1 6-0 bob 1700000000000 3"
	for _, c := range []struct {
		kind      rdb.Kind
		raw, want string
	}{
		{rdb.KindStream3, streamBytes, streamEntries + groups +
			", ann seen 1795277866622 has 2, bob seen 1795277866628 has 1 | group h at 5-0 read -1:, idle seen 1795277866632 " +
			"has 0" +
			" active 1795277866622 active 1795277866628 active -1"},
		{rdb.KindStream2, streamNodes + streamHead + "\x01\x01g\x05\x00" + unread + pending3 + "\x02\x03ann" + at622 +
			"\x02" + id11 + id50 + "\x03bob" + at622 + "\x01" + id60,
			streamEntries + groups +
				", ann seen 1795277866622 has 2, bob seen 1795277866622 has 1 active 1795277866622 active 1795277866622"},
		{rdb.KindStream, streamNodes + "\x03\x06\x00" + "\x02\x01g\x05\x00" + pending3 + "\x01\x03ann" + at622 + "\x03" +
			id11 + id50 + id60 + "\x01h\x06\x00\x00\x00",
			strings.Replace(streamEntries, "deleted 1-2 added 4", "deleted 0-0 added 3", 1) +
				strings.ReplaceAll(groups, "bob", "ann") +
				", ann seen 1795277866622 has 3 | group h at 6-0 read 3: active 1795277866622"},
	} {
		if err := restore(k, c.kind.String(), c.kind, []byte(c.raw), Env{Limits: DefaultLimits}); err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		v := k.DB(0).Peek([]byte(c.kind.String()))
		if got := streamTextActive(v); got != stripIDs(c.want) {
			t.Errorf("%s:\n%s, want\n%s", c.kind, got, stripIDs(c.want))
		}
		if kind, raw := written(t, v, NewestVersion); c.kind == rdb.KindStream3 && (kind != c.kind || string(raw) != c.raw) {
			t.Errorf("written as %s %q", kind, raw)
		}
	}
}

// These are streams of Redis 8.6 and 8.8, composed from the published layout, because no reference server of the tests
// writes them. One entry of group g was given back.
const (
	streamProducers = "\x40\x64\x0a\x02\x02p1\x02\x02i1\x01\x01\x02i2\x05\x00\x02p2\x00\x07\x08"
	stream4Bytes    = streamBytes + streamProducers
	stream5Bytes    = streamNodes + streamHead + "\x02\x01g\x05\x00" + unread + pending3 + "\x01\x03ann" + at622 + at622 +
		"\x02" + id11 + id50 + "\x01" + id60 + "\x01h\x05\x00" + unread + "\x00\x01\x04idle\x88F\xe6\xfe\xa1\x01\x00\x00" +
		never + "\x00\x00" + streamProducers
)

// TestStreamNewer: streams of Redis 8.6 and 8.8 are read. Entries that were given back are read as entries after XNACK:
// they belong to the consumer with an empty name, which no client sees.
func TestStreamNewer(t *testing.T) {
	k := newSpace(t)
	for _, c := range []struct {
		kind      rdb.Kind
		raw, want string
	}{
		{rdb.KindStream4, stream4Bytes, ", bob seen"},
		{rdb.KindStream5, stream5Bytes, "6-0  0 3,  seen 0 has 1, ann seen"},
	} {
		if err := restore(k, c.kind.String(), c.kind, []byte(c.raw), Env{}); err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		got := streamTextActive(k.DB(0).Peek([]byte(c.kind.String())))
		if !strings.Contains(got, stripIDs(c.want)) || !strings.HasPrefix(got, stripIDs(streamEntries)) {
			t.Errorf("%s: %s", c.kind, got)
		}
	}
	refused(t, rdb.KindStream4, stream4Bytes, map[string]string{
		"behind": stream4Bytes + "x", "no producers": streamBytes,
		"false count of producers": streamBytes + "\x01\x01\xbf\x00", "false count of their IDs": streamBytes +
			"\x01\x01\x01\x01p\xbf\x00",
	})
	owned := strings.Replace(stream5Bytes, "\x01"+id60+"\x01h", "\x01"+id50+"\x01h", 1)
	twice := strings.Replace(stream5Bytes, "\x01"+id60+"\x01h", "\x02"+id60+id60+"\x01h", 1)
	none := strings.Replace(stream5Bytes, "\x01"+id60+"\x01h", "\x00\x01h", 1)
	refused(t, rdb.KindStream5, stream5Bytes, map[string]string{"owned, too": owned, "twice": twice, "not listed": none})
}

// memoryText returns the message names that a stream remembers of producers, as text.
func memoryText(v value.Value) string {
	s := stream.Of(v)
	text := fmt.Sprintf("%+v", s.Recalled())
	for name, n := range s.Producers {
		text += fmt.Sprintf(" | %s %d:", name, n)
		s.MessagesOf(name, func(message []byte, entry stream.ID) bool {
			text += fmt.Sprintf(" %q %v", message, entry)
			return true
		})
	}
	return text
}

// TestStreamMemory: message names of producers are written only for readers of version 13. They are read with their
// limits and counts. The age of a message is that of its entry. If the entry's time is ahead of the load, its age
// counts from the load.
func TestStreamMemory(t *testing.T) {
	const now = 1_700_000_000_000
	k := newSpace(t)
	makeStream(k, "k", 30, 2)
	e := k.DB(0).Edit([]byte("k"))
	w := stream.Edit(e)
	w.SetRecall(stream.Recall{Seconds: 50, Most: 7}, stream.Recall{})
	for i := range 40 {
		id := stream.ID{Ms: uint64(now - 20_000 + i), Seq: uint64(i)}
		if i == 39 {
			id.Ms = now * 2
		}
		w.Remember(fmt.Appendf(nil, "producer %d", i%4), fmt.Appendf(nil, "%d\x00", i), id, now, stream.Recall{})
	}
	w.Duplicate()
	v := k.DB(0).Peek([]byte("k"))
	for _, c := range []struct {
		newest int
		kind   rdb.Kind
	}{{10, rdb.KindStream2}, {11, rdb.KindStream3}, {12, rdb.KindStream3}, {13, rdb.KindStream4}, {80, rdb.KindStream3}} {
		kind, version := Kind(v, c.newest), Version(k.Store().Used, c.newest, false)
		if kind != c.kind || version != c.kind.Since() {
			t.Errorf("for readers of %d: %s in a file of version %d; want %s", c.newest, kind, version, c.kind)
		}
	}
	wr := rdb.Writer{}
	Write(&wr, rdb.KindStream4, v)
	if err := restore(k, "copy", rdb.KindStream4, wr.Buf, Env{Now: now + 1000}); err != nil {
		t.Fatal(err)
	}
	dup := k.DB(0).Peek([]byte("copy"))
	if got, want := memoryText(dup), memoryText(v); got != want || streamTextActive(dup) != streamTextActive(v) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := stream.Of(dup).Check(k.Heap()); err != nil {
		t.Error(err)
	}
	if got, want := stream.Of(dup).Forgets(), stream.Of(v).Forgets(); got != want {
		t.Errorf("the first message is forgotten at %d, want %d", got, want)
	}
	if _, ok := stream.Of(dup).Sent([]byte("producer 3"), []byte("39\x00"), now+50_999); !ok {
		t.Error("a message whose ID is ahead of the clock is forgotten too early")
	}
	if _, ok := stream.Of(dup).Sent([]byte("producer 3"), []byte("39\x00"), now+51_000); ok {
		t.Error("a message whose ID is ahead of the clock is never forgotten")
	}

	raw := string(wr.Buf)
	for what, bad := range map[string]string{"cut": raw[:len(raw)-1], "behind": raw + "x",
		"twice": strings.Replace(raw, "\x0335\x00", "\x0331\x00", 1)} {
		if err := restore(k, "bad", rdb.KindStream4, []byte(bad), Env{}); err == nil {
			t.Errorf("%s: read", what)
		}
	}
}

// TestStreamShortGroup: a group of the first version without name and consumers takes only five bytes.
func TestStreamShortGroup(t *testing.T) {
	k := newSpace(t)
	if err := restore(k, "k", rdb.KindStream, []byte(streamNodes+"\x03\x06\x00"+"\x01\x00\x05\x00\x00\x00"),
		Env{Limits: DefaultLimits}); err != nil {
		t.Fatal(err)
	}
	if s := stream.Of(k.DB(0).Peek([]byte("k"))); s.GroupCount() != 1 || s.Group(nil) == nil {
		t.Errorf("%d groups", s.GroupCount())
	}
}

// stripIDs rewrites the IDs in text to the form in which they are printed.
func stripIDs(text string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		var ms, seq uint64
		if n, _ := fmt.Sscanf(w, "%d-%d", &ms, &seq); n == 2 && w == fmt.Sprintf("%d-%d", ms, seq) {
			words[i] = fmt.Sprint(stream.ID{Ms: ms, Seq: seq})
		}
	}
	return strings.Join(words, " ")
}

// nodeOf returns a node's listpack with these elements.
func nodeOf(elements ...any) string {
	lp := listpack.AppendEmpty(nil)
	for _, e := range elements {
		lp = listpack.AppendElement(lp, listpack.Of(fmt.Append(nil, e)))
	}
	return rawText(lp)
}

// rawStream returns a stream of one node in the second version, without groups.
func rawStream(key, lp string, length, last int) string {
	return "\x01" + rawText([]byte(key)) + lp + string([]byte{byte(length), byte(last), 1, 1, 1, 0, 0, byte(length), 0})
}

// TestStreamRefused: a stream that is cut or wrong anywhere is refused.
func TestStreamRefused(t *testing.T) {
	one := nodeOf(1, 0, 1, "a", 0, 2, 0, 0, "v", 4)
	group := func(rest string) string { return streamNodes + streamHead + rest }
	bad := map[string]string{
		"behind": streamBytes + "x", "false count": "\xbf\xff\xff\xff\xff", "key of 15 bytes": rawStream(id11[1:], one, 1, 1),
		"no listpack":    rawStream(id11, rawText([]byte("abc")), 1, 1),
		"empty listpack": rawStream(id11, nodeOf(), 0, 1), "length": rawStream(id11, one, 2, 1),
		"last ID": rawStream(id50, one, 1, 1),
		"twice the same node": "\x02" + rawText([]byte(id11)) + one + rawText([]byte(id11)) + one +
			"\x02\x01\x01\x01\x01\x00\x00\x02\x00",
		"count of a node":                rawStream(id11, nodeOf(2, 0, 1, "a", 0, 2, 0, 0, "v", 4), 2, 1),
		"deleted of a node":              rawStream(id11, nodeOf(1, 1, 1, "a", 0, 2, 0, 0, "v", 4), 1, 1),
		"text for a number":              rawStream(id11, nodeOf("x", 0, 1, "a", 0, 2, 0, 0, "v", 4), 1, 1),
		"no end of the master entry":     rawStream(id11, nodeOf(1, 0, 1, "a", 1, 2, 0, 0, "v", 4), 1, 1),
		"negative fields":                rawStream(id11, nodeOf(1, 0, -1, 0, 2, 0, 0, 4), 1, 1),
		"too many fields":                rawStream(id11, nodeOf(1, 0, int64(1)<<40, "a", 0, 2, 0, 0, "v", 4), 1, 1),
		"negative fields of an entry":    rawStream(id11, nodeOf(1, 0, 1, "a", 0, 0, 0, 0, -1, 2), 1, 1),
		"flags":                          rawStream(id11, nodeOf(1, 0, 1, "a", 0, 6, 0, 0, "v", 4), 1, 1),
		"elements":                       rawStream(id11, nodeOf(1, 0, 1, "a", 0, 2, 0, 0, "v", 5), 1, 1),
		"order":                          rawStream(id11, nodeOf(2, 0, 1, "a", 0, 2, 0, 1, "v", 4, 2, 0, 0, "v", 4), 2, 9),
		"an entry before its node's key": rawStream(id11, nodeOf(1, 0, 1, "a", 0, 2, -1, 0, "v", 4), 1, 9),
		"two groups of a name":           group("\x02\x01g\x05\x00\x01\x00\x00\x01g\x05\x00\x01\x00\x00"),
		"pending twice": group("\x01\x01g\x05\x00\x01\x02" + id11 + at622 + "\x01" + id11 +
			at622 + "\x01\x00"),
		"pending without a consumer": group("\x01\x01g\x05\x00\x01\x01" + id11 + at622 + "\x01\x00"),
		"not pending":                group("\x01\x01g\x05\x00\x01\x00\x01\x01c" + at622 + at622 + "\x01" + id11),
		"pending with two": group("\x01\x01g\x05\x00\x01\x01" + id11 + at622 + "\x01\x02\x01c" + at622 + at622 +
			"\x01" + id11 + "\x01d" + at622 + at622 + "\x01" + id11),
		"two consumers of a name": group("\x01\x01g\x05\x00\x01\x00\x02\x01c" + at622 + at622 + "\x00\x01c" + at622 +
			at622 + "\x00"),
		"false count of pending":   group("\x01\x01g\x05\x00\x01\xbf\x00"),
		"false count of consumers": group("\x01\x01g\x05\x00\x01\x00\xbf\x00"),
	}
	refused(t, rdb.KindStream3, streamBytes, bad)
	refused(t, rdb.KindStream, streamNodes+"\x03\x06\x00\x00", nil)
	k := newSpace(t)
	if err := restore(k, "one", rdb.KindStream2, []byte(rawStream(id11, one, 1, 1)), Env{}); err != nil {
		t.Fatalf("what the others are made from is refused: %v", err)
	}
}

// TestStreamTombstones: a node with only deleted entries is left out. A node whose deleted entries are out of order is
// accepted.
func TestStreamTombstones(t *testing.T) {
	k := newSpace(t)
	raw := "\x02" + rawText([]byte(id11)) + nodeOf(0, 1, 1, "a", 0, 3, 0, 0, "v", 4) + rawText([]byte(id50)) +
		nodeOf(1, 1, 1, "a", 0, 3, 0, 9, "v", 4, 2, 0, 1, "w", 4) + "\x01\x05\x09\x05\x01\x05\x09\x03\x00"
	if err := restore(k, "s", rdb.KindStream2, []byte(raw), Env{}); err != nil {
		t.Fatal(err)
	}
	v := k.DB(0).Peek([]byte("s"))
	if got, want := streamText(v), stripIDs("1 stream first 5-1 last 5-9 deleted 5-9 added 3 | 5-1 a=w"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := stream.Of(v).Nodes(); n != 1 {
		t.Errorf("%d nodes", n)
	}
}

// FuzzReadStream: any bytes are refused, or are a valid stream that survives writing and reading.
func FuzzReadStream(f *testing.F) {
	for _, raw := range []string{streamBytes, stream4Bytes, stream5Bytes, streamNodes + "\x03\x06\x00\x00",
		rawStream(id11, nodeOf(1, 0, 1, "a", 0, 2, 0, 0, "v", 4), 1, 1),
		rawStream(id11, nodeOf(1, 1, 1, "a", 0, 0, 0, 5, 1, "x", "y", 6, 3, 0, 3, "v", 4), 1, 9)} {
		for i := range streamCodec.Kinds {
			f.Add(byte(i), []byte(raw))
		}
	}
	k := newSpace(f)
	f.Fuzz(func(t *testing.T, kind byte, raw []byte) {
		defer k.DB(0).Flush()
		if restore(k, "k", streamCodec.Kinds[int(kind)%len(streamCodec.Kinds)], raw, Env{}) != nil {
			return
		}
		v := k.DB(0).Peek([]byte("k"))
		want := streamTextActive(v)
		if err := stream.Of(v).Check(k.Heap()); err != nil {
			t.Fatalf("%v: %s", err, want)
		}
		var it stream.Iterator
		var ids []stream.ID
		for stream.Of(v).Range(&it, stream.ID{}, stream.MaxID, true); it.Next(); {
			ids = append(ids, it.ID)
		}
		if slices.Reverse(ids); uint64(len(ids)) != stream.Of(v).Len() || !slices.IsSortedFunc(ids, stream.ID.Compare) {
			t.Fatalf("from the end: %v in %s", ids, want)
		}
		again, bytes := written(t, v, NewestVersion)
		if err := restore(k, "again", again, bytes, Env{}); err != nil {
			t.Fatalf("%s: written, and refused: %v", want, err)
		}
		if got := streamTextActive(k.DB(0).Peek([]byte("again"))); got != want {
			t.Fatalf("%s came back as %s", want, got)
		}
	})
}
