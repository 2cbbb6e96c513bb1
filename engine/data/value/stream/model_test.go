package stream_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/stream"
	"spindle/tests/testkit"
	"spindle/tests/testkit/memorytest"
)

type ids = stream.ID

// A plain is a stream in the model. It is cloned before it is changed, because views keep it.
type plain struct {
	entries                 []plainEntry
	last, first, maxDeleted ids
	added                   uint64
	groups                  map[string]*plainGroup
	memo                    *plainMemo // nil: there is none
}

type plainMemo struct {
	limits            stream.Recall
	added, duplicates uint64
	producers         map[string][]plainMessage
}

type plainMessage struct {
	name  string
	entry ids
	time  int64
}

type plainEntry struct {
	id    ids
	pairs string
}

type plainGroup struct {
	last      ids
	read      int64
	pending   map[ids]plainPending
	consumers map[string]plainConsumer
}

type plainPending struct {
	at    int64
	count uint64
	who   string
}

type plainConsumer struct{ seen, active int64 }

func (p *plain) clone() *plain {
	c := *p
	c.entries = slices.Clone(p.entries)
	c.groups = map[string]*plainGroup{}
	for name, g := range p.groups {
		c.groups[name] = &plainGroup{g.last, g.read, maps.Clone(g.pending), maps.Clone(g.consumers)}
	}
	if p.memo != nil {
		memo := *p.memo
		memo.producers = map[string][]plainMessage{}
		for name, all := range p.memo.producers {
			memo.producers[name] = slices.Clone(all)
		}
		c.memo = &memo
	}
	return &c
}

// text describes the model's memory of message names, in the form in which textOf describes that of a stream.
func (m *plainMemo) text(b *strings.Builder) {
	if m == nil {
		return
	}
	messages := 0
	for _, all := range m.producers {
		messages += len(all)
	}
	fmt.Fprintf(b, "memo %+v\n", stream.Recalled{Recall: m.limits, Producers: uint64(len(m.producers)),
		Messages: uint64(messages), Added: m.added, Duplicates: m.duplicates})
	for _, name := range slices.Sorted(maps.Keys(m.producers)) {
		fmt.Fprintf(b, "producer %s %d\n", name, len(m.producers[name]))
		for _, x := range m.producers[name] {
			fmt.Fprintf(b, " %s %v\n", x.name, x.entry)
		}
	}
}

func (p *plain) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v %v %d\n", p.last, p.first, p.maxDeleted, p.added)
	for _, e := range p.entries {
		fmt.Fprintf(&b, "%v:%s\n", e.id, e.pairs)
	}
	for _, name := range slices.Sorted(maps.Keys(p.groups)) {
		g := p.groups[name]
		fmt.Fprintf(&b, "group %s %v %d\n", name, g.last, g.read)
		for _, id := range slices.SortedFunc(maps.Keys(g.pending), ids.Compare) {
			x := g.pending[id]
			fmt.Fprintf(&b, " %v %d %d %s\n", id, x.at, x.count, x.who)
		}
		for _, who := range slices.Sorted(maps.Keys(g.consumers)) {
			c := g.consumers[who]
			var own []ids
			for id, x := range g.pending {
				if x.who == who {
					own = append(own, id)
				}
			}
			sort.Slice(own, func(i, j int) bool { return own[i].Less(own[j]) })
			fmt.Fprintf(&b, " consumer %s %d %d %v\n", who, c.seen, c.active, own)
		}
	}
	p.memo.text(&b)
	return b.String()
}

func pairsOf(it *stream.Iterator) string {
	var b []byte
	for range it.Pairs {
		field, val := it.Pair()
		b = append(field.Append(b), '=')
		b = append(val.Append(b), ' ')
	}
	return string(b)
}

