package keyspace

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/slots"
	"spindle/tests/testkit"
	"spindle/tests/testkit/memorytest"
)

// modelKey is a key in the model.
type modelKey struct {
	text     string
	deadline int64
}

type modelDB map[string]modelKey

// model is the simplest correct implementation: Go maps, copied whole for each view.
type model struct {
	defrag Defrag
	t      *testing.T
	rng    *rand.Rand
	k      *Keyspace
	dbs    []modelDB
	views  []modelView
	pins   []modelPin
	now    int64
	keys   int
	big    bool

	last []byte
}

type modelView struct {
	v    *View
	keep bool
	dbs  []modelDB
}

type modelPin struct {
	v       value.Value
	pieces  [][]byte
	text    string
	release func()
}

func seedOf(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay with SEED=%d", seed)
	return seed
}

func newModel(t *testing.T, dbs, keys int, big bool) *model {
	return newModelBy(t, dbs, keys, big, false)
}

// newModelBy is newModel, with hash slots if bySlot is set.
func newModelBy(t *testing.T, dbs, keys int, big, bySlot bool) *model {
	seed := seedOf(t)
	h, err := memory.New(memory.Options{Databases: dbs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	k := New(h, Options{Databases: dbs, StartMs: 1_000_000, Seed: seed, Slots: bySlot})
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 1)), k: k, now: 1_000_000, keys: keys, big: big}
	for range dbs {
		m.dbs = append(m.dbs, modelDB{})
	}
	k.SetNow(m.now)
	k.Hooks.Expired = func(db int, key []byte) {
		e, ok := m.dbs[db][string(key)]
		if !ok || e.deadline == 0 || e.deadline >= m.now {
			t.Fatalf("%q of db %d expires at %d; the model has %v", key, db, m.now, e)
		}
		delete(m.dbs[db], string(key))
	}
	return m
}

// key returns one of the keys, often as the same slice as before (Keyspace.Again).
func (m *model) key() []byte {
	if m.last != nil && m.rng.IntN(2) == 0 {
		return m.last
	}
	n := m.rng.IntN(m.keys)
	if n%97 == 0 {
		m.last = fmt.Appendf(nil, "%d%0*d", n, 300, n) // a wide one
	} else {
		m.last = fmt.Appendf(nil, "k%d", n)
	}
	if m.k.BySlot() && n%2 == 0 { // half the keys in a few slots
		m.last = fmt.Appendf(m.last, "{%d}", n%6)
	}
	if m.k.Again(nil); m.rng.IntN(4) > 0 {
		m.k.Again(m.last)
	}
	return m.last
}

func (m *model) text() []byte {
	switch n := m.rng.IntN(20); {
	case n < 4:
		return strconv.AppendInt(nil, int64(m.rng.Uint64())>>m.rng.IntN(64), 10)
	case n == 4:
		return nil
	case n == 5 && m.big:
		return m.random(m.rng.IntN(400_000))
	case n == 6:
		return m.random(m.rng.IntN(12_000))
	default:
		return m.random(m.rng.IntN(100))
	}
}

func (m *model) random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + m.rng.IntN(26))
	}
	return b
}

func (m *model) deadline() int64 {
	if m.rng.IntN(3) > 0 {
		return 0
	}
	return m.now + m.rng.Int64N(5000)
}

// live returns the model's key, and false if it is missing or past its deadline.
func (m *model) live(db int, key []byte) (modelKey, bool) {
	e, ok := m.dbs[db][string(key)]
	if ok && e.deadline != 0 && e.deadline < m.now {
		return modelKey{}, false
	}
	return e, ok
}

func (m *model) put(db int, key []byte, text string, deadline int64) {
	m.dbs[db][string(key)] = modelKey{text, deadline}
}

