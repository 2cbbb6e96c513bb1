package keyspace

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
	"spindle/tests/testkit/memorytest"
)

func fakeMember(i int) []byte { return strconv.AppendInt([]byte("m"), int64(i), 10) }

// contents is the model's content of a collection. It is never changed in place, because views in the model keep it.
type contents struct {
	t        value.Type
	list     []string
	fields   map[string]string // of a set: members without values
	expires  map[string]int64
	deadline int64
}

func (y contents) clone() contents {
	y.list, y.fields, y.expires = slices.Clone(y.list), maps.Clone(y.fields), maps.Clone(y.expires)
	return y
}

func (y contents) text() string {
	elements := y.list
	for f, v := range y.fields {
		if y.t == value.Hash {
			f += "=" + v
		}
		elements = append(elements, f)
	}
	if y.t != value.List {
		sort.Strings(elements)
	}
	return y.t.String() + ":" + strings.Join(elements, ",")
}

type collectionModel struct {
	defrag Defrag
	t      *testing.T
	rng    *rand.Rand
	k      *Keyspace
	dbs    []map[string]contents
	views  []collectionView
	now    int64
	keys   int
	large  int // the most members of a set
}

type collectionView struct {
	v   *View
	dbs []map[string]contents
}

func newCollectionModel(t *testing.T, keys, large int) *collectionModel {
	seed := seedOf(t)
	h, err := memory.New(memory.Options{Databases: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	m := &collectionModel{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: 1_000_000, keys: keys, large: large}
	m.k = New(h, Options{Databases: 2, StartMs: m.now, Seed: seed})
	registerFakes(m.k)
	m.k.SetNow(m.now)
	m.dbs = []map[string]contents{{}, {}}
	m.k.Hooks.Expired = func(db int, key []byte) { delete(m.dbs[db], string(key)) }
	var gone []string
	m.k.Hooks.FieldExpired = func(db int, key, field []byte) bool {
		y, ok := m.dbs[db][string(key)]
		if at := y.expires[string(field)]; !ok || at == 0 || at >= m.now {
			t.Fatalf("field %q of %q expires at %d; the model says %d", field, key, m.now, at)
		}
		y = y.clone()
		delete(y.fields, string(field))
		delete(y.expires, string(field))
		m.dbs[db][string(key)] = y
		gone = append(gone, string(field))
		return true
	}
	m.k.Hooks.FieldsExpired = func(db int, key []byte, fields [][]byte, emptied bool) {
		for i, name := range fields {
			if len(fields) != len(gone) || string(name) != gone[i] {
				t.Fatalf("of %q %q expired, and FieldsExpired gets %q", key, gone, fields)
			}
		}
		gone = nil
		if y := m.dbs[db][string(key)]; emptied != (len(y.fields) == 0) {
			t.Fatalf("%q has %d fields left, emptied %t", key, len(y.fields), emptied)
		}
		if emptied {
			delete(m.dbs[db], string(key))
		}
	}
	return m
}

func (m *collectionModel) key() []byte {
	n := m.rng.IntN(m.keys)
	if n%17 == 0 {
		return fmt.Appendf(nil, "%d%0*d", n, 300, n)
	}
	return fmt.Appendf(nil, "k%d", n)
}

// word returns an element. Some elements are long, so that a few dozen fill an entry.
func (m *collectionModel) word(n int) string {
	i := m.rng.IntN(n)
	return strconv.Itoa(i) + strings.Repeat("x", i%5*i%250/2)
}

func (m *collectionModel) step() {
	if m.rng.IntN(16) == 0 {
		m.relocate()
	}
	i := m.rng.IntN(2)
	db, key := m.k.DB(i), m.key()
	y, had := m.dbs[i][string(key)]
	if had && y.deadline != 0 && y.deadline < m.now {
		if db.Edit(key) != nil {
			m.t.Fatalf("%q is past its deadline", key)
		}
		had, y = false, contents{}
	}
	if !had {
		y = contents{t: []value.Type{value.List, value.Set, value.Hash}[m.rng.IntN(3)], fields: map[string]string{},
			expires: map[string]int64{}}
	}
	y = y.clone()
	switch op := m.rng.IntN(44); {
	case op < 20:
		for range 1 + m.rng.IntN(30) {
			word := m.word(m.large)
			switch y.t {
			case value.List:
				e := edit(db, key, value.List)
				at := 0
				for j := range m.rng.IntN(len(y.list) + 1) {
					at += 1 + len(y.list[j])
					if j+1 == len(y.list) {
						break
					}
				}
				n := 0
				for rest := at; rest > 0; n++ {
					rest -= 1 + len(y.list[n])
				}
				splice(e, at, 0, word)
				y.list = slices.Insert(y.list, n, word)
			case value.Set:
				fakeAdd(db, key, word)
				y.fields[word] = ""
			case value.Hash:
				val, deadline := m.word(100), int64(0)
				if m.rng.IntN(200) == 0 || len(y.expires) > 0 && m.rng.IntN(4) == 0 {
					deadline = m.now + 1 + m.rng.Int64N(5000)
				}
				fakeSetField(db, key, word, val, deadline)
				y.fields[word] = val
				if delete(y.expires, word); deadline != 0 {
					y.expires[word] = deadline
				}
			}
		}
		m.dbs[i][string(key)] = y
	case op < 27 && had && y.t == value.Set:
		for f := range maps.Clone(y.fields) {
			if m.rng.IntN(3) > 0 {
				fakeRemove(db, key, f)
				delete(y.fields, f)
			}
		}
		if m.dbs[i][string(key)] = y; len(y.fields) == 0 {
			delete(m.dbs[i], string(key))
		}
	case op < 27 && had && y.t == value.List:
		e := db.Edit(key)
		n := m.rng.IntN(len(y.list)) + 1
		del := n
		for _, el := range y.list[:n] {
			del += len(el)
		}
		splice(e, 0, del)
		if y.list = y.list[n:]; len(y.list) == 0 {
			db.Remove(e)
			delete(m.dbs[i], string(key))
		} else {
			m.dbs[i][string(key)] = y
		}
	case op < 29:
		if db.Delete(key) != had {
			m.t.Fatalf("Delete(%q) gives %t", key, !had)
		}
		delete(m.dbs[i], string(key))
	case op == 29 && had:
		y.deadline = 0
		if m.rng.IntN(2) == 0 {
			y.deadline = m.now + m.rng.Int64N(2000)
			db.SetDeadline(key, y.deadline)
		} else {
			db.Persist(key)
		}
		m.dbs[i][string(key)] = y
	case op == 30 && had:
		to := m.key()
		if db.Rename(key, to); string(to) != string(key) {
			delete(m.dbs[i], string(key))
			m.dbs[i][string(to)] = y
		}
	case op == 31 && had:
		to, j := m.key(), m.rng.IntN(2)
		if j != i || string(to) != string(key) {
			db.CopyTo(key, m.k.DB(j), to)
			m.dbs[j][string(to)] = y
		}
	case op == 32 && had:
		if db.MoveTo(key, m.k.DB(1-i)) {
			delete(m.dbs[i], string(key))
			m.dbs[1-i][string(key)] = y
		} else if !m.k.DB(1 - i).Peek(key).Exists() {
			m.t.Fatal("MoveTo")
		}
	case op == 33:
		m.k.Swap(0, 1)
		m.dbs[0], m.dbs[1] = m.dbs[1], m.dbs[0]
	case op == 34 && m.rng.IntN(50) == 0:
		db.Flush()
		m.dbs[i] = map[string]contents{}
	case op == 35:
		// Replace any value, packed or not, as STORE commands and loads do.
		y = contents{t: value.Set, fields: map[string]string{}}
		if m.rng.IntN(2) == 0 {
			members := []string{"a", "b"}
			y.fields["a"], y.fields["b"] = "", ""
			if m.rng.IntN(2) == 0 {
				long := strings.Repeat("l", 250)
				for i := range 40 {
					y.fields[long+strconv.Itoa(i)] = ""
					members = append(members, long+strconv.Itoa(i))
				}
			}
			db.PutPacked(key, value.Set, value.Listpack, packed(members...), 0)
		} else {
			t := table.New(m.k.heap, table.Member, m.k.store.Base)
			for range 1 + m.rng.IntN(m.large) {
				if w := m.word(m.large); y.fields != nil {
					if _, in := y.fields[w]; !in {
						t.Insert(table.Hash([]byte(w)), table.NewMember(m.k.heap, []byte(w)), table.Never)
						y.fields[w] = ""
					}
				}
			}
			root := m.k.store.NewRoot(kindFakeSet, 72)
			fakeAt(root).members = t.State()
			db.PutRoot(key, value.Set, value.HashTable, root, 0)
		}
		m.dbs[i][string(key)] = y
	case op == 36:
		m.now += m.rng.Int64N(60)
		m.k.SetNow(m.now)
		for more := true; more; {
			_, more = m.k.ExpireDue(time.Second)
		}
		for _, keys := range m.dbs {
			for key, y := range keys {
				for f, at := range y.expires {
					if at+32 < m.now {
						m.t.Fatalf("field %q of %q is %d ms late", f, key, m.now-at)
					}
				}
			}
		}
	case op == 37 && len(m.views) < 4 && m.rng.IntN(4) == 0:
		m.views = append(m.views, collectionView{m.k.Freeze(), []map[string]contents{maps.Clone(m.dbs[0]),
			maps.Clone(m.dbs[1])}})
	case op == 38 && len(m.views) > 0 && m.rng.IntN(4) == 0:
		m.leave(m.rng.IntN(len(m.views)))
	case op == 39 && had && y.t != value.List:
		fakeRepack(db, key)
		y.expires = map[string]int64{}
		m.dbs[i][string(key)] = y
	case op == 40 && had:
		fakeReroot(db, key)
	case op <= 42 && had && y.t == value.Set:
		j, to := m.rng.IntN(2), m.key()
		z, there := m.dbs[j][string(to)]
		if there && z.deadline != 0 && z.deadline < m.now {
			m.k.DB(j).Lookup(to)
			there = false
		}
		if i == j && string(key) == string(to) || there && z.t != value.Set {
			return
		}
		if z = z.clone(); !there {
			z = contents{t: value.Set, fields: map[string]string{}}
		}
		var some []string
		for f := range y.fields {
			if m.rng.IntN(2) == 0 {
				some = append(some, f)
			}
		}
		if len(some) == 0 {
			return
		}
		fakeMove(db, key, m.k.DB(j), to, some)
		for _, f := range some {
			delete(y.fields, f)
			z.fields[f] = ""
		}
		m.dbs[i][string(key)], m.dbs[j][string(to)] = y, z
		if len(y.fields) == 0 {
			delete(m.dbs[i], string(key))
		}
	case op == 43:
		m.k.heap.Drain(1000)
		if job, _ := m.k.heap.TakeJob(); job != nil {
			for !job(50) {
			}
		}
	}
}

// leave reads a view, which reports its progress to the heap, and closes it.
func (m *collectionModel) leave(j int) {
	view := m.views[j]
	for i, want := range view.dbs {
		n := 0
		for part := range 3 {
			view.v.Walk(i, part, 3, func(v value.Value) bool {
				if n++; n%3 == 0 { // passed memory may be freed now
					m.k.heap.Drain(100)
				}
				m.same("view", v, want)
				return true
			})
		}
		if n != len(want) {
			m.t.Fatalf("view: %d keys of %d", n, len(want))
		}
	}
	view.v.Close()
	m.views = slices.Delete(m.views, j, j+1)
}

func (m *collectionModel) same(where string, v value.Value, want map[string]contents) {
	y, ok := want[string(v.Key())]
	if !ok {
		m.t.Fatalf("%s: %q is there", where, v.Key())
	}
	if got, text := fakeText(v), y.text(); got != text || v.Deadline() != y.deadline {
		m.t.Fatalf("%s: %q is %.100q (%d) until %d, should be %.100q (%d) until %d",
			where, v.Key(), got, len(got), v.Deadline(), text, len(text), y.deadline)
	}
	if v.Long() {
		m.t.Fatalf("%s: %q counts as a long string", where, v.Key())
	}
}

func (m *collectionModel) check() {
	for i, want := range m.dbs {
		db := m.k.DB(i)
		for _, t := range []*table.Table{&db.d.t.Table, &db.d.fields} {
			if err := t.Check(); err != nil {
				m.t.Fatal(err)
			}
		}
		if db.Len() != len(want) {
			m.t.Fatalf("db %d has %d keys, should %d", i, db.Len(), len(want))
		}
		db.All(func(v value.Value) bool {
			m.same("live", v, want)
			if v.Packed() == nil {
				layout := table.Member
				if v.Type() == value.Hash {
					layout = table.Field
				}
				t := table.Open(m.k.heap, layout, &fakeAt(v.Root()).members, false)
				if err := t.Check(); err != nil {
					m.t.Fatal(err)
				}
			}
			return true
		})
		// keyspace.F1, keyspace.F2
		db.d.fields.All(func(ref memory.Ref) bool {
			if y, ok := want[string(value.At(ref).Key())]; !ok || y.t != value.Hash {
				m.t.Fatalf("keyspace.F1: %q is no hash", value.At(ref).Key())
			}
			return true
		})
		for key, y := range want {
			for _, at := range y.expires {
				if d := db.FieldsDeadline([]byte(key)); d == 0 || d > at {
					m.t.Fatalf("keyspace.F2: %q is looked at at %d, has a field due at %d", key, d, at)
				}
			}
		}
	}
}

func (m *collectionModel) run(steps, every int) {
	empty := m.k.heap.Used()
	for i := range steps {
		m.step()
		if i%every == 0 {
			m.check()
		}
	}
	m.check()
	for len(m.views) > 0 {
		m.leave(0)
	}
	for i := range m.dbs {
		m.k.DB(i).Flush()
	}
	reclaim(m.k)
	if used := m.k.heap.Used(); used != empty {
		m.t.Fatalf("%d bytes of stored values are left; empty databases take %d", used-empty, empty)
	}
}

// TestCollectionModel makes the same random steps on collections of every form and on Go maps. Views are read and
// closed meanwhile.
func TestCollectionModel(t *testing.T) { newCollectionModel(t, 12, 700).run(scaled(6_000), 20) }

func TestCollectionModelMany(t *testing.T) { newCollectionModel(t, 400, 40).run(scaled(20_000), 500) }

func TestCollectionModelLarge(t *testing.T) { newCollectionModel(t, 3, 4000).run(scaled(4_000), 40) }

func newFakeKeyspace(t testing.TB) *Keyspace {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	k := New(h, Options{StartMs: 1_000_000})
	registerFakes(k)
	return k
}

// TestMemberBytes limits the full cost of a member of a large set.
func TestMemberBytes(t *testing.T) {
	k := newFakeKeyspace(t)
	before, n := k.heap.Used(), scaled(200_000)
	fakeMany(k.DB(0), []byte("s"), n) // 7 bytes at most
	used := float64(k.heap.Used()-before) / float64(n)
	t.Logf("%.1f bytes a member, of which 8 are its block", used)
	if used > 8+13 { // the index's share varies with the fill of its segments
		t.Errorf("%.1f bytes a member", used)
	}
	v := k.DB(0).Peek([]byte("s"))
	for _, samples := range []int{0, 5} {
		if cost := float64(k.MemoryUsage(v, samples)) / float64(n); cost < used-1 || cost > used+1 {
			t.Errorf("MEMORY USAGE, %d samples: %.1f bytes a member, should be %.1f", samples, cost, used)
		}
	}
}

// TestFreeingIsShort: removing or replacing a large collection costs the turn a constant time, and a view can still
// read the collection. The bound, in CPU time, is a quarter of what freeing it all would take. The shortest of a few
// tries counts.
func TestFreeingIsShort(t *testing.T) {
	n, tries := 200_000, 6
	if invariant.Enabled { // such builds are slow, and time does not matter in them
		n, tries = 5_000, 1
	}
	ways := map[string]func(db *DB){
		"delete":  func(db *DB) { db.Delete([]byte("s")) },
		"replace": func(db *DB) { db.SetString([]byte("s"), []byte("x"), 0) },
		"flush":   func(db *DB) { db.Flush() },
		"expire": func(db *DB) {
			db.SetDeadline([]byte("s"), 1)
			if v := db.Lookup([]byte("s")); v.Exists() {
				t.Error("not expired")
			}
		},
		"rename over": func(db *DB) { db.SetString([]byte("x"), nil, 0); db.Rename([]byte("x"), []byte("s")) },
		"rename":      func(db *DB) { db.Rename([]byte("s"), []byte("t")); db.Delete([]byte("t")) },
		"move":        func(db *DB) { db.MoveTo([]byte("s"), db.k.DB(1)); db.k.DB(1).Delete([]byte("s")) },
		"evict":       func(db *DB) { db.k.Policy = AllKeysLRU; db.k.EvictOne(); db.k.Policy = NoEviction },
	}
	k := newFakeKeyspace(t)
	empty := k.heap.Used()
	const limit = time.Millisecond
	for name, f := range ways {
		for _, frozen := range []bool{false, true} {
			best := time.Hour
			for try := 0; try < tries && best > limit; try++ { // a hypervisor may have stopped the processor
				db := k.DB(0)
				fakeMany(db, []byte("s"), n)
				var view *View
				if frozen {
					view = k.Freeze()
					view.Keep()
				}
				best = min(best, steps(1, func(int) { f(db) })[0])
				if db.Len() > 1 || name != "replace" && name != "rename over" && db.Len() != 0 {
					t.Errorf("%s: %d keys are left", name, db.Len())
				}
				if frozen {
					reclaim(k) // everything that may be freed is freed
					if v := view.Get(0, []byte("s")); fakeAt(v.Root()).members.Len() != n || strings.Count(fakeText(v), ",") != n-1 {
						t.Errorf("%s: the view has lost members", name)
					}
					view.Close()
				}
				if objects, _ := k.heap.LazyObjects(); objects != 1 && !frozen {
					t.Errorf("%s: %d objects wait to be freed", name, objects)
				}
				db.Flush()
				reclaim(k)
				if used := k.heap.Used(); used != empty {
					t.Fatalf("%s, frozen %t: %d bytes are left", name, frozen, used-empty)
				}
			}
			t.Logf("%s, frozen %t: %v", name, frozen, best)
			if best > limit && !invariant.Enabled {
				t.Errorf("%s, frozen %t: %v", name, frozen, best)
			}
		}
	}
}

// TestEditDoesNotAllocate: an Edit allocates nothing on the Go heap.
func TestEditDoesNotAllocate(t *testing.T) {
	k := newFakeKeyspace(t)
	db := k.DB(0)
	fakeMany(db, []byte("big"), 1000)
	db.PutPacked([]byte("small"), value.List, value.Listpack, packed("a", "b"), 0)
	key, big, member := []byte("small"), []byte("big"), []byte("another")
	if n := testing.AllocsPerRun(200, func() {
		e := db.Edit(key)
		b := sign(e.Splice(8, 0, 9), 3)
		b[8] = 8
		sign(e.Splice(8, 9, 0), 2)
		root, tab := openFake(db.Edit(big), table.Member)
		hash := table.Hash(member)
		tab.Insert(hash, table.NewMember(k.heap, member), table.Never)
		p, ref := tab.Find(hash, member)
		tab.Release(ref, tab.Remove(&p))
		root.members = tab.State()
		db.Touched(key)
	}); n != 0 {
		t.Errorf("%.1f allocations", n)
	}
}

// TestHooksForBlockedClients: the hooks for blocked clients are called exactly for the changes that may serve such a
// client, and only while a client waits.
func TestHooksForBlockedClients(t *testing.T) {
	k := newFakeKeyspace(t)
	var heard []string
	note := func(what string) func(int, []byte) {
		return func(db int, key []byte) { heard = append(heard, fmt.Sprintf("%s %d:%s", what, db, key)) }
	}
	k.Hooks.Ready, k.Hooks.Gone = note("ready"), note("gone")
	k.Hooks.Whole = func(db int) { heard = append(heard, fmt.Sprintf("whole %d", db)) }
	db, other := k.DB(0), k.DB(1)
	put := func(key string, typ value.Type) { db.PutPacked([]byte(key), typ, value.Listpack, packed("a"), 0) }
	for _, c := range []struct {
		name string
		do   func()
		want string
	}{
		{"a list comes", func() { edit(db, []byte("l"), value.List) }, "ready 0:l"},
		{"it changes", func() { splice(db.Edit([]byte("l")), 0, 0, "a") }, ""},
		{"a set comes", func() { put("s", value.Set) }, ""},
		{"it becomes a sorted set", func() { put("s", value.ZSet) }, "ready 0:s"},
		{"it is renamed", func() { db.Rename([]byte("s"), []byte("t")) }, "ready 0:t"},
		{"it is moved", func() { db.MoveTo([]byte("t"), other) }, "ready 1:t"},
		{"it is copied", func() { other.CopyTo([]byte("t"), db, []byte("c")) }, "ready 0:c"},
		{"it goes", func() { db.Delete([]byte("c")) }, ""},
		{"a stream comes", func() { put("x", value.Stream) }, "ready 0:x"},
		{"it grows", func() { db.Signal([]byte("x")) }, "ready 0:x"},
		{"it is renamed", func() { db.Rename([]byte("x"), []byte("y")) }, "gone 0:x,ready 0:y"},
		{"it becomes a string", func() { db.SetString([]byte("y"), []byte("1"), 0) }, "gone 0:y"},
		{"another goes", func() { put("z", value.Stream); db.Delete([]byte("z")) }, "ready 0:z,gone 0:z"},
		{"another expires", func() {
			put("e", value.Stream)
			db.SetDeadline([]byte("e"), 1)
			k.SetNow(k.Now() + 16) // one tick
			k.ExpireDue(time.Second)
		}, "ready 0:e,gone 0:e"},
		{"databases are swapped", func() { k.Swap(0, 1) }, "whole 0,whole 1"},
		{"one is flushed", func() { db.Flush() }, "whole 0"},
	} {
		k.Blocking, heard = 1, nil
		c.do()
		if got := strings.Join(heard, ","); got != c.want {
			t.Errorf("%s: heard %q, should %q", c.name, got, c.want)
		}
	}
	if k.Blocking, heard = 0, nil; true {
		put("l", value.List)
		db.Flush()
		if len(heard) != 0 {
			t.Errorf("no client waits, but the hooks got %q", heard)
		}
	}
}

// relocate does the next step of a walk that moves every block.
func (m *collectionModel) relocate() {
	memorytest.Relocate(m.k.heap, m.rng.IntN(40), func(stop func() bool) bool {
		over := m.k.Defragment(&m.defrag, stop)
		if over {
			m.defrag = Defrag{}
		}
		return over
	})
}