// textOf is plain.text for a real stream.
func textOf(s stream.Stream) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v %v %d\n", s.LastID(), s.FirstID(), s.MaxDeleted(), s.Added())
	var it stream.Iterator
	for s.All(&it); it.Next(); {
		fmt.Fprintf(&b, "%v:%s\n", it.ID, pairsOf(&it))
	}
	for g := range s.Groups {
		fmt.Fprintf(&b, "group %s %v %d\n", g.Name(), g.LastID(), g.EntriesRead())
		var cur stream.PendingCursor
		var p stream.Pending
		for g.From(&cur, ids{}); cur.Next(&p); {
			fmt.Fprintf(&b, " %v %d %d %s\n", p.ID, p.Time, p.Count, p.Consumer())
		}
		for c := range g.All {
			var own []ids
			for g.FromOf(&cur, c, ids{}); cur.Next(&p); {
				own = append(own, p.ID)
			}
			fmt.Fprintf(&b, " consumer %s %d %d %v\n", c.Name(), c.Seen(), c.Active(), own)
		}
	}
	if s.Recalls() {
		fmt.Fprintf(&b, "memo %+v\n", s.Recalled())
	}
	for name, n := range s.Producers {
		fmt.Fprintf(&b, "producer %s %d\n", name, n)
		s.MessagesOf(name, func(name []byte, entry ids) bool {
			fmt.Fprintf(&b, " %s %v\n", name, entry)
			return true
		})
	}
	return b.String()
}

type modelView struct {
	v    *keyspace.View
	then map[string]*plain
}

type model struct {
	defrag keyspace.Defrag
	t      *testing.T
	rng    *rand.Rand
	k      *keyspace.Keyspace
	db     *keyspace.DB
	now    int64
	want   map[string]*plain
	views  []modelView
	large  int
}

func newModel(t *testing.T, large int) *model {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay with SEED=%d", seed)
	h, err := memory.New(memory.Options{Databases: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	k := keyspace.New(h, keyspace.Options{Databases: 1, StartMs: 1000, Seed: seed})
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 1)), k: k, db: k.DB(0), now: 1000,
		want: map[string]*plain{}, large: large}
	k.SetNow(m.now)
	return m
}

// word returns a field, value or name. Some are integers, and some names have the same first bytes.
func (m *model) word(n int) string {
	i := m.rng.IntN(n)
	switch i % 4 {
	case 0:
		return strconv.Itoa(i * 37 * i)
	case 1:
		return "consumer-" + strconv.Itoa(i)
	case 2:
		return strings.Repeat("x", i)
	}
	return string(rune('a'+i%26)) + "\x00"[:i/4%2]
}

func (m *model) id(p *plain) ids {
	if len(p.entries) > 0 && m.rng.IntN(4) > 0 {
		return p.entries[m.rng.IntN(len(p.entries))].id
	}
	return ids{m.rng.Uint64N(p.last.Ms + 2), m.rng.Uint64N(4)}
}

func (m *model) append(w *stream.Writer, p *plain, l stream.Limits) {
	id := ids{p.last.Ms + m.rng.Uint64N(3), m.rng.Uint64N(5)}
	if !p.last.Less(id) {
		id, _ = p.last.Next()
	}
	var pairs [][]byte
	var text string
	for i := range 1 + m.rng.IntN(3) {
		field, val := "field"+strconv.Itoa(i), m.word(150)
		if m.rng.IntN(5) == 0 {
			field = m.word(20)
		}
		pairs = append(pairs, []byte(field), []byte(val))
		text += field + "=" + val + " "
	}
	if !w.Append(id, pairs, l) {
		m.t.Fatal("refused")
	}
	p.entries = append(p.entries, plainEntry{id, text})
	p.last = id
	p.added++
	if len(p.entries) == 1 {
		p.first = id
	}
}

func (p *plain) refresh() {
	p.first = ids{}
	if len(p.entries) > 0 {
		p.first = p.entries[0].id
	}
}

func (m *model) trim(w *stream.Writer, p *plain) {
	var o stream.Trimming
	gone := 0
	if o.ByID = m.rng.IntN(2) == 0; o.ByID {
		o.MinID = m.id(p)
		for gone < len(p.entries) && p.entries[gone].id.Less(o.MinID) {
			gone++
		}
	} else {
		o.MaxLen = m.rng.Uint64N(uint64(len(p.entries)) + 2)
		gone = max(len(p.entries)-int(o.MaxLen), 0)
	}
	if o.Whole = m.rng.IntN(2) == 0; m.rng.IntN(2) == 0 {
		if o.Most = m.rng.Uint64N(100); o.Most > 0 {
			gone = min(gone, int(o.Most))
		}
	}
	least := wholeNodes(w.Stream, o, gone)
	removed := int(w.Trim(o))
	if removed > gone || removed < least || !o.Whole && removed != gone {
		m.t.Fatalf("trimming %+v removed %d of %d, should %d", o, removed, len(p.entries), gone)
	}
	p.entries = p.entries[removed:]
	if removed > 0 {
		p.refresh()
	}
}