func (m *model) step() {
	if m.rng.IntN(16) == 0 {
		m.relocate()
	}
	i := m.rng.IntN(len(m.dbs))
	db, key := m.k.DB(i), m.key()
	old, had := m.live(i, key)
	switch op := m.rng.IntN(24); op {
	case 0, 1, 2, 3:
		text, deadline := m.text(), m.deadline()
		if m.rng.IntN(3) == 0 {
			deadline = KeepTTL
		}
		created := db.SetString(key, text, deadline)
		if deadline == KeepTTL {
			deadline = old.deadline
		}
		if created == had {
			m.t.Fatalf("SetString(%q) created %t, was there %t", key, created, had)
		}
		m.put(i, key, string(text), deadline)
	case 4:
		n := m.rng.Int64()
		if at := db.Counter(key); at != nil && m.rng.IntN(4) != 0 {
			if got := strconv.FormatInt(*at, 10); got != old.text {
				m.t.Fatalf("Counter gives %s, want %q", got, old.text)
			}
			*at = n
			db.Touched(key)
			m.put(i, key, strconv.FormatInt(n, 10), old.deadline)
			break
		}
		db.SetInt(key, n, 0)
		m.put(i, key, strconv.FormatInt(n, 10), 0)
	case 5, 6:
		text := m.text()
		n := db.Append(key, text)
		if n != len(old.text)+len(text) {
			m.t.Fatalf("Append gives %d", n)
		}
		m.put(i, key, old.text+string(text), old.deadline)
	case 7, 8:
		off, text := m.rng.IntN(2*len(old.text)+10), m.random(m.rng.IntN(50)+1)
		if m.big && m.rng.IntN(20) == 0 {
			off += m.rng.IntN(300_000)
		}
		n := db.SetRange(key, off, text)
		b := []byte(old.text)
		if len(b) < off+len(text) {
			b = append(b, make([]byte, off+len(text)-len(b))...)
		}
		copy(b[off:], text)
		if n != len(b) {
			m.t.Fatalf("SetRange gives %d, should %d", n, len(b))
		}
		m.put(i, key, string(b), old.deadline)
	case 9, 10, 11:
		if db.Delete(key) != had {
			m.t.Fatalf("Delete(%q) gives %t", key, !had)
		}
		delete(m.dbs[i], string(key))
	case 12:
		if had {
			deadline := m.now + m.rng.Int64N(3000)
			db.SetDeadline(key, deadline)
			m.put(i, key, old.text, deadline)
		}
	case 13:
		if had && db.Persist(key) != (old.deadline != 0) {
			m.t.Fatalf("Persist(%q)", key)
		}
		if had {
			m.put(i, key, old.text, 0)
		}
	case 14:
		to := m.key()
		if db.Rename(key, to) != had {
			m.t.Fatalf("Rename(%q) gives %t", key, !had)
		}
		if had && !bytes.Equal(key, to) {
			delete(m.dbs[i], string(key))
			m.put(i, to, old.text, old.deadline)
		}
	case 15:
		j, to := m.rng.IntN(len(m.dbs)), m.key()
		if i == j && bytes.Equal(key, to) {
			return
		}
		if db.CopyTo(key, m.k.DB(j), to) != had {
			m.t.Fatalf("CopyTo(%q) gives %t", key, !had)
		}
		if had {
			m.put(j, to, old.text, old.deadline)
		}
	case 16:
		j := m.rng.IntN(len(m.dbs))
		_, blocked := m.live(j, key)
		if ok := db.MoveTo(key, m.k.DB(j)); ok != (had && !blocked && i != j) {
			m.t.Fatalf("MoveTo gives %t", ok)
		} else if ok {
			delete(m.dbs[i], string(key))
			m.put(j, key, old.text, old.deadline)
		}
	case 17:
		if m.rng.IntN(40) == 0 {
			if n := db.Flush(); n != len(m.dbs[i]) {
				m.t.Fatalf("Flush gives %d of %d", n, len(m.dbs[i]))
			}
			m.dbs[i] = modelDB{}
		}
	case 18:
		j := m.rng.IntN(len(m.dbs))
		m.k.Swap(i, j)
		m.dbs[i], m.dbs[j] = m.dbs[j], m.dbs[i]
	case 19:
		m.now += m.rng.Int64N(100)
		m.k.SetNow(m.now)
		if m.rng.IntN(3) == 0 {
			for more := true; more; {
				_, more = m.k.ExpireDue(time.Second)
			}
			for j, keys := range m.dbs { // table.D4: no key left is due by more than a tick
				if m.keys > 1000 && m.rng.IntN(20) > 0 {
					break
				}
				for key, e := range keys {
					if e.deadline != 0 && e.deadline+16 < m.now {
						m.t.Fatalf("%q of db %d is still there %d ms late", key, j, m.now-e.deadline)
					}
				}
			}
		}
	case 20:
		m.views = append(m.views, modelView{v: m.k.Freeze(), keep: m.rng.IntN(2) == 0, dbs: m.cloned()})
		if v := &m.views[len(m.views)-1]; v.keep {
			v.v.Keep()
		}
	case 21:
		if len(m.views) > 3 || len(m.views) > 0 && m.rng.IntN(3) == 0 {
			j := m.rng.IntN(len(m.views))
			m.readView(m.views[j])
			if !m.views[j].keep || m.rng.IntN(2) == 0 {
				m.views[j].v.Close()
				m.views[j].v.Close()
				m.views = slices.Delete(m.views, j, j+1)
			}
		}
	case 22:
		if v := db.Lookup(key); v.Exists() && v.Long() && len(m.pins) < 6 {
			p := modelPin{text: old.text, release: db.Pin(v)}
			for c := range v.Chunks {
				p.pieces = append(p.pieces, c)
			}
			m.pins = append(m.pins, p)
		}
		if len(m.pins) > 3 {
			m.unpin(m.rng.IntN(len(m.pins)))
		}
	case 23:
		m.k.heap.Drain(1000)
		if job, _ := m.k.heap.TakeJob(); job != nil {
			for !job(50) {
			}
		}
	}
}