// wholeNodes returns how many entries o removes at least: the entries of nodes that are removed altogether when gone
// entries are removed.
func wholeNodes(s stream.Stream, o stream.Trimming, gone int) (n int) {
	if o.Most > 0 {
		gone = min(gone, int(o.Most))
	}
	before := 0
	for master, lp := range s.Leaves {
		if o.ByID && o.MinID.Less(master) { // the node before may end with a deleted entry that is not before MinID
			return n
		}
		_, live, _, _ := stream.ValidateNode(lp, master)
		n, before = before, before+int(live)
		if before > gone {
			return n
		}
	}
	if !o.ByID {
		n = before
	}
	return n
}

func (m *model) groups(w *stream.Writer, p *plain) {
	name := m.word(6)
	g := w.Group([]byte(name))
	pg := p.groups[name]
	if (g != nil) != (pg != nil) {
		m.t.Fatalf("group %q is there: %t", name, g != nil)
	}
	if g == nil {
		id := m.id(p)
		w.CreateGroup([]byte(name), id, 7)
		p.groups[name] = &plainGroup{id, 7, map[ids]plainPending{}, map[string]plainConsumer{}}
		return
	}
	who := m.word(12)
	c := w.Consumer(g, []byte(who))
	pc, had := pg.consumers[who]
	if (c != nil) != had {
		m.t.Fatalf("consumer %q is there: %t", who, c != nil)
	}
	if c == nil {
		c = w.CreateConsumer(g, []byte(who), m.now)
		pc = plainConsumer{m.now, -1}
	}
	switch m.rng.IntN(13) {
	case 12:
		m.idle(w, g, pg)
	case 0:
		w.SetGroup(g, m.id(p), m.rng.Int64N(10)-1)
		pg.last, pg.read = g.LastID(), g.EntriesRead()
	case 1:
		w.See(c, m.now)
		pc.seen = m.now
	case 2:
		n, _ := w.DeleteConsumer(g, []byte(who))
		for id, x := range pg.pending {
			if x.who == who {
				delete(pg.pending, id)
				n--
			}
		}
		delete(pg.consumers, who)
		if n != 0 {
			m.t.Fatalf("consumer %q had %d more pending", who, int64(n))
		}
		return
	case 3, 4, 5:
		for range m.rng.IntN(30) {
			id := m.id(p)
			if w.Acknowledge(g, id) != (pg.pending[id].count > 0) {
				m.t.Fatalf("%v acknowledged", id)
			}
			delete(pg.pending, id)
		}
	case 6:
		if m.rng.IntN(8) == 0 {
			w.DestroyGroup([]byte(name))
			delete(p.groups, name)
			return
		}
	case 7:
		var cur stream.PendingCursor
		var x stream.Pending
		for g.From(&cur, m.id(p)); cur.Next(&x); {
			w.Redeliver(g, &x, m.now, x.Count+1)
			pg.pending[x.ID] = plainPending{m.now, x.Count, string(x.Consumer())}
		}
	default:
		for range m.rng.IntN(30) {
			id, count := m.id(p), 1+m.rng.Uint64N(100_000)
			w.Deliver(g, c, id, m.now, count)
			pg.pending[id] = plainPending{m.now, count, who}
		}
		w.Activate(c, m.now)
		pc.active = m.now
	}
	pg.consumers[who] = pc
}