func (m *model) unpin(i int) {
	p := m.pins[i]
	if got := bytes.Join(p.pieces, nil); string(got) != p.text {
		m.t.Fatalf("a pinned value of %d bytes has changed", len(p.text))
	}
	p.release()
	m.pins = slices.Delete(m.pins, i, i+1)
}

func (m *model) cloned() (dbs []modelDB) {
	for _, db := range m.dbs {
		dbs = append(dbs, maps.Clone(db))
	}
	return dbs
}

func (m *model) same(where string, v value.Value, want modelKey) {
	if got := string(v.AppendTo(nil)); got != want.text || v.Deadline() != want.deadline || v.Len() != len(want.text) {
		m.t.Fatalf("%s: %q is %.40q… (%d) until %d, should be %.40q… (%d) until %d",
			where, v.Key(), got, len(got), v.Deadline(),
			want.text, len(want.text), want.deadline)
	}
	if n := len(want.text); n > 0 {
		a := m.rng.IntN(n)
		b := a + m.rng.IntN(n-a+1)
		if string(v.Range(a, b, nil)) != want.text[a:b] {
			m.t.Fatalf("%s: Range(%d, %d) of %q", where, a, b, v.Key())
		}
	}
}

func (m *model) readView(mv modelView) {
	for i, want := range mv.dbs {
		seen := map[string]bool{}
		parts := 1 + m.rng.IntN(5)
		for part := range parts {
			mv.v.Walk(i, part, parts, func(v value.Value) bool {
				key := string(v.Key())
				e, ok := want[key]
				if !ok || seen[key] {
					m.t.Fatalf("view: %q in db %d: there %t, seen %t", key, i, ok, seen[key])
				}
				seen[key] = true
				m.same("view", v, e)
				return true
			})
		}
		if len(seen) != len(want) || mv.v.Len(i) != len(want) {
			m.t.Fatalf("view: %d keys of db %d, Len %d, should be %d", len(seen), i, mv.v.Len(i), len(want))
		}
		if mv.keep {
			for key, e := range want {
				m.same("view.Get", mv.v.Get(i, []byte(key)), e)
				break
			}
		}
	}
}