// memo changes and reads the memory of producers' message names.
func (m *model) memo(e *value.Edit, p *plain) {
	w := stream.Edit(e)
	presets := stream.Recall{Seconds: 1, Most: 5}
	pm := p.memo
	switch op := m.rng.IntN(12); {
	case op == 0:
		limits := stream.Recall{Seconds: 1 + m.rng.Uint32N(2), Most: 1 + m.rng.Uint32N(30)}
		if pm == nil {
			pm = &plainMemo{limits: presets}
		}
		if changed := w.SetRecall(limits, presets); changed != (limits != pm.limits) {
			m.t.Fatalf("limits %+v after %+v: changed is %t", limits, pm.limits, changed)
		} else if changed || pm.producers == nil {
			pm.producers, pm.limits = map[string][]plainMessage{}, limits
		}
	case op == 1 && pm != nil:
		w.Duplicate()
		pm.duplicates++
	case op == 2:
		m.now += m.rng.Int64N(1500)
		m.k.SetNow(m.now)
	case op < 5:
		m.forget(e, p)
	default:
		if pm == nil {
			pm = &plainMemo{limits: presets, producers: map[string][]plainMessage{}}
		}
		for range 1 + m.rng.IntN(20) {
			producer, name := m.word(12), m.word(40)
			entry := ids{uint64(m.now + m.rng.Int64N(300) - 250), m.rng.Uint64N(3)}
			all := pm.producers[producer]
			at := slices.IndexFunc(all, func(x plainMessage) bool { return x.name == name })
			if m.rng.IntN(2) == 0 {
				want := at >= 0 && all[at].time+int64(pm.limits.Seconds)*1000 > m.now
				if got, ok := w.Sent([]byte(producer), []byte(name), m.now); ok != want || ok && got != all[at].entry {
					m.t.Fatalf("message %q of %q is %v, %t; should %t", name, producer, got, ok, want)
				}
				continue
			}
			w.Remember([]byte(producer), []byte(name), entry, m.now, presets)
			p.memo = pm
			if at >= 0 {
				all = slices.Delete(all, at, at+1)
			}
			all = append(all, plainMessage{name, entry, min(int64(entry.Ms), m.now)})
			pm.producers[producer] = all[max(len(all)-int(pm.limits.Most), 0):]
			pm.added++
		}
		return
	}
	p.memo = pm
}

// forget compares which message names are too old.
func (m *model) forget(e *value.Edit, p *plain) {
	budget := 1 + m.rng.IntN(30)
	next, n := stream.Forget(e, m.now, budget)
	if p.memo == nil {
		if next != 0 || n != 0 {
			m.t.Fatalf("%d messages forgotten without a memory of them", n)
		}
		return
	}
	old, left := 0, int64(0)
	kept := 0
	for _, all := range p.memo.producers {
		for _, x := range all {
			if due := x.time + int64(p.memo.limits.Seconds)*1000; due <= m.now {
				old++
			} else if kept++; left == 0 || due < left {
				left = due
			}
		}
	}
	if n != min(old, budget) || n == old && next != left || n < old && (next == 0 || next > m.now) {
		m.t.Fatalf("%d messages forgotten of %d that are too old, the next at %d; %d kept, the next at %d", n, old, next,
			kept, left)
	}
	// Messages of the same age may be forgotten in any order. Read back which are left.
	s := stream.Of(e.Value())
	for name, all := range p.memo.producers {
		var kept []plainMessage
		s.MessagesOf([]byte(name), func(have []byte, _ ids) bool {
			at := slices.IndexFunc(all, func(x plainMessage) bool { return x.name == string(have) })
			kept = append(kept, all[at])
			return true
		})
		for _, x := range all {
			if x.time+int64(p.memo.limits.Seconds)*1000 > m.now && !slices.Contains(kept, x) {
				m.t.Fatalf("message %q of %q is forgotten too early", x.name, name)
			}
		}
		if p.memo.producers[name] = kept; len(kept) == 0 {
			delete(p.memo.producers, name)
		}
	}
}