func (m *model) check() {
	m.k.CheckSizes(1 << 20)
	for i, want := range m.dbs {
		db := m.k.DB(i)
		if err := db.d.t.Check(); err != nil {
			m.t.Fatal(err)
		}
		if db.Len() != len(want) {
			m.t.Fatalf("db %d has %d keys, should %d", i, db.Len(), len(want))
		}
		volatile, steps := 0, uint64(0)
		db.All(func(v value.Value) bool {
			e, ok := want[string(v.Key())]
			if !ok {
				m.t.Fatalf("%q is in db %d", v.Key(), i)
			}
			m.same("live", v, e)
			if e.deadline != 0 {
				volatile++
				steps += table.Steps(db.d.t.Tick(e.deadline))
			}
			return true
		})
		if volatile != db.Volatile() || steps != db.d.t.Steps {
			m.t.Fatalf("db %d: %d volatile, should %d; steps %d, should %d", i, db.Volatile(), volatile, db.d.t.Steps, steps)
		}
	}
}

// reclaim runs the reclaimers' jobs until everything retired is freed.
func reclaim(k *Keyspace) {
	for {
		k.store.Unpin()
		more := k.heap.Drain(1 << 20)
		job, _ := k.heap.TakeJob()
		if job == nil {
			if !more {
				return
			}
			continue
		}
		for !job(100) {
		}
	}
}

// checkSlots compares the slot counts of all databases with the model's keys.
func (m *model) checkSlots() {
	all := map[uint16]int{}
	for at := range m.dbs {
		db, inSlots := m.k.DB(at), map[uint16]int{}
		for key := range m.dbs[at] {
			inSlots[slots.Of([]byte(key))]++
			all[slots.Of([]byte(key))]++
		}
		for slot := range uint16(slots.Count) {
			want := inSlots[slot]
			if n := db.InSlot(slot); n != want {
				m.t.Fatalf("slot %d of database %d has %d keys, should %d", slot, at, n, want)
			}
			if want == 0 && slot%64 != 0 {
				continue
			}
			for _, limit := range []int{want + 1, want, want / 2} {
				n := 0
				db.EachInSlot(slot, limit, func(v value.Value) {
					if _, ok := m.dbs[at][string(v.Key())]; !ok || slots.Of(v.Key()) != slot {
						m.t.Fatalf("%q is not of slot %d of database %d", v.Key(), slot, at)
					}
					n++
				})
				if n != min(limit, want) {
					m.t.Fatalf("%d keys of slot %d of database %d, should be %d", n, slot, at, min(limit, want))
				}
			}
		}
	}
	for slot := range uint16(slots.Count) {
		if n := m.k.InSlot(slot); n != all[slot] {
			m.t.Fatalf("slot %d has %d keys in all, should %d", slot, n, all[slot])
		}
	}
}

func (m *model) run(steps, every int) {
	empty := m.k.heap.Used()
	for i := range steps {
		m.step()
		if i%every == 0 {
			m.check()
			if m.k.BySlot() && i%(100*every) == 0 {
				m.checkSlots()
			}
		}
	}
	m.check()
	m.end(empty)
}

// end removes everything and checks that the memory used is that of empty databases.
func (m *model) end(empty int64) {
	m.t.Helper()
	for len(m.pins) > 0 {
		m.unpin(0)
	}
	for _, v := range m.views {
		m.readView(v)
		v.v.Close()
	}
	for i := range m.dbs {
		m.k.DB(i).Flush()
	}
	reclaim(m.k)
	if used := m.k.heap.Used(); used != empty {
		m.t.Fatalf("%d bytes of stored values are left; empty databases take %d", used-empty, empty)
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

func TestModelSmall(t *testing.T) { newModel(t, 3, 40, true).run(scaled(8_000), 5) }

func TestModelMany(t *testing.T) { newModel(t, 2, 4000, false).run(scaled(20_000), 4000) }

func TestModelSlots(t *testing.T) { newModelBy(t, 2, 60, true, true).run(scaled(2_000), 5) }

func TestModelManyInSlots(t *testing.T) { newModelBy(t, 1, 4000, false, true).run(scaled(40_000), 400) }

// relocate does the next step of a walk that moves every block.
func (m *model) relocate() {
	memorytest.Relocate(m.k.heap, m.rng.IntN(40), func(stop func() bool) bool {
		over := m.k.Defragment(&m.defrag, stop)
		if over {
			m.defrag = Defrag{}
		}
		return over
	})
}