func (m *model) step() {
	if m.rng.IntN(16) == 0 {
		m.relocate()
	}
	m.now++
	m.k.SetNow(m.now)
	m.k.Heap().Drain(100)
	key := m.word(5)
	p := m.want[key]
	e := m.db.Edit([]byte(key))
	if e == nil {
		e = m.db.CreateRoot([]byte(key), value.Stream, value.StreamTree, stream.New(m.k.Store()))
		p = &plain{groups: map[string]*plainGroup{}}
	} else {
		p = p.clone()
	}
	m.want[key] = p
	w := stream.Edit(e)
	l := stream.Limits{NodeBytes: int64(m.rng.IntN(2) * 700), NodeEntries: int64(m.rng.IntN(3) * 9)}
	switch op := m.rng.IntN(50); {
	case op >= 42:
		m.memo(e, p)
	case op < 12:
		for range 1 + m.rng.IntN(m.large) {
			m.append(&w, p, l)
		}
	case op < 18:
		for range 1 + m.rng.IntN(20) {
			id := m.id(p)
			at := slices.IndexFunc(p.entries, func(e plainEntry) bool { return e.id == id })
			if w.Delete(id) != (at >= 0) {
				m.t.Fatalf("%v deleted; the model has it at %d", id, at)
			}
			if at >= 0 {
				p.entries = slices.Delete(p.entries, at, at+1)
				if p.maxDeleted.Less(id) {
					p.maxDeleted = id
				}
				p.refresh()
			}
		}
	case op < 21:
		m.trim(&w, p)
	case op < 33:
		m.groups(&w, p)
	case op < 34:
		w.SetID(p.last, int64(p.added)+3, ids{})
		p.added += 3
	case op < 35:
		m.db.Delete([]byte(key))
		delete(m.want, key)
	case op < 36:
		to := m.word(5)
		if m.db.CopyTo([]byte(key), m.db, []byte(to)) {
			m.want[to] = p
		}
	case op < 37:
		to := m.word(5)
		if to != key {
			m.db.Rename([]byte(key), []byte(to))
			m.want[to] = p
			delete(m.want, key)
		}
	case op < 39:
		m.ranges(stream.Of(e.Value()), p)
	case op < 41:
		m.references(&w, p)
	default:
		m.view()
	}
}

// idle compares the entries that have been idle longest.
func (m *model) idle(w *stream.Writer, g *stream.Group, pg *plainGroup) {
	before, most := m.now-m.rng.Int64N(100), m.rng.IntN(20)
	var want []ids
	for id, x := range pg.pending {
		if x.at <= before {
			want = append(want, id)
		}
	}
	slices.SortFunc(want, func(a, b ids) int {
		return cmp.Or(cmp.Compare(pg.pending[a].at, pg.pending[b].at), a.Compare(b))
	})
	want = want[:min(most, len(want))]
	var got []ids
	for _, p := range w.Idle(g, before, most, nil) {
		got = append(got, p.ID)
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("%d idle since %d: %v, should %v", most, before, got, want)
	}
}

// references removes a range of IDs from the pending entries, and checks which entries are referenced.
func (m *model) references(w *stream.Writer, p *plain) {
	first, last := m.id(p), m.id(p)
	var got, want []string
	w.Forget(first, last, func(group []byte, id ids) { got = append(got, fmt.Sprint(string(group), id)) })
	for _, name := range slices.Sorted(maps.Keys(p.groups)) {
		for _, id := range slices.SortedFunc(maps.Keys(p.groups[name].pending), ids.Compare) {
			if !id.Less(first) && !last.Less(id) {
				want = append(want, fmt.Sprint(name, id))
				delete(p.groups[name].pending, id)
			}
		}
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("%v to %v: removed from what is pending %q, should %q", first, last, got, want)
	}
	bound := w.Unreferenced()
	for range 20 {
		id := m.id(p)
		want := false
		for _, g := range p.groups {
			_, has := g.pending[id]
			want = want || has || g.last.Less(id)
		}
		if w.Referenced(id) != want || want && id.Less(bound) {
			m.t.Fatalf("%v is referenced: %t; none is before %v", id, want, bound)
		}
	}
}

// ranges compares a range of entries in both directions.
func (m *model) ranges(s stream.Stream, p *plain) {
	from, to := m.id(p), m.id(p)
	var want []string
	for _, e := range p.entries {
		if !e.id.Less(from) && !to.Less(e.id) {
			want = append(want, fmt.Sprint(e.id, e.pairs))
		}
	}
	for _, reverse := range []bool{false, true} {
		var got []string
		var it stream.Iterator
		for s.Range(&it, from, to, reverse); it.Next(); {
			pairs := "?"
			if m.rng.IntN(3) > 0 || !reverse {
				pairs = pairsOf(&it)
			}
			got = append(got, fmt.Sprint(it.ID, pairs))
		}
		if it.Next() {
			m.t.Fatal("an entry after the last")
		}
		if reverse {
			slices.Reverse(got)
		}
		if len(got) != len(want) || !reverse && !slices.Equal(got, want) {
			m.t.Fatalf("%v to %v, reverse %t: %q, should %q", from, to, reverse, got, want)
		}
	}
	id := m.id(p)
	if s.Has(id) != slices.ContainsFunc(p.entries, func(e plainEntry) bool { return e.id == id }) {
		m.t.Fatalf("%v: wrongly there or not", id)
	}
}

func (m *model) view() {
	if len(m.views) > 2 || m.rng.IntN(2) == 0 && len(m.views) > 0 {
		i := m.rng.IntN(len(m.views))
		m.read(m.views[i])
		m.views[i].v.Close()
		m.views = slices.Delete(m.views, i, i+1)
		return
	}
	m.views = append(m.views, modelView{m.k.Freeze(), maps.Clone(m.want)})
}

func (m *model) read(v modelView) {
	n := 0
	v.v.Walk(0, 0, 1, func(x value.Value) bool {
		n++
		if got, want := textOf(stream.Of(x)), v.then[string(x.Key())].text(); got != want {
			m.t.Fatalf("in a view, %q is\n%s\nshould be\n%s", x.Key(), got, want)
		}
		return true
	})
	if n != len(v.then) {
		m.t.Fatalf("a view has %d keys, should have %d", n, len(v.then))
	}
}

func (m *model) check() {
	for key, p := range m.want {
		v := m.db.Peek([]byte(key))
		s := stream.Of(v)
		if err := s.Check(m.k.Heap()); err != nil {
			m.t.Fatalf("%q: %v", key, err)
		}
		if got, want := textOf(s), p.text(); got != want {
			m.t.Fatalf("%q is\n%s\nshould be\n%s", key, got, want)
		}
		if s.Len() != uint64(len(p.entries)) {
			m.t.Fatalf("%q has %d entries", key, s.Len())
		}
		m.k.MemoryUsage(v, 5)
	}
}

func reclaim(k *keyspace.Keyspace, budget int) {
	for {
		more := k.Heap().Drain(1 << 20)
		job, _ := k.Heap().TakeJob()
		if job == nil {
			if !more {
				return
			}
			continue
		}
		for !job(budget) {
		}
	}
}

func (m *model) run(steps, every int) {
	empty := m.k.Heap().Used()
	for i := range steps {
		m.step()
		if i%every == 0 {
			m.check()
		}
		if i%64 == 0 {
			reclaim(m.k, 1+m.rng.IntN(20))
		}
	}
	m.check()
	for _, v := range m.views {
		m.read(v)
		v.v.Close()
	}
	m.db.Flush()
	reclaim(m.k, 7)
	if used := m.k.Heap().Used(); used != empty {
		m.t.Fatalf("%d bytes of stored values are left", used-empty)
	}
}

// scaled returns the number of steps of a model test: a quarter of n with -short, and SPINDLE_TEST_SCALE times as many
// in make soak.
func scaled(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n * testkit.Scale()
}

func TestModelSmall(t *testing.T) { newModel(t, 3).run(scaled(12_000), 3) }

func TestModelLarge(t *testing.T) { newModel(t, 400).run(scaled(1_500), 50) }

// TestLongNodesMoveSeldom: a node without a limit grows in proportion to its size, so that adding an entry costs the
// same however long the node is.
func TestLongNodesMoveSeldom(t *testing.T) {
	for _, limit := range []int64{0, 1 << 20} {
		m := newModel(t, 1)
		e := m.db.CreateRoot([]byte("s"), value.Stream, value.StreamTree, stream.New(m.k.Store()))
		pair := [][]byte{[]byte("field"), []byte(strings.Repeat("x", 90))}
		moves, where := 0, (*byte)(nil)
		for i := range 8000 {
			w := stream.Edit(e)
			w.Append(ids{uint64(i + 1), 0}, pair, stream.Limits{NodeBytes: limit})
			for _, lp := range stream.Of(e.Value()).Leaves {
				if &lp[0] != where {
					moves, where = moves+1, &lp[0]
				}
			}
		}
		if nodes := stream.Of(e.Value()).Nodes(); nodes != 1 || moves > 40 {
			t.Errorf("limit %d: %d nodes, the last one moved %d times", limit, nodes, moves)
		}
	}
}

// relocate does the next step of a walk that moves every block.
func (m *model) relocate() {
	memorytest.Relocate(m.k.Heap(), m.rng.IntN(40), func(stop func() bool) bool {
		over := m.k.Defragment(&m.defrag, stop)
		if over {
			m.defrag = keyspace.Defrag{}
		}
		return over
	})
}
